"""Give stackgrad to `import taichi` in a process that a program of Taichi has started."""

from __future__ import annotations

import sys

# The module is also importable as a part of stackgrad, where it does nothing.
if __name__ == "taichi":
    from stackgrad.compat.finder import install

    del sys.modules[__name__]
    install(__name__)
