"""This module defines VJP, the table of the derivative rules of all operations, written with the IR builder.

An entry holds one rule for each operand: it gives the operand's share of the adjoint `g` of the result, or None
where the derivative is zero or does not exist. A rule may read the operands and the result `r`. What it reads is found
by running it (`rule_reads.py`), so a rule must not branch in Python on its operands. A rule that is `g` times something
expensive is a `Slope`, which may be computed beside the operation (`slopes.py`).

Values at singular points: sqrt'(0) = inf, abs'(0) = 0, d(x^y)/dy = 0 at x = 0, and d(x^y)/dx = 0 at y = 0. At a tie of
min or max the right operand takes the whole adjoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.build import Builder
from ..ir.ops import OPS
from ..ir.statement import Value
from ..ir.table import Table

DerivativeRule = Callable[[Builder, Value, tuple[Value, ...], Value], Value]
"""A rule is a function (builder, adjoint of the result, operands, result) -> share of the operand's adjoint."""


@dataclass(frozen=True)
class Slope:
    """Represent a derivative rule that multiplies the adjoint g by a slope.

    Attributes:
        slope: A function (builder, operands, result) -> derivative.
    """

    slope: Callable[[Builder, tuple[Value, ...], Value], Value]

    def __call__(self, b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
        """Return the contribution to the operand's adjoint: the result's adjoint times the slope."""
        return b.op("mul", g, self.slope(b, a, r))


def _zero(name: str) -> str:
    """Return a text that says why the operation `name` has no derivative rules, or "" if it must have rules."""
    return "its kind says that it has no derivative" if OPS[name].kind in ("flat", "opaque") else ""


VJP: Table[str, tuple[DerivativeRule | None, ...]] = Table(
    "vjp",
    OPS,
    about="for each operand, its share of the adjoint of the result",
    blank="({todo},) * {arity}",
    derive=_zero,
)
"""For each operation, the rule for each of its operands."""


def _real(b: Builder, value: float, like: Value) -> Value:
    """Emit a constant of the type that the value `like` has, and return it."""
    return b.const(value, like.type)


def _square(b: Builder, x: Value) -> Value:
    """Return x · x."""
    return b.op("mul", x, x)


def _times(name: str) -> DerivativeRule:
    """Return the rule g · f(x), where f is the operation with this name."""
    return Slope(lambda b, a, r: b.op(name, a[0]))


def _one_minus_square(b: Builder, x: Value) -> Value:
    """Return 1 - x²."""
    return b.op("sub", _real(b, 1.0, x), _square(b, x))


def _minus_sine(b: Builder, a: tuple[Value, ...], r: Value) -> Value:
    """Return the slope of the cosine."""
    return b.op("neg", b.op("sin", a[0]))


def _pow_base(b: Builder, a: tuple[Value, ...], r: Value) -> Value:
    """Return the slope of x^y by x: y · x^(y-1), and 0 where y = 0, because x^0 is constant, also at x = 0."""
    x, y = a
    slope = b.op("mul", y, b.op("pow", x, b.op("sub", y, _real(b, 1.0, y))))
    zero = _real(b, 0.0, y)
    return b.op("select", b.op("cmp_eq", y, zero), zero, slope)


def _pow_exponent(b: Builder, a: tuple[Value, ...], r: Value) -> Value:
    """Return the slope of x^y by y: x^y · log x, and 0 at x = 0, which is the limit for y > 0."""
    x = a[0]
    zero = _real(b, 0.0, x)
    slope = b.op("mul", r, b.op("log", x))
    return b.op("select", b.op("cmp_eq", x, zero), zero, slope)


def _winner(comparison: str, first: bool) -> DerivativeRule:
    """Return the rule that gives an operand of min or max the adjoint g if it wins; at a tie the second one wins."""

    def rule(b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
        won, zero = b.op(comparison, *a), _real(b, 0.0, g)
        return b.op("select", won, g, zero) if first else b.op("select", won, zero, g)

    return rule


def _chosen(first: bool) -> DerivativeRule:
    """Return the rule that adds g to the adjoint of one operand of select if the condition chose this operand."""

    def rule(b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
        zero = _real(b, 0.0, g)
        return b.op("select", a[0], g, zero) if first else b.op("select", a[0], zero, g)

    return rule


def _atan2(other: int, sign: str) -> DerivativeRule:
    """Return the rule for an operand of atan2(y, x): g·x/(x²+y²) for y and -g·y/(x²+y²) for x."""

    def rule(b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
        norm = b.op("add", _square(b, a[0]), _square(b, a[1]))
        share = b.op("div", b.op("mul", g, a[other]), norm)
        return b.op("neg", share) if sign == "-" else share

    return rule


def _frexp(b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
    """Return the adjoint for the operand x of the mantissa m of frexp: with m = x·2^-e, dm/dx = m/x, or 1 at zero."""
    x = a[0]
    at_zero = b.op("cmp_eq", x, _real(b, 0.0, x))
    return b.op("select", at_zero, g, b.op("mul", g, b.op("div", r, x)))


def _minus_root(b: Builder, x: Value) -> Value:
    """Return the square root of 1 - x²."""
    return b.op("sqrt", _one_minus_square(b, x))


VJP.update(
    {
        "neg": (lambda b, g, a, r: b.op("neg", g),),
        "abs": (_times("sgn"),),
        "sqrt": (lambda b, g, a, r: b.op("mul", g, b.op("div", _real(b, 0.5, r), r)),),
        "rsqrt": (lambda b, g, a, r: b.op("mul", b.op("mul", g, _real(b, -0.5, r)), b.op("mul", r, _square(b, r))),),
        "inv": (lambda b, g, a, r: b.op("neg", b.op("mul", g, _square(b, r))),),
        "rcp": (lambda b, g, a, r: b.op("neg", b.op("mul", g, _square(b, r))),),
        "exp": (lambda b, g, a, r: b.op("mul", g, r),),
        "log": (lambda b, g, a, r: b.op("div", g, a[0]),),
        "sin": (_times("cos"),),
        "cos": (Slope(_minus_sine),),
        "tan": (lambda b, g, a, r: b.op("mul", g, b.op("add", _real(b, 1.0, r), _square(b, r))),),
        "asin": (lambda b, g, a, r: b.op("div", g, _minus_root(b, a[0])),),
        "acos": (lambda b, g, a, r: b.op("neg", b.op("div", g, _minus_root(b, a[0]))),),
        "tanh": (lambda b, g, a, r: b.op("mul", g, _one_minus_square(b, r)),),
        "frexp_mantissa": (_frexp,),
        "add": (lambda b, g, a, r: g, lambda b, g, a, r: g),
        "sub": (lambda b, g, a, r: g, lambda b, g, a, r: b.op("neg", g)),
        "mul": (lambda b, g, a, r: b.op("mul", g, a[1]), lambda b, g, a, r: b.op("mul", g, a[0])),
        "div": (
            lambda b, g, a, r: b.op("div", g, a[1]),
            lambda b, g, a, r: b.op("neg", b.op("mul", b.op("div", g, a[1]), r)),
        ),
        "mod": (lambda b, g, a, r: g, lambda b, g, a, r: b.op("neg", b.op("mul", g, b.op("floordiv", *a)))),
        "pow": (Slope(_pow_base), Slope(_pow_exponent)),
        "atan2": (_atan2(1, "+"), _atan2(0, "-")),
        "min": (_winner("cmp_lt", True), _winner("cmp_lt", False)),
        "max": (_winner("cmp_gt", True), _winner("cmp_gt", False)),
        "select": (None, _chosen(True), _chosen(False)),
    }
)
VJP.update({name: (None,) * op.arity for name, op in OPS.items() if VJP.derived(name)})
