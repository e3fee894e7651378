"""This module emits 64-bit integers as pairs of 32-bit words, lower first, on devices that have no 64-bit integers.

A value of type I64 is a vector of two integers of 32 bits, in registers, variables and memory alike, so an address in
the argument block and an element of an i64 array are read as on other devices. Each function of this module rewrites
one instruction on such values; the table entries of operations and statements know nothing of it. Such devices have no
atomics of 64 bits: one thread does all iterations of a task that would need them, as on devices that lack only those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen import ir
from .code import I1, I32, I64, ArithmeticWriter
from .module import SpirvModule, SpirvValue

STEPS = 8
"""Number of binary places of a quotient that one trip of the division finds.

Fewer trips are safer, because some drivers leave long loops early.
"""

WordPair = tuple[SpirvValue, SpirvValue]
"""The lower and the upper word of an integer."""


class PairedIntWriter(ArithmeticWriter):
    """Write a function in which a 64-bit integer is a pair of 32-bit words."""

    def __init__(self, module: SpirvModule, name: str, result: ir.Type, params: Sequence[ir.Type]) -> None:
        super().__init__(module, name, result, params)
        self._made: dict[int, WordPair] = {}

    def pair(self, low: ir.LLVMValue, high: ir.LLVMValue) -> SpirvValue:
        """Return the 64-bit integer with the given lower and upper words."""
        v, w = self.value(low), self.value(high)
        if v.number is not None and w.number is not None:
            return self.const(I64, int(w.number) << 32 | int(v.number))
        made = self.pure(I64, "CompositeConstruct", v, w)
        self._made[made.id] = v, w
        return made

    def parts(self, x: ir.LLVMValue) -> WordPair:
        """Return the lower and the upper word of a 64-bit integer."""
        v = self.value(x)
        if v.number is not None:
            return self.const(I32, int(v.number) & 0xFFFFFFFF), self.const(I32, int(v.number) >> 32)
        if v.id in self._made:
            return self._made[v.id]
        low, high = (self.pure(I32, "CompositeExtract", v, k) for k in range(2))
        return low, high

    # -- arithmetic -----------------------------------------------------------------------------------------

    def binary(self, name: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit an instruction on two integers or truth values without constant folding, 64-bit ones word by word."""
        if x.type != I64:
            return super().binary(name, x, y)
        return _PAIRED[name](self, self.value(x), self.value(y))

    def negated(self, x: ir.LLVMValue) -> SpirvValue:
        """Return 0 - x."""
        return self.sub(self.const(I64, 0), x)

    def is_negative(self, x: ir.LLVMValue) -> SpirvValue:
        """Return the condition that an integer's highest bit is set."""
        return self.icmp_signed("<", self.parts(x)[1], self.const(I32, 0))

    def magnitude(self, x: ir.LLVMValue) -> SpirvValue:
        """Return |x| as an unsigned integer."""
        return self.select(self.is_negative(x), self.negated(x), x)

    # -- comparisons ----------------------------------------------------------------------------------------

    def _compared(self, sign: str, kind: str, v: SpirvValue, w: SpirvValue) -> SpirvValue:
        """Emit the comparison of two integers: the upper words decide, unless they are equal."""
        if v.type != I64:
            return super()._compared(sign, kind, v, w)
        (a, b), (c, d) = self.parts(v), self.parts(w)
        same = self._icmp("==", "U", b, d)
        if sign in ("==", "!="):
            equal = self.and_(self._icmp("==", "U", a, c), same)
            return equal if sign == "==" else self.xor(equal, self.const(I1, True))
        above = self._icmp(sign[0], kind, b, d)
        return self.or_(above, self.and_(same, self._icmp(sign, "U", a, c)))

    # -- conversions ----------------------------------------------------------------------------------------

    def _resized(self, name: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a widening or truncation of an integer to or from a pair of 32-bit words."""
        v = self.value(x)
        if v.number is not None or v.type in (I1, to) or I64 not in (v.type, to):
            return super()._resized(name, v, to)
        if v.type == I64:
            return super()._resized("UConvert", self.parts(v)[0], to)
        low = super()._resized(name, v, I32)
        return self.pair(low, self.ashr(low, self.const(I32, 31)) if name == "SConvert" else self.const(I32, 0))

    def _to_real(self, name: str, widen: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit the conversion of an integer to a real; a signed pair of words is converted by magnitude and sign."""
        if x.type != I64:
            return super()._to_real(name, widen, x, to)
        if name == "ConvertUToF":
            return self._rounded(x, to)
        found = self._rounded(self.magnitude(x), to)
        return self.select(self.is_negative(x), self.fneg(found), found)

    def _rounded(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Return the real nearest to an unsigned 64-bit integer that is held as a pair of words."""
        if to.name == "f64":
            # Both words are exact in f64, so the sum is rounded once.
            low, high = (self.exact(to, "ConvertUToF", word) for word in self.parts(x))
            return self.fadd(self.fmul(high, self.const(to, 2.0**32)), low)
        # f32 has fewer digits than a word: the 32 highest bits decide, the lowest of which stands for all bits below.
        zeros = self._leading_zeros(x)
        low, high = self.parts(self.shl(x, self.pair(self.and_(zeros, self.const(I32, 63)), self.const(I32, 0))))
        rest = self.zext(self.icmp_unsigned("!=", low, self.const(I32, 0)), I32)
        scale = self.shl(self.sub(self.const(I32, 127 + 32), zeros), self.const(I32, 23))
        return self.fmul(self.exact(to, "ConvertUToF", self.or_(high, rest)), self.bitcast(scale, to))

    def _leading_zeros(self, x: ir.LLVMValue) -> SpirvValue:
        """Return the number of leading zero bits of a pair of words."""
        # FindUMsb gives -1 for a word without a set bit.
        low, high = (self.pure(I32, "ExtInst", self.module.glsl, 75, word) for word in self.parts(x))
        none = self.icmp_unsigned("==", high, self.const(I32, -1))
        return self.sub(self.const(I32, 31), self.select(none, self.sub(low, self.const(I32, 32)), high))

    def to_whole(self, name: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of a real, which must be in the range of integer type `to`, word by word, toward zero."""
        if to != I64:
            return super().to_whole(name, x, to)
        zero, unit = self.const(x.type, 0.0), self.const(x.type, 2.0**32)
        negative = self.fcmp_ordered("<", x, zero)
        size = self.select(negative, self.fneg(x), x)
        upper = self.glsl("floor", x.type, self.fmul(size, self.const(x.type, 2.0**-32)))
        lower = self.fsub(size, self.fmul(upper, unit))
        found = self.pair(*(self.exact(I32, "ConvertFToU", part) for part in (lower, upper)))
        return self.select(negative, self.negated(found), found) if name == "ConvertFToS" else found


# ---- one instruction each -------------------------------------------------------------------------------------


def _add(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Emit the sum of two pairs of words, adding the carry of the lower words to the upper ones."""
    (p, q), (r, s) = b.parts(x), b.parts(y)
    low = b.add(p, r)
    carry = b.zext(b.icmp_unsigned("<", low, p), I32)
    return b.pair(low, b.add(b.add(q, s), carry))


def _sub(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Emit the difference of two pairs of words, subtracting the borrow of the lower words from the upper ones."""
    (p, q), (r, s) = b.parts(x), b.parts(y)
    borrow = b.zext(b.icmp_unsigned("<", p, r), I32)
    return b.pair(b.sub(p, r), b.sub(b.sub(q, s), borrow))


def _mul(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Emit the product of two pairs of words, modulo 2^64."""
    (p, q), (r, s) = b.parts(x), b.parts(y)
    low, high = b.widened_product(p, r)
    return b.pair(low, b.add(high, b.add(b.mul(p, s), b.mul(q, r))))


def _by_words(name: str) -> Callable[[PairedIntWriter, SpirvValue, SpirvValue], SpirvValue]:
    """Return a function that applies the bitwise operation `name` to the lower and the upper words separately."""

    def write(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
        return b.pair(*(getattr(b, name)(p, q) for p, q in zip(b.parts(x), b.parts(y))))

    return write


def _places(b: PairedIntWriter, count: SpirvValue) -> tuple[SpirvValue, SpirvValue, SpirvValue]:
    """Split the shift count of a word pair into a shift within one word and a shift by a whole word.

    The results are the places within a word, 31 less those, and the condition that a whole word is added.
    """
    n = b.parts(count)[0]
    k = b.and_(n, b.const(I32, 31))
    return k, b.sub(b.const(I32, 31), k), b.icmp_unsigned(">=", n, b.const(I32, 32))


def _shl(b: PairedIntWriter, x: SpirvValue, count: SpirvValue) -> SpirvValue:
    """Emit a left shift of a pair of words."""
    low, high = b.parts(x)
    k, other, far = _places(b, count)
    # Two shifts, because one by 32 places would be undefined where k is 0.
    crossing = b.lshr(b.lshr(low, b.const(I32, 1)), other)
    near, moved = b.or_(b.shl(high, k), crossing), b.shl(low, k)
    return b.pair(b.select(far, b.const(I32, 0), moved), b.select(far, moved, near))


def _shifted_down(name: str) -> Callable[[PairedIntWriter, SpirvValue, SpirvValue], SpirvValue]:
    """Return a function that emits a right shift of a word pair: "lshr" shifts in zeros, "ashr" the sign."""

    def write(b: PairedIntWriter, x: SpirvValue, count: SpirvValue) -> SpirvValue:
        low, high = b.parts(x)
        k, other, far = _places(b, count)
        crossing = b.shl(b.shl(high, b.const(I32, 1)), other)
        near, moved = b.or_(b.lshr(low, k), crossing), getattr(b, name)(high, k)
        rest = b.ashr(high, b.const(I32, 31)) if name == "ashr" else b.const(I32, 0)
        return b.pair(b.select(far, moved, near), b.select(far, rest, moved))

    return write


# ---- division -------------------------------------------------------------------------------------------------


def _divided(name: str) -> Callable[[PairedIntWriter, SpirvValue, SpirvValue], SpirvValue]:
    """Return a function that emits a call of the unsigned division "udiv" or "urem" of pairs of words."""

    def write(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
        return b.call(b.module.helper(f"sg.pairs.{name}", lambda: _division(b.module, name)), [x, y])

    return write


def _division(module: SpirvModule, name: str) -> ArithmeticWriter:
    """Return the shader function that computes x / y or x % y of unsigned pairs of words."""
    b = PairedIntWriter(module, f"sg.pairs.{name}", I64, [I64, I64])
    x, y = b.args
    (p, upper), (q, above) = b.parts(x), b.parts(y)
    out, small = b.scalar(I64), b.icmp_unsigned("==", b.or_(upper, above), b.const(I32, 0))
    # Numbers that fit in one word are divided by one instruction, all others place by place.
    b.if_else(small, lambda: out.set(b.zext(getattr(b, name)(p, q), I64)), lambda: out.set(_long(b, x, y, name)))
    b.ret(out.get())
    b.close()
    return b


def _long(b: PairedIntWriter, x: SpirvValue, y: SpirvValue, name: str) -> SpirvValue:
    """Emit a long division of pairs of words, bit by bit, and return the quotient or the remainder."""
    one, top = b.const(I64, 1), b.const(I64, 63)
    rest, left, done = b.scalar(I64), b.scalar(I64), b.scalar(I32)
    rest.set(b.const(I64, 0))
    left.set(x)
    done.set(b.const(I32, 0))

    # The dividend moves out at the upper end of `left` while the quotient moves in at the lower end.
    def places() -> None:
        for _ in range(STEPS):
            before, digits = rest.get(), left.get()
            grown = b.or_(b.shl(before, one), b.lshr(digits, top))
            fits = b.or_(b.is_negative(before), b.icmp_unsigned(">=", grown, y))
            rest.set(b.select(fits, b.sub(grown, y), grown))
            left.set(b.or_(b.shl(digits, one), b.zext(fits, I64)))

    b.loop(
        lambda: b.icmp_unsigned("<", done.get(), b.const(I32, 64)),
        places,
        lambda: done.set(b.add(done.get(), b.const(I32, STEPS))),
    )
    return left.get() if name == "udiv" else rest.get()


def _signed_quotient(b: PairedIntWriter, x: SpirvValue, y: SpirvValue) -> SpirvValue:
    """Emit the signed quotient of two pairs of words, truncated toward zero."""
    found = b.udiv(b.magnitude(x), b.magnitude(y))
    return b.select(b.is_negative(b.xor(x, y)), b.negated(found), found)


_PAIRED: dict[str, Callable[[PairedIntWriter, SpirvValue, SpirvValue], SpirvValue]] = {
    "IAdd": _add,
    "ISub": _sub,
    "IMul": _mul,
    "BitwiseAnd": _by_words("and_"),
    "BitwiseOr": _by_words("or_"),
    "BitwiseXor": _by_words("xor"),
    "ShiftLeftLogical": _shl,
    "ShiftRightLogical": _shifted_down("lshr"),
    "ShiftRightArithmetic": _shifted_down("ashr"),
    "UDiv": _divided("udiv"),
    "UMod": _divided("urem"),
    "SDiv": _signed_quotient,
}
"""Writers of instructions on pairs, by the name of the instruction."""
