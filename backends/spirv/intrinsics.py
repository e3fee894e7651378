"""This module writes the LLVM intrinsics that shared operations call by `e.intrinsic` as SPIR-V instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..codegen import ir
from ..codegen.types import F32, F64, bits_type
from . import square_roots
from .code import I32
from .module import SpirvValue
from .opaque_values import hide_value
from .subnormals import floor_or_ceil, magnitude, with_sign

if TYPE_CHECKING:
    from .emit import ArithEmitter


def _glsl(name: str) -> Callable[..., SpirvValue]:
    """Return a function that emits the instruction `name` of GLSL.std.450."""

    def write(e: ArithEmitter, *args: ir.LLVMValue) -> SpirvValue:
        return e.b.glsl(name, args[0].type, *args)

    return write


def _hiding(name: str) -> Callable[..., SpirvValue]:
    """Return a function that emits a GLSL.std.450 instruction on operands that it hides from the driver's compiler."""

    # llvmpipe also leaves out the FAbs of a -0 that it knows.
    def write(e: ArithEmitter, *args: ir.LLVMValue) -> SpirvValue:
        return e.b.glsl(name, args[0].type, *(hide_value(e.b, x) for x in args))

    return write


def _step(name: str) -> Callable[..., SpirvValue]:
    """Return a function that emits the rounding operation `name`, which is floor or ceil."""

    def write(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
        if e.m.features.quirks.flushes and x.type == F32:
            return floor_or_ceil(e.b, name, e.b.value(x))
        return e.b.glsl(name, x.type, x)

    return write


_fabs = _hiding("fabs")


def _magnitude(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
    """Emit the absolute value of a real x."""
    return magnitude(e.b, x) if e.m.features.quirks.flushes and x.type == F32 else _fabs(e, x)


def _copysign(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
    """Emit the magnitude of x with the sign of y."""
    if e.m.features.quirks.flushes and x.type == F32:
        return with_sign(e.b, x, y)
    b, word = e.b, bits_type(x.type)
    assert isinstance(word, ir.IntType)
    sign = 1 << (word.width - 1)
    # The magnitude comes from FAbs, not from a mask: where x < 0 is also asked, Mesa 22.3 on LLVM 15 merges the two
    # masks into one wrong mask.
    magnitude = b.bitcast(e.intrinsic("fabs", x), word)
    return b.bitcast(b.or_(magnitude, b.and_(b.bitcast(y, word), b.const(word, sign))), x.type)


def _extreme(sign: str, join: str) -> Callable[..., SpirvValue]:
    """Return a function that emits the minimum or maximum of two reals, which is NaN if an operand is NaN.

    Of two equal zeros, the sign bits joined by `join` decide.
    """

    def write(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        b, word = e.b, bits_type(x.type)
        joined = b.bitcast(getattr(b, join)(b.bitcast(x, word), b.bitcast(y, word)), x.type)
        found = b.select(b.fcmp_ordered(sign, x, y), x, y)
        found = b.select(b.fcmp_ordered("==", x, y), joined, found)
        return b.select(e.isnan(x), x, found)

    return write


def _least(compare: str, sign: str) -> Callable[..., SpirvValue]:
    """Return a function that emits the minimum or maximum of two integers."""

    def write(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        return e.b.select(getattr(e.b, compare)(sign, x, y), x, y)

    return write


# ---- bits: devices count in 32 bits ---------------------------------------------------------------------------


def _halves(e: ArithEmitter, x: ir.LLVMValue) -> tuple[SpirvValue, SpirvValue]:
    """Return the lower and the upper word of an integer of 64 bits."""
    return e.b.trunc(x, I32), e.b.trunc(e.b.lshr(x, e.const(x, 32)), I32)


def _resized(e: ArithEmitter, count: SpirvValue, t: ir.Type) -> SpirvValue:
    """Return a count of bits, held in 32 bits, as a value of the integer type `t`."""
    assert isinstance(t, ir.IntType)
    if t.width == 32:
        return count
    return e.b.zext(count, t) if t.width == 64 else e.b.trunc(count, t)


def _width(x: ir.LLVMValue) -> int:
    """Return the number of bits of an integer."""
    assert isinstance(x.type, ir.IntType)
    return x.type.width


def _word(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return an integer of at most 32 bits widened to exactly 32 bits."""
    return x if _width(x) == 32 else e.b.zext(x, I32)


def _set_bits(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
    """Emit the number of set bits of an integer."""
    if _width(x) == 64:
        low, high = (e.b.pure(I32, "BitCount", half) for half in _halves(e, x))
        return _resized(e, e.b.add(low, high), x.type)
    return _resized(e, e.b.pure(I32, "BitCount", _word(e, x)), x.type)


def _leading(e: ArithEmitter, word: ir.LLVMValue) -> SpirvValue:
    """Return the number of leading zeros of a word of 32 bits."""
    # FindUMsb gives -1 for a word without a set bit, so the result is then 32.
    return e.b.sub(e.b.const(I32, 31), e.b.pure(I32, "ExtInst", e.b.module.glsl, 75, word))


def _leading_zeros(e: ArithEmitter, x: ir.LLVMValue, poison: ir.LLVMValue) -> SpirvValue:
    """Emit the number of leading zero bits of an integer."""
    b, width = e.b, _width(x)
    if width == 64:
        low, high = _halves(e, x)
        below = b.add(_leading(e, low), b.const(I32, 32))
        found = b.select(b.icmp_unsigned("==", high, b.const(I32, 0)), below, _leading(e, high))
        return _resized(e, found, x.type)
    return _resized(e, b.sub(_leading(e, _word(e, x)), b.const(I32, 32 - width)), x.type)


def _trailing_zeros(e: ArithEmitter, x: ir.LLVMValue, poison: ir.LLVMValue) -> SpirvValue:
    """Emit the number of trailing zero bits of an integer."""
    # The bits below the lowest set bit are those of (x - 1) & ~x.
    below = e.b.and_(e.b.sub(x, e.const(x, 1)), e.b.xor(x, e.const(x, -1)))
    return _set_bits(e, below)


# ---- rounding -----------------------------------------------------------------------------------------------------


def _trunc(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
    """Emit a real rounded toward zero; drivers that round wrongly (quirk `coarse`) get floor and ceil instead."""
    b = e.b
    if x.type != F64 or not e.m.features.quirks.coarse:
        return b.glsl("trunc", x.type, x)
    is_negative = b.fcmp_ordered("<", x, e.const(x, 0.0))
    return b.select(is_negative, b.glsl("ceil", x.type, x), b.glsl("floor", x.type, x))


def _roundeven(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
    """Emit a real rounded to the nearest integer, ties to even; drivers with the quirk `coarse` get a sum instead.

    |x| + 2^52 has no digits after the point, so the sum itself is rounded to the nearest even integer. Numbers of at
    least 2^52 are integral, and results of zero take their sign from ceil or floor.
    """
    b = e.b
    if x.type != F64 or not e.m.features.quirks.coarse:
        return b.glsl("roundeven", x.type, x)
    zero, limit = e.const(x, 0.0), e.const(x, 2.0**52)
    is_negative = b.fcmp_ordered("<", x, zero)
    size = b.select(is_negative, b.fneg(x), x)
    near = b.fsub(b.fadd(size, limit), limit)
    rounded = b.select(b.fcmp_ordered("<", size, limit), b.select(is_negative, b.fneg(near), near), x)
    return b.select(b.fcmp_ordered("==", rounded, zero), _trunc(e, x), rounded)


# ---- reals to integers ------------------------------------------------------------------------------------------


def _saturated(signed: bool) -> Callable[..., SpirvValue]:
    """Return a function that emits a saturating conversion of a real to an integer. NaN becomes 0."""

    def write(e: ArithEmitter, x: ir.LLVMValue, result: ir.Type) -> SpirvValue:
        b = e.b
        assert isinstance(result, ir.IntType)
        width = result.width
        # The ends of the range are powers of two, so they are exact in each real type.
        least, limit = (-(2.0 ** (width - 1)), 2.0 ** (width - 1)) if signed else (0.0, 2.0**width)
        inside = b.and_(b.fcmp_ordered(">=", x, e.const(x, least)), b.fcmp_ordered("<", x, e.const(x, limit)))
        safe = b.select(inside, x, e.const(x, 0.0))
        wide = result if width >= 32 else I32
        whole = b.to_whole("ConvertFToS" if signed else "ConvertFToU", safe, wide)
        found = whole if width >= 32 else b.trunc(whole, result)
        most = (1 << (width - signed)) - 1
        found = b.select(b.fcmp_ordered(">=", x, e.const(x, limit)), b.const(result, most), found)
        low = b.const(result, -(1 << (width - 1)) if signed else 0)
        return b.select(b.fcmp_ordered("<", x, e.const(x, least)), low, found)

    return write


INTRINSICS: dict[str, Callable[..., SpirvValue]] = {
    **{name: _step(name) for name in ("floor", "ceil")},
    "trunc": _trunc,
    "roundeven": _roundeven,
    "fabs": _magnitude,
    "fma": _hiding("fma"),
    "sqrt": square_roots.sqrt,
    "copysign": _copysign,
    "minimum": _extreme("<", "or_"),
    "maximum": _extreme(">", "and_"),
    "smin": _least("icmp_signed", "<"),
    "smax": _least("icmp_signed", ">"),
    "umin": _least("icmp_unsigned", "<"),
    "umax": _least("icmp_unsigned", ">"),
    "ctpop": _set_bits,
    "ctlz": _leading_zeros,
    "cttz": _trailing_zeros,
    "fptosi.sat": _saturated(True),
    "fptoui.sat": _saturated(False),
}
"""Writers by the name of the intrinsic without the prefix "llvm."."""
