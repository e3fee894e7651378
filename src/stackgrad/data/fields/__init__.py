"""Define fields, which kernels read and write: scalar arrays, and vectors, matrices and structs over them."""

from __future__ import annotations

from ..dtypes import scalar_type
from .array import Array
from .conversions import convert
from .kinds import Backend, Field, Layout, Ndarray, Tensor, wrap
from .make import field, matrix_field, struct_field
from .matrix import MatrixArray, MatrixField, MatrixNdarray
from .scalar import ScalarField, ScalarNdarray
from .struct import StructField

__all__ = [
    "Array",
    "Backend",
    "Field",
    "Layout",
    "MatrixArray",
    "MatrixField",
    "MatrixNdarray",
    "Ndarray",
    "ScalarField",
    "ScalarNdarray",
    "StructField",
    "Tensor",
    "convert",
    "field",
    "matrix_field",
    "scalar_type",
    "struct_field",
    "wrap",
]
