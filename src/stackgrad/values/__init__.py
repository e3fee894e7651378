"""Host values: vectors, matrices and structs outside kernels. Python numbers' semantics, NumPy underneath."""
from __future__ import annotations

from .matrix import Matrix
from .struct import Struct
from .vector import Vector

__all__ = ["Matrix", "Struct", "Vector"]
