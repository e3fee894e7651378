"""Run a program of Quadrants or Taichi on stackgrad: `python -m stackgrad.compat quadrants SCRIPT ARGS...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from .children import reach
from .finder import install
from .peers import PEERS

USAGE = f"usage: python -m stackgrad.compat {{{','.join(PEERS)}}} (SCRIPT | -m MODULE) [ARGS...]"


def main(argv: list[str]) -> int:
    """Run the program that the arguments name, as Python itself would. Return the exit status of a mistaken call.

    Args:
        argv: The arguments of the process without the name of this module.
    """
    if len(argv) < 2 or argv[0] not in PEERS or (argv[1] == "-m" and len(argv) < 3):
        print(USAGE, file=sys.stderr)
        return 2
    peer, first, *rest = argv
    install(peer)
    reach(peer)
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    if not Path(first).exists():
        print(f"{first} does not exist\n{USAGE}", file=sys.stderr)
        return 2
    sys.argv = [first, *rest]
    sys.path.insert(0, str(Path(first).resolve().parent))
    runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
