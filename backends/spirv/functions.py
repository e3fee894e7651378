"""This module writes mathematical functions of f32 and f64 as SPIR-V functions, as there is no library to call.

The polynomials are those of the LLVM generator; in default builds a product and a sum are one instruction, which the
device may round once or twice. Other code writes out what the polynomials leave to a library: sin, cos and tan of large
arguments (payne_hanek.py), and the remainder, which divides integers. A large f32 argument goes by way of f64, where
the polynomials reach further, if the device has f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..codegen import ir
from ..codegen.polynomials import INLINED
from ..codegen.polynomials.evaluate import format_of
from ..codegen.types import F32, F64
from . import payne_hanek
from .code import I32, I64, ArithmeticWriter
from .emit import ArithEmitter
from .gpu_trigonometric import LEAN, quarter_waves, shortest_writer
from .subnormals import is_small

_ARITY = {"pow": 2, "atan2": 2, "fmod": 2}


def call(e: ArithEmitter, name: str, *args: ir.LLVMValue) -> ir.LLVMValue:
    """Return the result of a mathematical function of f32 or f64 arguments."""
    t = args[0].type
    if t == F32 and name in LEAN and not e.m.options.precise:
        write = shortest_writer(name, e.reach)
        if write is not None:
            return write(e, *args)
    body = fmod if name == "fmod" else _by_polynomial(name, t)
    return e.b.call(e.m.helper(f"sg.{name}.{t.name}", t, [t] * len(args), body), args)


def libcall(name: str) -> Callable[..., ir.LLVMValue]:
    """Return a table entry that computes an operation by a call of the mathematical function `name`."""

    def row(e: ArithEmitter, t: Any, *args: ir.LLVMValue) -> ir.LLVMValue:
        return call(e, name, *args)

    return row


def _by_polynomial(name: str, t: ir.Type) -> Callable[[ArithEmitter, ArithmeticWriter], None]:
    """Return a writer of the mathematical function `name`, computed by a polynomial of the LLVM generator."""
    inlined: Any = INLINED[name]

    def body(e: ArithEmitter, function: ArithmeticWriter) -> None:
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
"""Functions whose value for a subnormal argument is the argument itself, to the last place."""


def _kept(
    e: ArithEmitter, name: str, found: ir.LLVMValue, x: ir.LLVMValue, y: ir.LLVMValue | None = None
) -> ir.LLVMValue:
    """Return the result of a function, or its argument if the device could lose a tiny result by flushing.

    A device may flush a subnormal argument in the polynomial. For such an argument the function is the argument itself,
    up to rounding, and atan2 the quotient of its arguments if the second one is not negative.

    Args:
        e: function being written
        name: name of the mathematical function
        found: result of the polynomial
        x: first argument
        y: second argument of atan2
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


def sine_and_cosine(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the sine and the cosine of an f32, computed with one range test and one range reduction."""
    if shortest_writer("sin", e.reach) is not None:
        # Loops whose arguments are known to be small come this way, in default builds alone.
        return quarter_waves(e, x)
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


def _far(e: ArithEmitter, name: str, x: ir.LLVMValue) -> ir.LLVMValue:
    """Emit a call that computes sin, cos or tan of an argument outside of the range of the polynomials."""
    t = x.type
    return e.b.call(e.m.helper(f"sg.{name}.{t.name}.far", t, [t], lambda a, f: _of_large(a, name, f)), [x])


def _of_large(e: ArithEmitter, name: str, function: ArithmeticWriter) -> None:
    """Write the body of the sine, cosine or tangent of a large argument."""
    (x,) = function.args
    # The polynomials of f64 reach further than those of f32; without f64, as many digits of 2/pi as needed do.
    if x.type == F32 and e.m.features.float64:
        function.ret(e.b.fptrunc(call(e, name, e.b.fpext(x, F64)), F32))
    else:
        function.ret(payne_hanek.write_large(e, name, x))


# ---- remainder --------------------------------------------------------------------------------------------------


def fmod(e: ArithEmitter, function: ArithmeticWriter) -> None:
    """Write the body of fmod: the exact x - y·trunc(x/y) with the sign of x, by long division of the mantissas."""
    b, (x, y) = function, function.args
    up, down = e.intrinsic("fabs", x), e.intrinsic("fabs", y)
    finite = b.fcmp_ordered("<", up, e.const(x, math.inf))
    defined = b.and_(finite, b.fcmp_ordered(">", down, e.const(x, 0.0)))
    out = b.scalar(x.type)
    out.set(b.select(defined, x, e.const(x, math.nan)))
    with b.if_then(b.and_(b.fcmp_ordered(">=", up, down), defined)):
        out.set(e.intrinsic("copysign", _divided(e, up, down), x))
    b.ret(out.get())


def _hidden(x: ir.LLVMValue) -> int:
    """Return an integer with one bit set: the implicit leading digit of the mantissa, for the real type of x."""
    return 1 << format_of(x).mantissa


def _parts(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return exponent and mantissa of a positive finite number as integers of 64 bits; subnormals have exponent 1."""
    b = e.b
    word: ir.LLVMValue = b.bitcast(x, I64) if x.type == F64 else b.zext(b.bitcast(x, I32), I64)
    field, low = b.lshr(word, e.word(format_of(x).mantissa)), b.and_(word, e.word(_hidden(x) - 1))
    small = b.icmp_unsigned("==", field, e.word(0))
    return b.select(small, e.word(1), field), b.select(small, low, b.or_(low, e.word(_hidden(x))))


def _divided(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the remainder of two positive numbers by long division."""
    b, most = e.b, e.word(63 - format_of(x).mantissa)
    (high, m), (low, divisor) = _parts(e, x), _parts(e, y)
    rest, left = b.scalar(I64), b.scalar(I64)
    rest.set(b.urem(m, divisor))
    left.set(b.sub(high, low))

    def divide() -> None:
        places = left.get()
        # One division of 64-bit integers finds as many binary places of the quotient as fit beside the mantissa.
        step = b.select(b.icmp_unsigned("<", places, most), places, most)
        rest.set(b.urem(b.shl(rest.get(), step), divisor))
        left.set(b.sub(places, step))

    b.loop(lambda: b.icmp_unsigned(">", left.get(), e.word(0)), divide, lambda: None)
    return _assembled(e, rest.get(), low, x)


def _assembled(e: ArithEmitter, m: ir.LLVMValue, exponent: ir.LLVMValue, like: ir.LLVMValue) -> ir.LLVMValue:
    """Return the real number with a given integer mantissa and exponent, composed of its bits.

    No instruction on reals takes part, because it might flush subnormal numbers.
    """
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
