"""Host values: vectors, matrices and structs outside kernels. Python numbers' semantics, NumPy underneath."""

from __future__ import annotations

from .matrix import Matrix, Vector
from .struct import Struct

__all__ = ["Matrix", "Struct", "Vector"]
