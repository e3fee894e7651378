"""Make `import quadrants as qd` give stackgrad in this process, as soon as this module is imported."""

from __future__ import annotations

import sys

from .finder import install

# `import stackgrad.compat.quadrants as qd` then gives the same module as `import quadrants as qd`.
sys.modules[__name__] = install("quadrants")
