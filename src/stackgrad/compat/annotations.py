"""Define the functions of the peers' `types` that test a dtype, such as `is_real`."""

from __future__ import annotations

from typing import Any

from ..compiler.ir.types import Scalar
from ..data.dtypes import scalar_type


def is_real(dtype: Any) -> bool:
    """Return True if a dtype is a real scalar type."""
    return _scalar(dtype) is not None and bool(_scalar(dtype).is_real)


def is_integral(dtype: Any) -> bool:
    """Return True if a dtype is a type of integers or booleans."""
    return _scalar(dtype) is not None and not _scalar(dtype).is_real


def is_signed(dtype: Any) -> bool:
    """Return True if a dtype is a real type or a type of signed integers."""
    found = _scalar(dtype)
    return found is not None and bool(found.is_real or found.is_signed)


def is_tensor(dtype: Any) -> bool:
    """Return True if a type is a type of vectors or matrices."""
    return getattr(getattr(dtype, "stackgrad_type", None), "shape", ()) != ()


def _scalar(dtype: Any) -> Any:
    """Return a dtype as a scalar type, or None if it is none."""
    if isinstance(dtype, Scalar):
        return dtype
    return scalar_type(dtype) if dtype in (int, float, bool) else None


__all__ = ["is_integral", "is_real", "is_signed", "is_tensor"]
