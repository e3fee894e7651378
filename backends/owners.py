"""This module finds the object that owns the memory of a NumPy array, through all views of it."""

from __future__ import annotations

from typing import Any

import numpy as np


def owner_of(array: np.ndarray) -> Any:
    """Return the object, not itself an array, that owns an array's memory, or None if NumPy has allocated the memory.

    A view that keeps no memory alive has a base that refers to the owner by `refers_to()`.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    referred = getattr(base, "refers_to", None)
    return referred() if callable(referred) else base
