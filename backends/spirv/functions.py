"""Mathematical functions of f32 and f64 as functions of the module: what a library is to other targets.

The polynomials are those of the LLVM generator; a product and a sum are one instruction in default builds, which the
device may round once or twice. What they leave to a library is
written out: sin, cos and tan of large arguments (large.py), and the remainder, which divides integers. A large f32
argument goes by way of f64, where the polynomials reach further, if the device has f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..llvm import ir
from ..llvm.polynomials import INLINED
from ..llvm.polynomials.evaluate import format_of
from ..llvm.types import F32, F64
from . import large
from .code import I32, I64, Code
from .emit import Arith
from .lean import LEAN, quarter_waves, shortest
from .subnormals import is_small

_ARITY = {"pow": 2, "atan2": 2, "fmod": 2}


def call(e: Arith, name: str, *args: ir.Value) -> ir.Value:
    """The function of f32 or f64 arguments."""
    t = args[0].type
    if t == F32 and name in LEAN and not e.m.options.precise:
        write = shortest(name, e.reach)
        if write is not None:
            return write(e, *args)
    body = fmod if name == "fmod" else _by_polynomial(name, t)
    return e.b.call(e.m.helper(f"sg.{name}.{t.name}", t, [t] * len(args), body), args)


def libcall(name: str) -> Callable[..., ir.Value]:
    """The row of an operation that is one such function."""

    def row(e: Arith, t: Any, *args: ir.Value) -> ir.Value:
        return call(e, name, *args)

    return row


def _by_polynomial(name: str, t: ir.Type) -> Callable[[Arith, Code], None]:
    inlined: Any = INLINED[name]

    def body(e: Arith, function: Code) -> None:
        args = function.args
        if inlined.inside is None:
            function.ret(_kept(e, name, inlined.write(e, *args), *args))
            return
        write = LEAN[name] if t == F32 and name in LEAN and not e.m.options.precise else inlined.write
        within = inlined.inside(e, *args)
        out = function.scalar(t)
        function.if_else(within, lambda: out.set(write(e, *args)), lambda: out.set(_far(e, name, args[0])))
        function.ret(_kept(e, name, out.get(), *args))

    return body


STEADY = frozenset({"sin", "tan", "asin", "tanh"})
"""Functions that are their argument, to the last place, where that is subnormal."""


def _kept(e: Arith, name: str, found: ir.Value, x: ir.Value, y: ir.Value | None = None) -> ir.Value:
    """The result; a subnormal argument itself, which a device may lose on the way through a polynomial; of atan2 the
    quotient, where the second argument is not negative.
    """
    b = e.b
    if x.type != F32 or not e.m.features.quirks.flushes:
        return found
    if name in STEADY:
        return b.select(is_small(b, b.value(x)), x, found)
    if name == "atan2" and y is not None:
        quotient = b.value(b.fdiv(x, y))
        ahead = b.icmp_signed(">=", b.bitcast(y, I32), b.const(I32, 0))
        return b.select(b.and_(is_small(b, quotient), ahead), quotient, found)
    return found


def sine_and_cosine(e: Arith, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both of an f32 up to `reach`: one look, one reduction."""
    if shortest("sin", e.reach) is not None:
        return quarter_waves(e, x)  # of loops whose arguments are known to be near: default builds alone
    b, found = e.b, (e.b.scalar(F32), e.b.scalar(F32))

    def near() -> None:
        for out, value in zip(found, quarter_waves(e, x)):
            out.set(value)

    def far() -> None:
        for out, name in zip(found, ("sin", "cos")):
            out.set(_far(e, name, x))

    within = INLINED["sin"].inside
    assert within is not None
    arith: Any = e
    b.if_else(within(arith, x), near, far)
    return _kept(e, "sin", found[0].get(), x), found[1].get()


def _far(e: Arith, name: str, x: ir.Value) -> ir.Value:
    """What lies outside of the range of the polynomials."""
    t = x.type
    return e.b.call(e.m.helper(f"sg.{name}.{t.name}.far", t, [t], lambda a, f: _of_large(a, name, f)), [x])


