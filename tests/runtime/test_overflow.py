"""What an overflow of a Python kernel says: everything, also when its code comes from the disk; then work goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("overflowing.py")
LINE = 1 + next(k for k, line in enumerate(PROGRAM.read_text().splitlines()) if "speed = sg.sin(speed)" in line)


def messages(folder: Path, threads: int) -> tuple[str, str]:
    """Of two overflows in a process with its cache in this folder."""
    environment = {**os.environ, "STACKGRAD_CACHE": "1", "STACKGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, str(PROGRAM), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return "\n".join(lines[: len(lines) // 2]), "\n".join(lines[len(lines) // 2 :])


@pytest.mark.rotating
@pytest.mark.parametrize("threads", [1, 2])
def test_the_message_is_whole_before_and_after_a_reload(tmp_path: Path, threads: int) -> None:
    first, second = messages(tmp_path, threads)
    for part in (
        f"overflowing.py:{LINE}",
        "the history of speed",
        "it holds 10 values",
        "published capacities: ",
        "kernel twenty_sines",
        "task 0",
        "capacity 20, a new count gives 20",
    ):
        assert part in first, first
    assert first == second
    assert any(tmp_path.rglob("*")), "code was kept"
    assert messages(tmp_path, threads) == (first, first)
