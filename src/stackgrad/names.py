"""Further names of classes, for `isinstance` and annotations of programs that use them."""
from __future__ import annotations

from .fields import MatrixNdarray, Tensor

VectorNdarray = MatrixNdarray
VectorTensor = MatrixTensor = Tensor

__all__ = ["MatrixTensor", "VectorNdarray", "VectorTensor"]
