"""Test the README: the kernel gives the stated results, commands run, and the IR listing is what the compiler makes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402

TEXT = doc_pages.text_of("README.md")
ONCE = ("python3 -m venv", "pip install")
"""Commands that change the machine: they are not run here."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code
    path = tmp_path / "sines.py"
    path.write_text(code[1], encoding="utf-8")
    return path


def run(command: str, folder: Path) -> str:
    """What a command of the page prints; `stackgrad` and `python` are those of this environment."""
    words = command.split()
    words[:1] = {"stackgrad": [sys.executable, "-m", "stackgrad"], "python": [sys.executable]}[words[0]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_kernel_of_the_readme(program: Path) -> None:
    said = re.search(r"print\(.*\)\s+# (\[.*\])", program.read_text(encoding="utf-8"))
    assert said
    assert run("python sines.py", program.parent).strip() == said[1]


@pytest.mark.expensive
def test_the_commands_run(program: Path) -> None:
    found = [command for command in doc_pages.commands(TEXT) if not command.startswith(ONCE)]
    assert len(found) >= 4
    for command in found:
        run(command, program.parent)


def plain(line: str) -> str:
    """A line of IR without the numbers of values and stacks, which any pass may change."""
    return re.sub(r"%\d+", "%", re.sub(r"\bs\d+", "s", line)).strip()


def test_the_listing_is_what_is_made(program: Path) -> None:
    shown = re.search(r"\(`(stackgrad ir .*?)`\).*?\n```\n(.*?)```", TEXT, re.DOTALL)
    assert shown
    cells = [
        plain(cell) for line in shown[2].splitlines() for cell in re.split(r" {3,}", line.rstrip()) if cell.strip()
    ]
    made = run(shown[1], program.parent).split("// sines: ")
    gradient = [part for part in made if "adstack_pop" in part][-1]
    assert [cell for cell in cells if cell not in map(plain, gradient.splitlines())] == []


def test_the_first_part_is_short() -> None:
    assert len(TEXT.split("\n## ")[0].splitlines()) <= 42
