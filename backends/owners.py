"""Find the object that owns the memory of an array, through all its views."""

from __future__ import annotations

from typing import Any

import numpy as np


def owner_of(array: np.ndarray) -> Any:
    """Return the first of the array's bases that is no array, or None for memory of NumPy's own.

    A view that keeps no memory alive has a base that refers to the owner by `refers_to()`.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    referred = getattr(base, "refers_to", None)
    return referred() if callable(referred) else base
