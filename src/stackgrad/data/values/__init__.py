"""Define values of the host: vectors, matrices and structs outside kernels, with the semantics of Python numbers."""

from __future__ import annotations

from .matrix import Matrix, Vector
from .struct import Struct

__all__ = ["Matrix", "Struct", "Vector"]
