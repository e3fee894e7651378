"""Mathematical functions of f32 and f64 as functions of the module: what a library is to other targets.

The polynomials are those of the LLVM generator, here without fused multiply-add. What they leave to a library is
written out: sin, cos and tan of large arguments (large.py), and the remainder, which divides integers. A large f32
argument goes by way of f64, where the polynomials reach further.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..llvm import ir
from ..llvm.polynomials import INLINED
from ..llvm.types import F32, F64
from . import large
from .code import I64, Code
from .emit import Arith

_ARITY = {"pow": 2, "atan2": 2, "fmod": 2}


def call(e: Arith, name: str, *args: ir.Value) -> ir.Value:
    """The function of f32 or f64 arguments."""
    t = args[0].type
    body = fmod if name == "fmod" else _by_polynomial(name)
    return e.b.call(e.m.helper(f"sg.{name}.{t.name}", t, [t] * len(args), body), args)


def libcall(name: str) -> Callable[..., ir.Value]:
    """The row of an operation that is one such function."""

    def row(e: Arith, t: Any, *args: ir.Value) -> ir.Value:
        return call(e, name, *args)

    return row


def _by_polynomial(name: str) -> Callable[[Arith, Code], None]:
    inlined: Any = INLINED[name]

    def body(e: Arith, function: Code) -> None:
        args = function.args
        if inlined.inside is None:
            function.ret(inlined.write(e, *args))
            return
        within = inlined.inside(e, *args)
        out = function.scalar(args[0].type)
        function.if_else(
            within, lambda: out.set(inlined.write(e, *args)), lambda: out.set(_of_large(e, name, args[0]))
        )
        function.ret(out.get())

    return body


def _of_large(e: Arith, name: str, x: ir.Value) -> ir.Value:
    if x.type == F32:
        return e.b.fptrunc(call(e, name, e.b.fpext(x, F64)), F32)
    return large.write(e, name, x)


# ---- remainder --------------------------------------------------------------------------------------------------

_FIELD, _MANTISSA, _HIDDEN = 0x7FF, (1 << 52) - 1, 1 << 52
_STEP = 11
"""Binary places of the quotient that one division of 64-bit integers finds: 53 + 11 digits fit."""


def fmod(e: Arith, function: Code) -> None:
    """x - y·trunc(x/y), exact, with the sign of x: long division of the integers behind the mantissas."""
    b, (x, y) = function, function.args
    if x.type == F32:
        both = b.fpext(x, F64), b.fpext(y, F64)
        b.ret(b.fptrunc(call(e, "fmod", *both), F32))
        return
    up, down = e.intrinsic("fabs", x), e.intrinsic("fabs", y)
    finite = b.fcmp_ordered("<", up, e.const(x, math.inf))
    defined = b.and_(finite, b.fcmp_ordered(">", down, e.const(x, 0.0)))
    out = b.scalar(x.type)
    out.set(b.select(defined, x, e.const(x, math.nan)))
    with b.if_then(b.and_(b.fcmp_ordered(">=", up, down), defined)):
        out.set(e.intrinsic("copysign", _divided(e, up, down), x))
    b.ret(out.get())


def _parts(e: Arith, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(exponent, mantissa as an integer) of a number that is positive and finite; subnormals have exponent 1."""
    b = e.b
    bits = b.bitcast(x, I64)
    field, low = b.lshr(bits, e.word(52)), b.and_(bits, e.word(_MANTISSA))
    small = b.icmp_unsigned("==", field, e.word(0))
    return b.select(small, e.word(1), field), b.select(small, low, b.or_(low, e.word(_HIDDEN)))


def _divided(e: Arith, x: ir.Value, y: ir.Value) -> ir.Value:
    b = e.b
    (high, m), (low, divisor) = _parts(e, x), _parts(e, y)
    rest, left = b.scalar(I64), b.scalar(I64)
    rest.set(b.urem(m, divisor))
    left.set(b.sub(high, low))

    def divide() -> None:
        places = left.get()
        step = b.select(b.icmp_unsigned("<", places, e.word(_STEP)), places, e.word(_STEP))
        rest.set(b.urem(b.shl(rest.get(), step), divisor))
        left.set(b.sub(places, step))

    b.loop(lambda: b.icmp_unsigned(">", left.get(), e.word(0)), divide, lambda: None)
    return _assembled(e, rest.get(), low)


def _assembled(e: Arith, m: ir.Value, exponent: ir.Value) -> ir.Value:
    """m·2^(exponent - 1075) for m < 2^53, without arithmetic on reals, which might flush subnormals."""
    b = e.b
    spare = b.sub(e.intrinsic("ctlz", m, e.false(m)), e.word(_STEP))
    most = b.sub(exponent, e.word(1))
    shift = b.select(b.icmp_unsigned("<", spare, most), spare, most)
    moved = b.shl(m, b.and_(shift, e.word(63)))
    normal = b.icmp_unsigned(">=", moved, e.word(_HIDDEN))
    field = b.shl(b.sub(exponent, shift), e.word(52))
    bits = b.select(normal, b.or_(field, b.and_(moved, e.word(_MANTISSA))), moved)
    return b.bitcast(b.select(b.icmp_unsigned("==", m, e.word(0)), e.word(0), bits), F64)
