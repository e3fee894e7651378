"""Define vectors, matrices and structs for use outside of kernels, with the semantics of Python numbers."""

from __future__ import annotations

from .matrix import Matrix, Vector
from .struct import Struct

__all__ = ["Matrix", "Struct", "Vector"]
