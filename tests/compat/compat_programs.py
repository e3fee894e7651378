"""Run programs of the peers in processes of their own, because they import names that stackgrad stands for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def run(
    path: Path,
    text: str,
    peer: str = "quadrants",
    arguments: tuple[str, ...] = (),
    given: Mapping[str, str] | None = None,
) -> str:
    """Run a program under a peer's name, and return what it printed; it must end well.

    Args:
        path: Folder in which the program is written.
        text: The program.
        peer: The peer.
        arguments: Arguments of the program.
        given: Further environment variables.
    """
    script = path / "program.py"
    script.write_text(text)
    command = [sys.executable, "-W", "always", "-m", "stackgrad.compat", peer, str(script), *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=path, env={**os.environ, **(given or {})}, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
