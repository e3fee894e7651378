"""This package lets programs that were written for Quadrants or Taichi run on stackgrad, unchanged.

    python -m stackgrad.compat quadrants program.py ARGS...     # every `import quadrants` of the program is stackgrad
    import stackgrad.compat.quadrants                           # the same, from here on in this process

Each peer has a tree of modules, built when it is imported: `quadrants.lang.impl`, `taichi.math` and so on. Invariant:
the values of names are those of stackgrad; modules of this package define only what stackgrad has no name for.
docs/migrating.md lists every name.
"""

from __future__ import annotations

from .finder import install

__all__ = ["install"]
