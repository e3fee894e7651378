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
    RUNTIME.ensure()
    settings = RUNTIME.settings
    named = {float: settings.default_fp, int: settings.default_ip, bool: SCALARS["u1"]}
    try:
        if dtype in named:
            return named[dtype]
        return from_dtype(np.dtype(dtype))  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise FieldError(f"{dtype!r} is not a scalar type", f"one of {', '.join('sg.' + s for s in SCALARS)}") from None
