"""Convert numbers of .kir files to arrays, and compare arrays with the numbers that a file expects.

Inputs must be representable in their type, so that no rounding of an input hides in a tolerance. Expected reals
are doubles: the error of an f16 or f32 result counts against the correctly rounded double, in units in the last
place of the result type (`ops.ulp`). With zero ulps the expected value must be representable and equal; the sign of a
zero and NaN-ness always count. An f16 result may deviate by half a unit (its rounding) plus the ulps of f32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from stackgrad.compiler.ir.ops import ulp
from stackgrad.compiler.ir.types import Scalar, f16, f32

from .directives import KirFileError


def read_number(text: str, dtype: Scalar) -> float | int | bool:
    """Return the number that a text of this type denotes: a double for reals, exact for other types."""
    if dtype.is_bool:
        if text not in ("true", "false"):
            raise KirFileError(f"{text} is no boolean")
        return text == "true"
    if dtype.is_real:
        return float.fromhex(text) if "0x" in text else float(text)
    value = int(text, 0)
    low, high = (-(1 << dtype.bits - 1), 1 << dtype.bits - 1) if dtype.is_signed else (0, 1 << dtype.bits)
    if not low <= value < high:
        raise KirFileError(f"{text} is outside {dtype}")
    return value


def is_exact(value: float | int | bool, dtype: Scalar) -> bool:
    """Return True if a real is exactly representable in this type, as NaN and infinities are."""
    if not dtype.is_real:
        return True
    with np.errstate(all="ignore"):
        rounded = float(dtype.dtype.type(value))
    return math.isnan(value) or rounded == value


def read_array(content: Any, dtype: Scalar, ndim: int, exact: bool = True) -> np.ndarray:
    """Return nested lists of number texts as an array of the type, or of doubles if reals are not exact."""
    flat: list[float | int | bool] = []
    shape = _shape(content, ndim)
    _flatten(content, shape, dtype, flat)
    for value in flat:
        if exact and not is_exact(value, dtype):
            raise KirFileError(f"{value!r} is not representable in {dtype}")
    memory = np.dtype(np.float64) if dtype.is_real and not exact else dtype.dtype
    return np.array(flat, dtype=memory).reshape(shape)


def _shape(content: Any, ndim: int) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(ndim):
        if not isinstance(content, list):
            raise KirFileError(f"expected lists nested {ndim} deep")
        shape.append(len(content))
        content = content[0] if content else []
    return tuple(shape)


def _flatten(content: Any, shape: tuple[int, ...], dtype: Scalar, out: list[float | int | bool]) -> None:
    if not shape:
        if isinstance(content, list):
            raise KirFileError("lists are nested too deep")
        out.append(read_number(content, dtype))
        return
    if len(content) != shape[0]:
        raise KirFileError("rows differ in length")
    for part in content:
        _flatten(part, shape[1:], dtype, out)


def unlike(expected: np.ndarray, dtype: Scalar) -> np.ndarray:
    """Return an array that differs from `expected` in every element, so that a missing store is noticed."""
    if dtype.is_bool:
        return np.asarray(~expected)
    if dtype.is_int:
        return np.asarray(expected ^ dtype.dtype.type(0x55))
    return np.where(expected == -77.5, 77.5, -77.5).astype(dtype.dtype)


def allowed(expected: float, dtype: Scalar, ulps: float) -> float:
    """Return the permitted distance of a real result from the expected double."""
    if dtype == f16 and ulps:
        return 0.5 * ulp(f16, expected) + ulps * ulp(f32, expected)
    return ulps * ulp(dtype, expected)


def error_in_ulps(got: float, expected: float, dtype: Scalar) -> float:
    """Return the difference in ulps; it is infinite if NaN, infinity or the sign of a zero differ."""
    if math.isnan(expected) or math.isnan(got):
        return 0.0 if math.isnan(expected) and math.isnan(got) else math.inf
    if math.isfinite(expected) and not math.isfinite(dtype(expected)):  # type: ignore[arg-type]
        expected = math.copysign(math.inf, expected)
    if got == expected:
        same = math.copysign(1.0, got) == math.copysign(1.0, expected)
        return 0.0 if same else math.inf
    if math.isinf(got) or math.isinf(expected):
        return math.inf
    return abs(got - expected) / ulp(dtype, expected)


def compare(
    name: str, got: np.ndarray, expected: np.ndarray, dtype: Scalar, ulps: float, signed_zero: bool = True
) -> list[str]:
    """Return one line for each element that is not as expected."""
    if not signed_zero:
        got, expected = got + 0, expected + 0
    if got.shape != expected.shape:
        return [f"{name}: shape {got.shape}, expected {expected.shape}"]
    found = []
    for index in np.ndindex(*expected.shape):
        place = f"{name}[{', '.join(map(str, index))}]"
        g, e = got[index].item(), expected[index].item()
        if not dtype.is_real:
            if g != e:
                found.append(f"{place}: got {g}, expected {e}")
            continue
        if not ulps and not is_exact(e, dtype):
            raise KirFileError(f"{place}: {e!r} is not representable in {dtype}, and no ulps are permitted")
        error = error_in_ulps(g, e, dtype)
        if error * ulp(dtype, e) > allowed(e, dtype, ulps):
            values = f"got {g!r} ({_hex(g)}), expected {e!r} ({_hex(e)})"
            found.append(f"{place}: {values}, off by {error:.4g} ulps of {ulps:g}")
    return found


def _hex(value: float) -> str:
    return value.hex() if math.isfinite(value) else repr(value)
