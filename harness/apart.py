"""Runs a script or a module as a program that imports nothing from the folder it lies in or is started in, which may be
a stranger's: `python FILE` and `python -m NAME` would look there first.

Started as a script of its own, it imports nothing of this project.
"""
from __future__ import annotations

import os
import runpy
import sys


def script_command(python: str, path: str) -> list[str]:
    """The command that runs a file so."""
    return [python, os.path.abspath(__file__), "script", path]


def module_command(python: str, name: str) -> list[str]:
    """The command that runs a module so."""
    return [python, os.path.abspath(__file__), "module", name]


def main() -> None:
    """Take the folder of this file off the path, then run what is named."""
    sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != os.path.dirname(os.path.abspath(__file__))]
    kind, name = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    if kind == "module":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    main()
