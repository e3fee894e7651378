"""Start Python processes that import nothing from the current folder or from the folder of their script.

Such a folder may belong to a stranger, and `python FILE`, `python -c` and `python -m` look for modules there first.

If this file is run as a script, it runs another script in this way. It imports nothing of this project.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALONE = "import sys; sys.path[:] = [p for p in sys.path if p]; "
"""Start of a text for `python -c` that takes the current folder off the path. It works in every version of Python."""
_SAFE = "PYTHONSAFEPATH"


def script_command(python: str, path: str) -> list[str]:
    """Return the command by which any Python interpreter runs a file without imports from the folder of the file."""
    return [python, os.path.abspath(__file__), path]


@contextmanager
def protect_imports() -> Iterator[None]:
    """Make all Python processes that are started in the `with` block import nothing from the current folder.

    Processes that those processes start are protected too.
    """
    before = os.environ.get(_SAFE)
    try:
        os.environ[_SAFE] = "1"  # inside, because Ctrl-C may come at once
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE, None)
        else:
            os.environ[_SAFE] = before


def main() -> None:
    """Remove this file's folder from the import path, and run the script that the first argument names."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != own]
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
