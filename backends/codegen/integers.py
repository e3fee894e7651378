"""This module lowers operations on integers and booleans to LLVM: wrapping, floor division, shifts, powers.

Division never faults: a zero divisor, and the least integer over -1, divide by 1 instead, and a select puts the right
result in place (0 for the zero divisor, which a debug build reports before the division runs).
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.types import Scalar
from . import ir
from .emit import PURE, ArithEmitter
from .types import I1, I32, const, like, suffix


def neg(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the negated integer 0 - x; the least integer wraps around to itself."""
    return e.b.sub(e.const(x, 0), x)


def absolute(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the absolute value; the least integer maps to itself."""
    return e.b.select(e.b.icmp_signed("<", x, e.const(x, 0)), neg(e, t, x), x) if t.is_signed else x


def sgn(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the sign of x: -1, 0 or 1."""
    positive = e.b.select(e.b.icmp_unsigned("!=", x, e.const(x, 0)), e.const(x, 1), e.const(x, 0))
    if not t.is_signed:
        return positive
    return e.b.select(e.b.icmp_signed("<", x, e.const(x, 0)), e.const(x, -1), positive)


def bit_not(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return x with every bit flipped, which is logical not of a boolean."""
    return e.b.xor(x, e.const(x, -1))


def _to_i32(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return a bit count of type `t` converted to i32."""
    word = like(x.type, I32)
    if t.bits == 32:
        return x
    return e.b.trunc(x, word) if t.bits > 32 else e.b.zext(x, word)


def popcnt(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the number of set bits as i32."""
    return _to_i32(e, t, e.intrinsic("ctpop", x))


def clz(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the number of leading zero bits as i32, which is the width of the type for x = 0."""
    return _to_i32(e, t, e.intrinsic("ctlz", x, const(I1, False)))


def ffs(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the 1-based position of the lowest set bit as i32, which is 0 for x = 0."""
    place = e.b.add(_to_i32(e, t, e.intrinsic("cttz", x, const(I1, False))), const(like(x.type, I32), 1))
    return e.b.select(e.b.icmp_unsigned("==", x, e.const(x, 0)), e.const(place, 0), place)


def shift(name: str) -> Callable[..., ir.LLVMValue]:
    """Return a table entry that emits the shift instruction `name`, with the count taken modulo the width."""

    def row(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, count: ir.LLVMValue) -> ir.LLVMValue:
        shifted: ir.LLVMValue = getattr(e.b, name)(x, e.b.and_(count, e.const(count, t.bits - 1)))
        return shifted

    return row


def extremum(name: str) -> Callable[..., ir.LLVMValue]:
    """Return a table entry that emits integer min or max (`name`), signed or unsigned as the type demands."""

    def row(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
        return e.intrinsic(("s" if t.is_signed else "u") + name, x, y)

    return row


def _safe_divisor(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (condition 'y is 0', y replaced by 1 where the division by y would fault)."""
    zero = e.b.icmp_unsigned("==", y, e.const(y, 0))
    bad = zero
    if t.is_signed:
        least = e.b.icmp_unsigned("==", x, e.const(x, -(1 << (t.bits - 1))))
        bad = e.b.or_(zero, e.b.and_(least, e.b.icmp_unsigned("==", y, e.const(y, -1))))
    return zero, e.b.select(bad, e.const(y, 1), y)


def _floored(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (x // y, x % y) rounded toward minus infinity, for a divisor that cannot fault."""
    b = e.b
    if not t.is_signed:
        return b.udiv(x, y), b.urem(x, y)
    quotient, rest = b.sdiv(x, y), b.srem(x, y)
    # Truncation and floor differ where the remainder is not 0 and its sign is not that of the divisor.
    apart = b.icmp_signed("<", b.xor(rest, y), e.const(x, 0))
    adjust = b.and_(apart, b.icmp_unsigned("!=", rest, e.const(x, 0)))
    down = b.sub(quotient, b.zext(adjust, quotient.type))
    return down, b.select(adjust, b.add(rest, y), rest)


def floordiv(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the quotient rounded toward minus infinity, or 0 if the divisor is zero."""
    zero, safe = _safe_divisor(e, t, x, y)
    return e.b.select(zero, e.const(x, 0), _floored(e, t, x, safe)[0])


def mod(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the remainder with the sign of y, or 0 if the divisor y is zero."""
    zero, safe = _safe_divisor(e, t, x, y)
    return e.b.select(zero, e.const(x, 0), _floored(e, t, x, safe)[1])


def power(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return x to the power y by squaring, wrapping; a negative exponent gives 1/x truncated (0 for x = 0)."""
    if isinstance(y, ir.Constant) and y.constant is not None and y.constant >= 0:
        return _constant_power(e, x, y.constant)
    name = f"sg.pow.{t}.{suffix(x.type)}"
    return e.b.call(e.m.helper(name, x.type, [x.type, x.type], lambda a, f: _power_body(a, t, f), PURE), [x, y])


def _constant_power(e: ArithEmitter, x: ir.LLVMValue, exponent: int) -> ir.LLVMValue:
    """Return x to a constant power, written out as multiplications."""
    out: ir.LLVMValue = e.const(x, 1)
    while exponent:
        if exponent & 1:
            out = e.b.mul(out, x)
        exponent >>= 1
        x = e.b.mul(x, x) if exponent else x
    return out


def _power_body(e: ArithEmitter, t: Scalar, function: ir.LLVMFunction) -> None:
    """Emit the body of the power function: a loop over the exponent's bits, until the last lane is done."""
    b = e.b
    base, exponent = function.args
    start = b.block
    loop, done = function.append_basic_block("loop"), function.append_basic_block("done")
    b.branch(loop)
    b.position_at_end(loop)
    x, y, out = b.phi(base.type), b.phi(base.type), b.phi(base.type)
    taken = b.select(b.trunc(y, like(y.type, I1)), b.mul(out, x), out)
    rest, square = b.lshr(y, e.const(y, 1)), b.mul(x, x)
    for phi, first, later in ((x, base, square), (y, exponent, rest), (out, e.const(base, 1), taken)):
        phi.add_incoming(first, start)
        phi.add_incoming(later, loop)
    more = b.icmp_unsigned("!=", rest, e.const(rest, 0))
    if isinstance(x.type, ir.VectorType):
        more = e.intrinsic("vector.reduce.or", more, result=I1, by=[more.type])
    b.cbranch(more, loop, done)
    b.position_at_end(done)
    b.ret(negative_power(e, base, exponent, taken) if t.is_signed else taken)


def negative_power(e: ArithEmitter, base: ir.LLVMValue, exponent: ir.LLVMValue, positive: ir.LLVMValue) -> ir.LLVMValue:
    """Return base**exponent for an exponent of either sign; `positive` is the result for exponents >= 0.

    For a negative exponent it is 1 for x = 1, ±1 by the exponent's parity for x = -1, and 0 otherwise.
    """
    b = e.b
    one, minus = e.const(base, 1), e.const(base, -1)
    odd = b.trunc(exponent, like(exponent.type, I1))
    unit = b.select(b.icmp_unsigned("==", base, one), one, e.const(base, 0))
    unit = b.select(b.icmp_unsigned("==", base, minus), b.select(odd, minus, one), unit)
    return b.select(b.icmp_signed("<", exponent, e.const(exponent, 0)), unit, positive)
