"""Convert shapes, and arrays of NumPy, torch and JAX, as given by users, for use in fields.

Invariant: a conversion loses no fraction and no integer; it raises FieldError instead.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.ir.types import Scalar
from ...runtime.session import RUNTIME
from ...runtime.usage_errors import FieldError


def extents_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple. Raise FieldError if an extent is no integer or not valid."""
    try:
        is_sequence = isinstance(shape, (tuple, list)) or isinstance(shape, np.ndarray) and shape.ndim == 1
        given: Sequence[Any] = shape if is_sequence else (shape,)  # type: ignore[assignment]
        extents = tuple(map(operator.index, given))
    except TypeError:
        raise FieldError(f"{shape!r} is not a shape", "give an int or a tuple of ints") from None
    if any(extent < 0 for extent in extents):
        raise FieldError(f"the shape {extents} has a negative extent", "extents are 0 or more")
    return extents


def zeros(shape: tuple[int, ...], dtype: Scalar) -> np.ndarray:
    """Return a new array of zeros in host memory, or in device memory if the backend uses it.

    Raises:
        FieldError: The host has not enough memory. The message names the size.
        DeviceError: The device has not enough memory.
    """
    if RUNTIME.remote is not None:
        return RUNTIME.remote.zeros(shape, np.dtype(dtype.dtype))
    try:
        return np.zeros(shape, dtype.dtype)
    except (MemoryError, ValueError):
        gib = np.prod([float(extent) for extent in shape]) * dtype.size / 2**30
        raise FieldError(f"a field of {dtype} and shape {shape} takes {gib:.1f} GiB", "make it smaller") from None


def convert(given: np.ndarray, dtype: Scalar, label: str) -> np.ndarray:
    """Return an array converted to `dtype`. Raise FieldError if the conversion loses a fraction or does not fit.

    Args:
        given: The array.
        dtype: The scalar type.
        label: The name of the field for messages.

    Raises:
        FieldError: A fraction, or the value of an integer, would be lost.
    """
    if given.dtype == dtype.dtype:
        return given
    if given.dtype.kind not in "fiub":
        raise FieldError(f"{label} holds {dtype}, not {given.dtype}", "give real, integer or boolean numbers")
    if given.dtype.kind == "f" and not dtype.is_real:
        raise FieldError(f"{label} holds {dtype}; reals would lose their fraction", "round and cast the values first")
    if given.dtype.kind in "iu" and dtype.is_int and given.size:
        limits = np.iinfo(dtype.dtype)
        low, high = int(given.min()), int(given.max())
        if low < limits.min or high > limits.max:
            raise FieldError(f"{label} holds {dtype}; the values {low} .. {high} do not fit", "use a wider type")
    with np.errstate(over="ignore"):
        return given.astype(dtype.dtype)


def as_numpy(given: Any) -> np.ndarray:
    """Return an array of NumPy, torch or JAX, a field, or nested sequences, as a NumPy array to be read only."""
    # A torch tensor may lie on another device, or carry a gradient; NumPy accepts neither.
    if hasattr(given, "detach") and hasattr(given, "cpu"):
        given = given.detach().cpu()
        given = given.resolve_conj().resolve_neg().numpy() if hasattr(given, "resolve_neg") else given.numpy()
    try:
        return np.asarray(given)
    except ValueError:
        raise FieldError(f"{type(given).__name__} is no array of numbers", "give rows of one length") from None
