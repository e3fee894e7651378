"""The README's kernel runs as printed, and gives what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_kernel_of_the_readme(tmp_path):
    text = README.read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code
    program = tmp_path / "sines.py"
    program.write_text(code.group(1))
    said = re.search(r"print\(.*\)\s+# (\[.*\])", code.group(1))
    assert said
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == said.group(1), run.stderr


def test_the_first_part_is_short():
    head = README.read_text().split("\n## ")[0]
    assert len(head.splitlines()) <= 42
