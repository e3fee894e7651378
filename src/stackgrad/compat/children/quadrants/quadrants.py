"""Give stackgrad to `import quadrants` in a process that a program of Quadrants has started."""

from __future__ import annotations

import sys

# The module is also importable as a part of stackgrad, where it does nothing.
if __name__ == "quadrants":
    from stackgrad.compat.finder import install

    del sys.modules[__name__]
    install(__name__)
