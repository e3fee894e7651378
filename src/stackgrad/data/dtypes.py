"""Translate names of dtypes in Python, NumPy and stackgrad to scalar types.

This module is the only place that reads the type names of Python and NumPy.
"""

from __future__ import annotations

import numpy as np

from ..compiler.ir.types import SCALARS, Scalar, from_dtype
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import FieldError


def scalar_type(dtype: object) -> Scalar:
    """Return the scalar type for a dtype of stackgrad, Python or NumPy.

    Args:
        dtype: A scalar type of stackgrad, one of Python's float, int and bool, or anything that `numpy.dtype` accepts.

    Raises:
        FieldError: The dtype does not name a scalar type.
    """
    if isinstance(dtype, Scalar):
        return dtype
    if is_default(dtype):
        RUNTIME.ensure()
        settings = RUNTIME.settings
        return settings.default_fp if dtype is float else settings.default_ip if dtype is int else SCALARS["u1"]
    try:
        return from_dtype(np.dtype(dtype))  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise FieldError(f"{dtype!r} is not a scalar type", f"one of {', '.join('sg.' + s for s in SCALARS)}") from None


def is_default(dtype: object) -> bool:
    """Return True if `dtype` is Python's float, int or bool, whose meaning `sg.init` decides."""
    return dtype is float or dtype is int or dtype is bool
