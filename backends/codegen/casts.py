"""This module emits casts between scalar types by docs/ir.md: saturating, NaN to 0, f16 rounded to nearest even.

f16 takes part in arithmetic as f32 only, and every conversion to or from it goes through f32.
"""

from __future__ import annotations

from ...compiler.ir.types import Scalar, f32
from . import ir
from .emit import ArithEmitter
from .types import F16, F32, I16, I32, like, value_type


def cast(e: ArithEmitter, value: ir.LLVMValue, source: Scalar, to: Scalar) -> ir.LLVMValue:
    """Return the value converted from one IR type to another; vectors are converted lane by lane."""
    if source == to:
        return value
    if to.is_bool:
        return _truth(e, value, source)
    if source.is_real and source.bits == 16:
        return cast(e, half_to_f32(e, value), f32, to)
    if to.is_real and to.bits == 16:
        return f32_to_half(e, cast(e, value, source, f32))
    return _plain(e, value, source, to)


def _truth(e: ArithEmitter, value: ir.LLVMValue, source: Scalar) -> ir.LLVMValue:
    """Return the condition that a value is not zero; NaN is true."""
    if source.is_real:
        return e.b.fcmp_unordered("!=", value, e.const(value, 0.0))
    return e.b.icmp_unsigned("!=", value, e.const(value, 0))


def _plain(e: ArithEmitter, value: ir.LLVMValue, source: Scalar, to: Scalar) -> ir.LLVMValue:
    """Return a value converted to another type, where neither type is f16 and the new type is not u1."""
    t = like(value.type, value_type(to))
    if source.is_real and to.is_real:
        return e.b.fpext(value, t) if to.bits > source.bits else e.b.fptrunc(value, t)
    if source.is_real:
        return e.intrinsic("fptosi.sat" if to.is_signed else "fptoui.sat", value, result=t)
    if to.is_real:
        return e.b.sitofp(value, t) if source.is_signed else e.b.uitofp(value, t)
    if to.bits == source.bits:
        return value
    if to.bits < source.bits:
        return e.b.trunc(value, t)
    return e.b.sext(value, t) if source.is_signed else e.b.zext(value, t)


def half_to_f32(e: ArithEmitter, value: ir.LLVMValue) -> ir.LLVMValue:
    """Return an f16 as f32, which is exact."""
    if e.m.target.native_half:
        return e.b.fpext(value, like(value.type, F32))
    return _soft_from_half(e, value)


def f32_to_half(e: ArithEmitter, value: ir.LLVMValue) -> ir.LLVMValue:
    """Return an f32 rounded to f16 by nearest even."""
    if e.m.target.native_half:
        return e.b.fptrunc(value, like(value.type, F16))
    return _soft_to_half(e, value)


def _soft_from_half(e: ArithEmitter, value: ir.LLVMValue) -> ir.LLVMValue:
    """Convert f16 to f32 by integer instructions."""
    b = e.b
    word = like(value.type, I32)
    bits = b.zext(b.bitcast(value, like(value.type, I16)), word)
    magnitude = b.shl(b.and_(bits, e.const(bits, 0x7FFF)), e.const(bits, 13))
    # Exponent and mantissa are in place but for the bias; the multiplication by 2^112 also makes subnormals normal.
    small = b.bitcast(magnitude, like(value.type, F32))
    scaled = b.fmul(small, e.const(small, 2.0**112))
    special = b.icmp_unsigned(">=", b.and_(bits, e.const(bits, 0x7FFF)), e.const(bits, 0x7C00))
    finite = b.bitcast(scaled, word)
    out = b.select(special, b.or_(magnitude, e.const(bits, 0x7F800000)), finite)
    sign = b.shl(b.and_(bits, e.const(bits, 0x8000)), e.const(bits, 16))
    return b.bitcast(b.or_(out, sign), like(value.type, F32))


def _soft_to_half(e: ArithEmitter, value: ir.LLVMValue) -> ir.LLVMValue:
    """Convert f32 to f16 by integer instructions, rounding to nearest even."""
    b = e.b
    bits = b.bitcast(value, like(value.type, I32))
    sign = b.and_(b.lshr(bits, e.const(bits, 16)), e.const(bits, 0x8000))
    magnitude = b.and_(bits, e.const(bits, 0x7FFFFFFF))
    odd = b.and_(b.lshr(magnitude, e.const(bits, 13)), e.const(bits, 1))
    # Adding half of the last place less one, and one more if that place is odd, rounds to nearest even; the bias
    # changes too.
    rounded = b.add(b.add(magnitude, e.const(bits, 0xFFF - (112 << 23))), odd)
    normal = b.lshr(rounded, e.const(bits, 13))
    # Subnormal results are rounded by adding 0.5, whose last place is that of the least f16.
    shifted = b.fadd(b.bitcast(magnitude, value.type), e.const(value, 0.5))
    subnormal = b.sub(b.bitcast(shifted, bits.type), e.const(bits, 0x3F000000))
    out = b.select(b.icmp_unsigned("<", magnitude, e.const(bits, 113 << 23)), subnormal, normal)
    # From 65520 on, results round to infinity; NaN keeps a quiet pattern.
    out = b.select(b.icmp_unsigned(">=", magnitude, e.const(bits, 0x477FF000)), e.const(bits, 0x7C00), out)
    out = b.select(b.icmp_unsigned(">", magnitude, e.const(bits, 0x7F800000)), e.const(bits, 0x7E00), out)
    return b.bitcast(b.trunc(b.or_(out, sign), like(value.type, I16)), like(value.type, F16))


def bit_cast(e: ArithEmitter, value: ir.LLVMValue, to: Scalar) -> ir.LLVMValue:
    """Return the bits of a value, unchanged, as a value of another type of the same width."""
    t = like(value.type, value_type(to))
    return value if t == value.type else e.b.bitcast(value, t)


__all__ = ["bit_cast", "cast", "f32_to_half", "half_to_f32"]
