"""Processes that import nothing from the folder they are started in, or that their script lies in.

It may be a stranger's, and `python FILE`, `python -c` and `python -m` look there first.

Started as a script of its own, this runs another script so; it imports nothing of this project.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALONE = "import sys; sys.path[:] = [p for p in sys.path if p]; "
"""What a text for `python -c` begins with, whatever the version of that Python."""
_SAFE = "PYTHONSAFEPATH"


def script_command(python: str, path: str) -> list[str]:
    """The command by which any Python runs a file so."""
    return [python, os.path.abspath(__file__), path]


@contextmanager
def starting() -> Iterator[None]:
    """Processes of Python that are started inside are such ones, as are those that they start."""
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = before


def main() -> None:
    """Take the folder of this file off the path, then run the script."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != own]
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
