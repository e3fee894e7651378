"""Make `import taichi as ti` give stackgrad in this process, as soon as this module is imported."""

from __future__ import annotations

import sys

from .finder import install

# `import stackgrad.compat.taichi as ti` then gives the same module as `import taichi as ti`.
sys.modules[__name__] = install("taichi")
