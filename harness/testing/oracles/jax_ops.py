"""This module holds the table JAX, which implements each operation in NumPy for values and in JAX for derivatives.

The `concrete` half of an entry decides control and indices. The `traced` half exists so that JAX may differentiate it;
it is absent if the derivative is zero or does not exist. Both take float64 for every real (the concrete half may also
run in the type's own precision), and every entry works elementwise on (lanes,) arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ....compiler.ir.ops import OPS
from ....compiler.ir.table import Table
from ....compiler.ir.types import Scalar

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True)
class JaxOperation:
    """Represent an operation of the IR by its NumPy and its JAX implementation.

    Attributes:
        concrete: the operation in NumPy.
        traced: the operation in JAX, or None for a zero derivative.
        linear: True if the pullback multiplies by constants only, so that a zero cotangent stays zero for all operands.
    """

    concrete: Callable[..., Any]
    traced: Callable[..., Any] | None = None
    linear: bool = False


JAX: Table[str, JaxOperation] = Table(
    "JAX", OPS, about="the operation in NumPy, and in JAX if it has a derivative", blank="JaxOperation({todo}, {todo})"
)


# ---- what NumPy lacks ---------------------------------------------------------------------------------------


def _width(x: np.ndarray) -> int:
    return x.dtype.itemsize * 8


def _pattern(x: np.ndarray) -> np.ndarray:
    """Return the bits of each integer, lowest first, as (lanes, width) booleans."""
    unsigned = x.view(f"u{x.dtype.itemsize}")[:, None]
    bits: np.ndarray = (unsigned >> np.arange(_width(x), dtype=unsigned.dtype)) & unsigned.dtype.type(1) != 0
    return bits


def _clz(x: np.ndarray) -> np.ndarray:
    bits = _pattern(x)[:, ::-1]
    return np.where(bits.any(axis=1), bits.argmax(axis=1), _width(x))


def _ffs(x: np.ndarray) -> np.ndarray:
    bits = _pattern(x)
    return np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)


def _shift(x: np.ndarray, count: np.ndarray, kind: str, shift: Callable[..., Any]) -> np.ndarray:
    """Shift integers, read as signed or unsigned by `kind`. The count is taken modulo the width of the type."""
    view = f"{kind}{x.dtype.itemsize}"
    places = count & count.dtype.type(_width(x) - 1)
    shifted: np.ndarray = shift(x.view(view), places.view(view)).view(x.dtype)
    return shifted


def _frexp_exponent(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


def _traced_mantissa(x: Any) -> Any:
    """Return the mantissa x 2^-e of a JAX value, by a formula that JAX can differentiate, unlike its `frexp`."""
    exponent = jnp.frexp(lax.stop_gradient(x))[1]
    return lax.mul(x, jnp.ldexp(1.0, -exponent))


def _floordiv(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        floor: np.ndarray = np.floor(x / y)
        return floor
    # The least integer divided by -1 has no representation; the IR wraps, as negation does.
    wraps = (y == -1) if x.dtype.kind == "i" else np.zeros(x.shape, bool)
    quotient = np.floor_divide(x, np.where((y == 0) | wraps, 1, y).astype(y.dtype))
    return np.where(y == 0, 0, np.where(wraps, np.negative(x), quotient))


def _mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        rest: np.ndarray = np.mod(x, y)
        return rest
    trivial = (y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0
    return np.where(trivial, 0, np.mod(x, np.where(trivial, 1, y).astype(y.dtype)))


def _traced_mod(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of y.

    lax.rem has the sign of x and the derivative -trunc(x/y) in y; adding y once more gives the sign of y.
    """
    rest = lax.rem(x, y)
    other = lax.bitwise_and(lax.ne(rest, 0.0), lax.ne(lax.lt(rest, 0.0), lax.lt(y, 0.0)))
    return lax.select(other, lax.add(rest, y), rest)


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        power: np.ndarray = np.power(x, y)
        return power
    # NumPy refuses negative powers of integers.
    positive: np.ndarray = np.power(x, np.maximum(y, 0))
    if x.dtype.kind == "u":
        return positive
    reciprocal = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
    return np.where(y < 0, reciprocal, positive)


def _traced_abs(x: Any) -> Any:
    """Return |x| with the derivative 0 at zero."""
    return lax.mul(x, lax.sign(lax.stop_gradient(x)))


def _traced_pow(x: Any, y: Any) -> Any:
    """Return x^y without a derivative in x at y = 0, where the power is constant, and in y at x = 0."""
    base = lax.select(lax.eq(y, 0.0), lax.stop_gradient(x), x)
    exponent = lax.select(lax.eq(x, 0.0), lax.stop_gradient(y), y)
    return lax.pow(base, exponent)


