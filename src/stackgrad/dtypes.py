"""Which scalar type the user means: the one place that reads Python's and NumPy's names of types."""

from __future__ import annotations

import numpy as np

from .compiler.ir.types import SCALARS, Scalar, from_dtype
from .session import RUNTIME
from .usage import FieldError


def scalar_type(dtype: object) -> Scalar:
    """The scalar type that a user's dtype means: one of ours, float, int, bool or a NumPy dtype."""
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
    """Whether it is one of Python's float, int and bool, whose meaning `sg.init` decides."""
    return dtype is float or dtype is int or dtype is bool