def _of_large(e: Arith, name: str, function: Code) -> None:
    """By way of f64, whose polynomials reach further, or by as many digits of 2/pi as it takes."""
    (x,) = function.args
    if x.type == F32 and e.m.features.float64:
        function.ret(e.b.fptrunc(call(e, name, e.b.fpext(x, F64)), F32))
    else:
        function.ret(large.write(e, name, x))


# ---- remainder --------------------------------------------------------------------------------------------------


def fmod(e: Arith, function: Code) -> None:
    """x - y·trunc(x/y), exact, with the sign of x: long division of the integers behind the mantissas."""
    b, (x, y) = function, function.args
    up, down = e.intrinsic("fabs", x), e.intrinsic("fabs", y)
    finite = b.fcmp_ordered("<", up, e.const(x, math.inf))
    defined = b.and_(finite, b.fcmp_ordered(">", down, e.const(x, 0.0)))
    out = b.scalar(x.type)
    out.set(b.select(defined, x, e.const(x, math.nan)))
    with b.if_then(b.and_(b.fcmp_ordered(">=", up, down), defined)):
        out.set(e.intrinsic("copysign", _divided(e, up, down), x))
    b.ret(out.get())


def _hidden(x: ir.Value) -> int:
    """The digit of normal numbers that is not stored."""
    return 1 << format_of(x).mantissa


def _parts(e: Arith, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(exponent, mantissa as an integer), of 64 bits, of a positive finite number; subnormals have exponent 1."""
    b = e.b
    word: ir.Value = b.bitcast(x, I64) if x.type == F64 else b.zext(b.bitcast(x, I32), I64)
    field, low = b.lshr(word, e.word(format_of(x).mantissa)), b.and_(word, e.word(_hidden(x) - 1))
    small = b.icmp_unsigned("==", field, e.word(0))
    return b.select(small, e.word(1), field), b.select(small, low, b.or_(low, e.word(_hidden(x))))


def _divided(e: Arith, x: ir.Value, y: ir.Value) -> ir.Value:
    """One division of 64-bit integers finds as many binary places of the quotient as fit beside the mantissa."""
    b, most = e.b, e.word(63 - format_of(x).mantissa)
    (high, m), (low, divisor) = _parts(e, x), _parts(e, y)
    rest, left = b.scalar(I64), b.scalar(I64)
    rest.set(b.urem(m, divisor))
    left.set(b.sub(high, low))

    def divide() -> None:
        places = left.get()
        step = b.select(b.icmp_unsigned("<", places, most), places, most)
        rest.set(b.urem(b.shl(rest.get(), step), divisor))
        left.set(b.sub(places, step))

    b.loop(lambda: b.icmp_unsigned(">", left.get(), e.word(0)), divide, lambda: None)
    return _assembled(e, rest.get(), low, x)


def _assembled(e: Arith, m: ir.Value, exponent: ir.Value, like: ir.Value) -> ir.Value:
    """m in units of the last place at an exponent, without arithmetic on reals, which might flush subnormals."""
    b, f = e.b, format_of(like)
    spare = b.sub(e.intrinsic("ctlz", m, e.false(m)), e.word(63 - f.mantissa))
    most = b.sub(exponent, e.word(1))
    shift = b.select(b.icmp_unsigned("<", spare, most), spare, most)
    moved = b.shl(m, b.and_(shift, e.word(63)))
    normal = b.icmp_unsigned(">=", moved, e.word(_hidden(like)))
    field = b.shl(b.sub(exponent, shift), e.word(f.mantissa))
    word = b.select(normal, b.or_(field, b.and_(moved, e.word(_hidden(like) - 1))), moved)
    word = b.select(b.icmp_unsigned("==", m, e.word(0)), e.word(0), word)
    return b.bitcast(word if f.width == 64 else b.trunc(word, I32), like.type)