def _extreme(pick: Callable[..., Any], negative_wins: bool) -> Callable[..., Any]:
    """Return a min or max that orders -0.0 before 0.0 and propagates NaN; NumPy's may return either zero."""

    def row(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f":
            picked: np.ndarray = pick(x, y)
            return picked
        return np.where(x == y, np.where(np.signbit(x) == negative_wins, x, y), pick(x, y))

    return row


# ---- the table ----------------------------------------------------------------------------------------------


JAX.update(
    {
        "neg": JaxOperation(np.negative, lax.neg, linear=True),
        "abs": JaxOperation(np.abs, _traced_abs),
        "sgn": JaxOperation(np.sign),
        "floor": JaxOperation(np.floor),
        "ceil": JaxOperation(np.ceil),
        "round": JaxOperation(np.rint),
        "sqrt": JaxOperation(np.sqrt, lax.sqrt),
        "rsqrt": JaxOperation(lambda x: 1 / np.sqrt(x), lax.rsqrt),
        "inv": JaxOperation(lambda x: 1 / x, lambda x: lax.div(lax.full_like(x, 1.0), x)),
        "rcp": JaxOperation(lambda x: 1 / x, lambda x: lax.div(lax.full_like(x, 1.0), x)),
        "exp": JaxOperation(np.exp, lax.exp),
        "log": JaxOperation(np.log, lax.log),
        "sin": JaxOperation(np.sin, lax.sin),
        "cos": JaxOperation(np.cos, lax.cos),
        "tan": JaxOperation(np.tan, lax.tan),
        "asin": JaxOperation(np.arcsin, lax.asin),
        "acos": JaxOperation(np.arccos, lax.acos),
        "tanh": JaxOperation(np.tanh, lax.tanh),
        "frexp_mantissa": JaxOperation(lambda x: np.frexp(x)[0], _traced_mantissa),
        "frexp_exponent": JaxOperation(_frexp_exponent),
        "bit_not": JaxOperation(np.invert),
        "logic_not": JaxOperation(np.logical_not),
        "popcnt": JaxOperation(lambda x: _pattern(x).sum(axis=1)),
        "clz": JaxOperation(_clz),
        "ffs": JaxOperation(_ffs),
        "add": JaxOperation(np.add, lax.add, linear=True),
        "sub": JaxOperation(np.subtract, lax.sub, linear=True),
        "mul": JaxOperation(np.multiply, lax.mul),
        "div": JaxOperation(np.true_divide, lax.div),
        "floordiv": JaxOperation(_floordiv),
        "mod": JaxOperation(_mod, _traced_mod),
        "pow": JaxOperation(_pow, _traced_pow),
        "atan2": JaxOperation(np.arctan2, lax.atan2),
        "min": JaxOperation(_extreme(np.minimum, True), lax.min),
        "max": JaxOperation(_extreme(np.maximum, False), lax.max),
        "bit_and": JaxOperation(np.bitwise_and),
        "bit_or": JaxOperation(np.bitwise_or),
        "bit_xor": JaxOperation(np.bitwise_xor),
        "unique": JaxOperation(lambda x, y: x),
        "bit_shl": JaxOperation(lambda x, n: _shift(x, n, "u", np.left_shift)),
        "bit_shr": JaxOperation(lambda x, n: _shift(x, n, "u", np.right_shift)),
        "bit_sar": JaxOperation(lambda x, n: _shift(x, n, "i", np.right_shift)),
        "cmp_lt": JaxOperation(np.less),
        "cmp_le": JaxOperation(np.less_equal),
        "cmp_gt": JaxOperation(np.greater),
        "cmp_ge": JaxOperation(np.greater_equal),
        "cmp_eq": JaxOperation(np.equal),
        "cmp_ne": JaxOperation(np.not_equal),
        "logical_and": JaxOperation(np.logical_and),
        "logical_or": JaxOperation(np.logical_or),
        "select": JaxOperation(np.where, lax.select, linear=True),
    }
)


# ---- conversions --------------------------------------------------------------------------------------------


def storage(dtype: Scalar, widen: bool) -> np.dtype:
    """Return the NumPy dtype that holds values of a type: float64 for every real if `widen`, else the type's own."""
    return np.dtype(np.float64) if widen and dtype.is_real else dtype.dtype


def convert(value: np.ndarray, source: Scalar, target: Scalar, widen: bool) -> np.ndarray:
    """Cast NumPy values of shape (lanes,) from one scalar type to another as the IR defines it."""
    if target.is_bool:
        truth: np.ndarray = value != 0
        return truth
    if not (source.is_real and target.is_int):
        return value.astype(storage(target, widen))
    limits = np.iinfo(target.dtype)
    whole = np.trunc(value.astype(np.float64))
    # float(max) of the 64-bit types rounds up to 2^63 or 2^64, which must saturate as well.
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    inside = ~(above | below | np.isnan(whole))
    exact = np.where(inside, whole, 0.0).astype(target.dtype)
    exact[above], exact[below] = limits.max, limits.min
    return exact


def reinterpret(value: np.ndarray, source: Scalar, target: Scalar, widen: bool) -> np.ndarray:
    """Return the bits of NumPy values of shape (lanes,), read as another type of the same width.

    A widened real is rounded to its type first, because its bits are read.
    """
    if source == target:
        return value
    return value.astype(source.dtype).view(target.dtype).astype(storage(target, widen))
