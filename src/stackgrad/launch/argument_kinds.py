"""Tell the kinds of arguments apart that are taken apart in their own ways: arrays, dataclasses, fields."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..compiler.frontend.protocols import is_host_struct, is_matrix_field
from ..compiler.ir.types import Scalar
from ..data.fields.array import Array


def is_array(value: Any) -> bool:
    """Return True for an array of this package, of NumPy, torch or JAX."""
    if isinstance(value, (Array, np.ndarray)) or is_matrix_field(value):
        return True
    library = type(value).__module__.partition(".")[0]
    return (
        library in ("torch", "jaxlib", "jax")
        and getattr(value, "ndim", -1) >= 0
        and getattr(value, "shape", None) is not None
    )


def is_dataclass(value: Any) -> bool:
    """Return True if an object is a dataclass whose members are matched one by one."""
    if isinstance(value, (type, Scalar)) or is_host_struct(value):
        return False
    return dataclasses.is_dataclass(value) and not getattr(value, "is_stackgrad_data_oriented", False)


def is_field(value: Any) -> bool:
    """Return True if an array is a field, and False for an ndarray."""
    return getattr(value, "_is_field", True) is True
