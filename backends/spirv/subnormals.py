"""This module emits f32 operations that keep subnormal numbers on devices that may flush these to zero.

Such a device may take them for zeros. NVIDIA's devices do so where they compare, take magnitudes and widen, though not
where they add, multiply and divide. So integers decide the order, a mask takes the magnitude, and widening goes by way
of normal numbers. A comparison with a normal number needs none of this, because zero lies on the same side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..codegen import ir
from ..codegen.types import F32, F64, I32, I64
from .module import SpirvValue
from .opaque_values import opaque_zero

if TYPE_CHECKING:
    from .code import ArithmeticWriter

TINY = 2.0**-126
"""The least normal number of f32."""

LEAST, INFINITE = 0x00800000, 0x7F800000
"""Bits of TINY and of infinity; the bits of NaN are greater numbers."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def compared_by_bits(code: ArithmeticWriter, x: SpirvValue, y: SpirvValue) -> bool:
    """Return True if two reals must be compared by their bits, because the device may flush subnormal numbers."""
    if not code.module.quirks.flushes or x.type != F32:
        return False
    known = (code.module.reals.get(v.id) for v in (x, y))
    return all(number is None or abs(number) < TINY for number in known)


def compare(code: ArithmeticWriter, sign: str, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Return the condition that `x sign y` is true, such as x < y. It is false if either is NaN."""
    if code.module.reals.get(x.id) == 0.0:
        x, y, sign = y, x, _MIRRORED[sign]
    if code.module.reals.get(y.id) == 0.0 and sign in _WITH_ZERO:
        return _WITH_ZERO[sign](code, code.bitcast(x, I32))
    found = code.icmp_signed(sign, _rank(code, x), _rank(code, y))
    return code.and_(found, code.and_(_is_number(code, x), _is_number(code, y)))


def compared_unordered(code: ArithmeticWriter, sign: str, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Return the condition that `x sign y` is true, such as x < y. It is also true if either is NaN."""
    return code.xor(compare(code, _OPPOSITE[sign], x, y), code.const(ir.I1, True))


def _positive(code: ArithmeticWriter, bits: SpirvValue) -> SpirvValue:
    """Return the condition that the f32 with these bits is positive and not NaN."""
    return code.icmp_unsigned("<", code.sub(bits, code.const(I32, 1)), code.const(I32, INFINITE))


def _negative(code: ArithmeticWriter, bits: SpirvValue) -> SpirvValue:
    """Return the condition that the f32 with these bits is negative and not NaN."""
    return code.icmp_unsigned("<", code.sub(bits, code.const(I32, (1 << 31) + 1)), code.const(I32, INFINITE))


def _zero(code: ArithmeticWriter, bits: SpirvValue) -> SpirvValue:
    """Return the condition that the f32 with these bits is a zero of either sign."""
    return code.icmp_unsigned("==", code.shl(bits, code.const(I32, 1)), code.const(I32, 0))


def _positive_or_zero(code: ArithmeticWriter, bits: SpirvValue) -> SpirvValue:
    """Return the condition that the f32 with these bits is positive or zero, and not NaN."""
    return code.or_(_positive(code, bits), _zero(code, bits))


def _negative_or_zero(code: ArithmeticWriter, bits: SpirvValue) -> SpirvValue:
    """Return the condition that the f32 with these bits is negative or zero, and not NaN."""
    return code.or_(_negative(code, bits), _zero(code, bits))


_WITH_ZERO: dict[str, Callable[[ArithmeticWriter, SpirvValue], SpirvValue]] = {
    ">": _positive,
    "<": _negative,
    "==": _zero,
    ">=": _positive_or_zero,
    "<=": _negative_or_zero,
}
"""Comparisons of a number, given by its bits, with zero."""


def _rank(code: ArithmeticWriter, x: SpirvValue) -> SpirvValue:
    """Return an integer for an f32 so that integers compare like the numbers; both zeros become 0."""
    bits = code.bitcast(x, I32)
    negative = code.icmp_signed("<", bits, code.const(I32, 0))
    return code.select(negative, code.sub(code.const(I32, 1 << 31), bits), bits)


def _is_number(code: ArithmeticWriter, x: SpirvValue) -> SpirvValue:
    """Return the condition that x is not NaN."""
    return code.icmp_unsigned("<=", _size(code, x), code.const(I32, INFINITE))


def _size(code: ArithmeticWriter, x: ir.LLVMValue) -> SpirvValue:
    """Return the bits of the magnitude |x| as an integer."""
    return code.and_(code.bitcast(x, I32), _all_but_sign(code))


def _all_but_sign(code: ArithmeticWriter) -> SpirvValue:
    """Return the mask of all bits of an f32 except the sign bit."""
    # Drivers must not know the mask, because they would see a magnitude or a sign in it and flush again.
    with code.at_head():
        return code.xor(opaque_zero(code, I32), code.const(I32, (1 << 31) - 1))


def magnitude(code: ArithmeticWriter, x: ir.LLVMValue) -> SpirvValue:
    """Return |x|."""
    return code.bitcast(_size(code, x), F32)


def with_sign(code: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
    """Return the magnitude of x with the sign of y."""
    with code.at_head():
        sign = code.xor(_all_but_sign(code), code.const(I32, -1))
    return code.bitcast(code.or_(_size(code, x), code.and_(code.bitcast(y, I32), sign)), F32)


def floor_or_ceil(code: ArithmeticWriter, name: str, x: SpirvValue) -> SpirvValue:
    """Return floor(x) or ceil(x), whichever `name` is, also right for subnormal x."""
    # The floor or ceiling of a subnormal number is 0 or the integer beside it, which its sign decides.
    side, beside = (_negative, -1.0) if name == "floor" else (_positive, 1.0)
    small = code.and_(side(code, code.bitcast(x, I32)), is_small(code, x))
    return code.select(small, code.const(F32, beside), code.glsl(name, F32, x))


def is_small(code: ArithmeticWriter, x: SpirvValue) -> SpirvValue:
    """Return the condition that a number is subnormal or zero."""
    return code.icmp_unsigned("<", _size(code, x), code.const(I32, LEAST))


def f32_to_f64(code: ArithmeticWriter, x: SpirvValue) -> SpirvValue:
    """Return an f32 as an f64, exact also for subnormal numbers."""
    # A subnormal number is multiplied first, which the device does right, and divided as an f64.
    small = is_small(code, x)
    scale, back = (code.const(t, number) for t, number in ((F32, 2.0**32), (F64, 2.0**-32)))
    by_way = code.fmul(code.exact(F64, "FConvert", code.fmul(x, scale)), back)
    return code.select(small, by_way, code.exact(F64, "FConvert", x))


def f64_to_f32(code: ArithmeticWriter, x: SpirvValue) -> SpirvValue:
    """Return an f64 rounded to f32, correctly also if the result is subnormal.

    A number that becomes subnormal is rounded to its last place as an f64, and divided as an f32, which is exact.
    """
    size = code.glsl("fabs", F64, x)
    small = code.fcmp_ordered("<", size, code.const(F64, TINY))
    # Adding and subtracting 1.5·2^52 last places rounds to a multiple of the last place.
    shift = code.const(F64, 1.5 * 2.0 ** (52 - 149))
    rounded = code.fsub(code.fadd(x, shift), shift)
    scaled = code.exact(F32, "FConvert", code.fmul(rounded, code.const(F64, 2.0**64)))
    by_way = code.fmul(scaled, code.const(F32, 2.0**-64))
    # The upper word of the f64 has the sign in the same bit as an f32.
    upper = code.trunc(code.lshr(code.bitcast(x, I64), code.const(I64, 32)), I32)
    signed = with_sign(code, by_way, code.bitcast(upper, F32))
    return code.select(small, signed, code.exact(F32, "FConvert", x))
