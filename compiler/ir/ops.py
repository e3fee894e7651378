"""This module contains the table OPS, which defines each scalar operation of the IR.

An entry says which types the operation takes and gives, if it may trap, how exact an implementation must be, from which
intervals operands are safe to draw, and what happens in edge cases. The meaning of the operation is one entry of a
table in `reference/scalar.py`, its derivative one entry in `compiler/ad/rules.py`; each backend has one entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .types import Scalar, i32, u1

TypeRule = Callable[[tuple[Scalar, ...]], Scalar | None]


@dataclass(frozen=True)
class OpInfo:
    """An `OpInfo` describes one scalar operation: types, derivative class, edge cases, accuracy and cost.

    Attributes:
        name: name of the operation in IR text.
        arity: number of operands.
        types: function from operand types to the result type; it returns None if the operands do not fit.
        kind: 'smooth' (differentiable inside `safe`), 'kinked' (differentiable except at isolated points), 'flat' (zero
            derivative wherever it exists) or 'opaque' (no derivative: integers, booleans, bits).
        edges: one sentence on the edge cases.
        ulps: permitted error of f32 and f64 results outside precise contexts, in units in the last place.
        safe: interval of each operand from which generators may draw without meeting a singularity.
        traps: True if the operation may trap on some operands.
        cost: approximate time on current hardware, in additions.
    """

    name: str
    arity: int
    types: TypeRule
    kind: str
    edges: str
    ulps: float = 0.0
    safe: tuple[tuple[float, float], ...] = ()
    traps: bool = False
    cost: int = 1


def _all(test: Callable[[Scalar], bool], result: Scalar | None = None) -> TypeRule:
    """Return a type rule for operands of one type that passes `test`.

    Args:
        test: predicate that the common type of the operands must satisfy.
        result: type of the result; None for the type of the operands.
    """

    def rule(types: tuple[Scalar, ...]) -> Scalar | None:
        if len(set(types)) != 1 or not test(types[0]):
            return None
        return result or types[0]

    return rule


def _select(types: tuple[Scalar, ...]) -> Scalar | None:
    return types[1] if types[0] == u1 and types[1] == types[2] else None


_real = _all(lambda t: t.is_real)
_number = _all(lambda t: not t.is_bool)
_integer = _all(lambda t: t.is_int)
_count = _all(lambda t: t.is_int, i32)
_exponent = _all(lambda t: t.is_real, i32)
_bits = _all(lambda t: not t.is_real)
_boolean = _all(lambda t: t.is_bool)
_compare = _all(lambda t: True, u1)

_ANY = (-1e3, 1e3)
_UNIT = (-0.95, 0.95)
_POSITIVE = (1e-3, 1e3)
_NONZERO = (0.1, 1e3)

# One row, one line: as a column of words each, the rows could not be compared.
# fmt: off
_ROWS = (
    # name, arity, types, kind, edges, ulps, safe
    OpInfo("neg", 1, _number, "smooth", "Flips the sign of zero; integers wrap at the least value.", 0, (_ANY,)),
    OpInfo("abs", 1, _number, "kinked", "abs(-0.0) is 0.0; the least integer maps to itself; derivative 0 at 0.", 0, (_NONZERO,)),
    OpInfo("sgn", 1, _number, "flat", "-1, 0 or 1 in the operand's type; sgn(NaN) is NaN, sgn(-0.0) is 0.0.", 0, (_NONZERO,)),
    OpInfo("floor", 1, _real, "flat", "Toward minus infinity; keeps -0.0, NaN and infinities.", 0, (_ANY,)),
    OpInfo("ceil", 1, _real, "flat", "Toward plus infinity; ceil(-0.5) is -0.0.", 0, (_ANY,)),
    OpInfo("round", 1, _real, "flat", "To nearest, halves to even; round(-0.5) is -0.0.", 0, (_ANY,)),
    OpInfo("sqrt", 1, _real, "smooth", "NaN below zero, sqrt(-0.0) is -0.0; derivative +inf at 0.", 0.5, (_POSITIVE,), cost=8),
    OpInfo("rsqrt", 1, _real, "smooth", "1/sqrt(x): +inf at 0.0, -inf at -0.0, NaN below zero.", 2, (_POSITIVE,), cost=8),
    OpInfo("inv", 1, _real, "smooth", "1/x: signed infinity at signed zero.", 0.5, (_NONZERO,), cost=4),
    OpInfo("rcp", 1, _real, "smooth", "Like inv, but a target may approximate.", 2, (_NONZERO,), cost=4),
    OpInfo("exp", 1, _real, "smooth", "Overflows to +inf, underflows to 0.", 2, ((-20.0, 20.0),), cost=12),
    OpInfo("log", 1, _real, "smooth", "-inf at zero of either sign, NaN below zero.", 2, (_POSITIVE,), cost=12),
    OpInfo("sin", 1, _real, "smooth", "NaN at infinities; keeps -0.0.", 4, ((-100.0, 100.0),), cost=12),
    OpInfo("cos", 1, _real, "smooth", "NaN at infinities; cos(±0) is 1.", 4, ((-100.0, 100.0),), cost=12),
    OpInfo("tan", 1, _real, "smooth", "NaN at infinities; keeps -0.0.", 4, ((-1.5, 1.5),), cost=16),
    OpInfo("asin", 1, _real, "smooth", "NaN outside [-1, 1]; derivative infinite at ±1.", 4, (_UNIT,), cost=16),
    OpInfo("acos", 1, _real, "smooth", "NaN outside [-1, 1]; derivative infinite at ±1.", 4, (_UNIT,), cost=16),
    OpInfo("tanh", 1, _real, "smooth", "±1 at infinities; keeps -0.0.", 4, ((-10.0, 10.0),), cost=16),
    OpInfo("frexp_mantissa", 1, _real, "kinked", "m with x = m·2^e, 0.5 <= |m| < 1; zero, NaN, infinities map to themselves.", 0, (_NONZERO,), cost=4),
    OpInfo("frexp_exponent", 1, _exponent, "opaque", "e of x = m·2^e as i32; 0 for zero, NaN and infinities.", cost=4),
    OpInfo("bit_not", 1, _bits, "opaque", "Flips every bit of an integer; logical not of a boolean."),
    OpInfo("logic_not", 1, _boolean, "opaque", "not x."),
    OpInfo("popcnt", 1, _count, "opaque", "Number of set bits of the two's complement, as i32."),
    OpInfo("clz", 1, _count, "opaque", "Leading zero bits, as i32; the width at 0."),
    OpInfo("ffs", 1, _count, "opaque", "1-based position of the lowest set bit, as i32; 0 at 0."),
    OpInfo("add", 2, _number, "smooth", "Integers wrap.", 0.5, (_ANY, _ANY)),
    OpInfo("sub", 2, _number, "smooth", "Integers wrap.", 0.5, (_ANY, _ANY)),
    OpInfo("mul", 2, _number, "smooth", "Integers wrap.", 0.5, (_ANY, _ANY)),
    OpInfo("div", 2, _real, "smooth", "IEEE division: x/0 is a signed infinity, 0/0 NaN.", 0.5, (_ANY, _NONZERO), cost=4),
    OpInfo("floordiv", 2, _number, "flat", "floor(x/y); an integer zero divisor traps (0 in a release build); least // -1 wraps.", 0,
       (_ANY, _NONZERO), traps=True, cost=8),
    OpInfo("mod", 2, _number, "kinked", "x - y·floor(x/y), sign of y; real x % 0 is NaN; an integer zero divisor traps.", 4,
       (_ANY, _NONZERO), traps=True, cost=8),
    OpInfo("pow", 2, _number, "smooth", "IEEE pow for reals (pow(x, 0) is 1); integers wrap, a negative exponent gives 1/x truncated.", 4,
       (_POSITIVE, (-4.0, 4.0)), cost=30),
    OpInfo("atan2", 2, _real, "smooth", "Signed zeros choose the branch as in IEEE; derivative undefined at the origin.", 4,
       (_NONZERO, _NONZERO), cost=20),
    OpInfo("min", 2, _number, "kinked", "NaN if an operand is NaN; min(-0.0, 0.0) is -0.0; at a tie the right operand wins the derivative.",
       0, (_ANY, _ANY)),
    OpInfo("max", 2, _number, "kinked", "NaN if an operand is NaN; max(-0.0, 0.0) is 0.0; at a tie the right operand wins the derivative.",
       0, (_ANY, _ANY)),
    OpInfo("bit_and", 2, _bits, "opaque", "Bitwise; logical on booleans."),
    OpInfo("bit_or", 2, _bits, "opaque", "Bitwise; logical on booleans."),
    OpInfo("bit_xor", 2, _bits, "opaque", "Bitwise; inequality on booleans."),
    OpInfo("bit_shl", 2, _integer, "opaque", "The shift count is taken modulo the width; bits fall off."),
    OpInfo("bit_shr", 2, _integer, "opaque", "Logical shift right; count modulo the width."),
    OpInfo("bit_sar", 2, _integer, "opaque", "Arithmetic shift right of the bit pattern, also for unsigned types; count modulo the width."),
    OpInfo("unique", 2, _integer, "opaque", "The left operand; claims that no other iteration has this tuple of all that share the right one."),
    OpInfo("cmp_lt", 2, _compare, "opaque", "False if an operand is NaN; -0.0 equals 0.0."),
    OpInfo("cmp_le", 2, _compare, "opaque", "False if an operand is NaN."),
    OpInfo("cmp_gt", 2, _compare, "opaque", "False if an operand is NaN."),
    OpInfo("cmp_ge", 2, _compare, "opaque", "False if an operand is NaN."),
    OpInfo("cmp_eq", 2, _compare, "opaque", "False if an operand is NaN; -0.0 equals 0.0."),
    OpInfo("cmp_ne", 2, _compare, "opaque", "True if an operand is NaN."),
    OpInfo("logical_and", 2, _boolean, "opaque", "Both operands are evaluated; the frontend lowers `and` to a branch."),
    OpInfo("logical_or", 2, _boolean, "opaque", "Both operands are evaluated; the frontend lowers `or` to a branch."),
    OpInfo("select", 3, _select, "smooth", "Both alternatives are evaluated; a NaN in the untaken one does not show.", 0,
       ((0.0, 1.0), _ANY, _ANY)),
)
# fmt: on

OPS: dict[str, OpInfo] = {row.name: row for row in _ROWS}
ATOMIC_OPS = ("add", "min", "max", "mul", "bit_and", "bit_or", "bit_xor", "exchange", "cas")
COMPARISONS = tuple(name for name in OPS if name.startswith("cmp_"))


def result_type(name: str, types: tuple[Scalar, ...]) -> Scalar | None:
    """Return the result type of an operation, or None if it does not accept operands of these types."""
    row = OPS[name]
    return row.types(types) if len(types) == row.arity else None


def atomic_fits(name: str, dtype: Scalar) -> bool:
    """Return True if memory of this type supports the atomic operation."""
    if name.startswith("bit_"):
        return not dtype.is_real
    return name in ATOMIC_OPS and not dtype.is_bool


def ulp(dtype: Scalar, value: float) -> float:
    """Return the distance from |value| to the next larger number of this real type."""
    # Significant bits, and exponent of the least subnormal number, by the width of the type.
    digits = {16: 11, 32: 24, 64: 53}[dtype.bits]
    lowest = {16: -24, 32: -149, 64: -1074}[dtype.bits]
    # Next to zero lies the least subnormal number.
    if value == 0 or not math.isfinite(value):
        return 2.0**lowest
    return 2.0 ** max(math.frexp(value)[1] - digits, lowest)
