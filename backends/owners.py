"""Who owns the memory of an array: what is behind all views."""

from __future__ import annotations

from typing import Any

import numpy as np


def owner_of(array: np.ndarray) -> Any:
    """The first of the array's bases that is no array; None for memory of NumPy's own.

    A view that keeps no memory alive has a base that refers to the owner by `refers_to()`.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    referred = getattr(base, "refers_to", None)
    return referred() if callable(referred) else base
