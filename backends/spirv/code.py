"""This module emits arithmetic instructions into one SPIR-V function, with constant folding and fused products.

Instructions have the names and the meaning of the LLVM generator's builder, so that table entries without control flow,
edge cases included, and the polynomials of mathematical functions also serve for SPIR-V. As in that builder, integer
instructions on constants and identities give a value without an instruction. Instructions on reals carry NoContraction:
no driver may fuse or reorder them. The generator itself fuses what may be contracted (the flag CONTRACT), so that every
driver gives the result of one of the two roundings of a multiply-add.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ..codegen import ir
from . import subnormals
from .body import FunctionWriter
from .module import SpirvValue, root_of
from .opaque_values import hidden_factors, hide_value

I1, I8, I16, I32, I64 = ir.I1, *(ir.IntType(n) for n in (8, 16, 32, 64))
_SIGNS = {
    "==": "Equal",
    "!=": "NotEqual",
    "<": "LessThan",
    "<=": "LessThanEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanEqual",
}
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOGICAL = {"BitwiseAnd": "LogicalAnd", "BitwiseOr": "LogicalOr", "BitwiseXor": "LogicalNotEqual"}


CONTRACT = "contract"
"""Flag of a product or a sum that may become part of a multiply-add."""


def _real(name: str) -> Callable[..., SpirvValue]:
    """Return a method that emits the instruction `name` on reals, with operands hidden from the driver's compiler."""

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue, flags: Sequence[str] = ()) -> SpirvValue:
        return self.arithmetic(name, hide_value(self, x), hide_value(self, y))

    return emit


def _product(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue, flags: Sequence[str] = ()) -> SpirvValue:
    """Emit a product of reals; if it may be contracted, record its factors so that a later sum becomes an fma."""
    v, w = hide_value(self, x), hide_value(self, y)
    made = self.arithmetic("FMul", v, w)
    if CONTRACT in flags:
        self.products[made.id] = v, w
    return made


def _sum(name: str) -> Callable[..., SpirvValue]:
    """Return a method that emits a sum or difference of reals, or an fma if one operand is a contractible product.

    x·y + z, z + x·y  ->  fma(x, y, z)
    x·y - z           ->  fma(x, y, -z)
    z - x·y           ->  fma(-x, y, z)
    """

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue, flags: Sequence[str] = ()) -> SpirvValue:
        v, w = hide_value(self, x), hide_value(self, y)
        first, second = self.products.get(v.id), self.products.get(w.id)
        if CONTRACT not in flags or (first or second) is None:
            return self.arithmetic(name, v, w)
        # The product itself stays in the module for its other users.
        if first is not None:
            return self.arithmetic("fma", *first, self.fneg(w) if name == "FSub" else w)
        assert second is not None
        factor = self.fneg(second[0]) if name == "FSub" else second[0]
        return self.arithmetic("fma", factor, second[1], v)

    return emit


def _plain(name: str) -> Callable[..., SpirvValue]:
    """Return a method that emits the integer instruction `name` even if its operands are constants."""

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        return self.binary(name, x, y)

    return emit


def _folding(
    name: str, both: Callable[[int, int], int], left: int | None, right: int, absorbing: int | None = None
) -> Callable[..., SpirvValue]:
    """Return a method that emits a binary integer instruction after constant folding and identities such as x + 0.

    Args:
        name: name of the instruction
        both: computes the result of two constants
        left: left operand that leaves the right one unchanged, or None
        right: right operand that leaves the left one unchanged
        absorbing: operand that is the result, whatever the other operand is
    """

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        v, w = self.value(x), self.value(y)
        ones = (1 << x.type.width) - 1 if isinstance(x.type, ir.IntType) else 0
        p, q = v.number, w.number
        if p is not None and q is not None:
            return self.const(x.type, both(int(p), int(q)) & ones)
        if q is not None and q == right & ones:
            return v
        if p is not None and left is not None and p == left & ones:
            return w
        if absorbing is not None and absorbing in (p, q):
            return v if p == absorbing else w
        return self.binary(_LOGICAL.get(name, name) if x.type == I1 else name, v, w)

    return emit


def _placing(fold: Callable[..., SpirvValue]) -> Callable[..., SpirvValue]:
    """Return a method that does what `fold` does and marks the result as an address in the operand's buffer."""

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        return fold(self, x, y).within(root_of(x, y))

    return emit


def _count(name: str) -> Callable[..., SpirvValue]:
    """Return a method that emits the shift instruction `name`; its operand `count` is the number of places.

    The shift count must have the operand's type and be less than its width.
    """

    def emit(self: ArithmeticWriter, x: ir.LLVMValue, count: ir.LLVMValue) -> SpirvValue:
        v, w = self.value(x), self.value(count)
        return v if w.number == 0 else self.binary(name, v, w)

    return emit


class ArithmeticWriter(FunctionWriter):
    """Write the arithmetic instructions of one SPIR-V function, with constant folding."""

    # -- arithmetic -----------------------------------------------------------------------------------------

    add = _placing(_folding("IAdd", operator.add, 0, 0))
    sub = _placing(_folding("ISub", operator.sub, None, 0))
    _times = _folding("IMul", operator.mul, 1, 1, absorbing=0)
    and_ = _folding("BitwiseAnd", operator.and_, -1, -1, absorbing=0)
    or_ = _folding("BitwiseOr", operator.or_, 0, 0)
    xor = _folding("BitwiseXor", operator.xor, 0, 0)
    udiv, urem, sdiv = map(_plain, ("UDiv", "UMod", "SDiv"))
    shl, lshr, ashr = map(_count, ("ShiftLeftLogical", "ShiftRightLogical", "ShiftRightArithmetic"))
    fadd, fsub, fmul, fdiv = _sum("FAdd"), _sum("FSub"), _product, _real("FDiv")

    def mul(self, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit the product of two integers and return it."""
        return self._times(*hidden_factors(self, x, y))

    def srem(self, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit the signed remainder x - (x / y) y."""
        # Vulkan leaves OpSRem of negative numbers undefined, and NVIDIA's driver gives other numbers for them.
        return self.sub(x, self.mul(self.sdiv(x, y), y))

    def binary(self, name: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit an instruction on two integers or truth values without constant folding."""
        return self.pure(x.type, name, x, y)

    def widened_product(self, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[SpirvValue, SpirvValue]:
        """Return the lower and the upper 32-bit word of the product of two unsigned 32-bit integers."""
        both = self.pure(I32, "UMulExtended", x, y, of=self.module.two_words)
        low, high = (self.pure(I32, "CompositeExtract", both, k) for k in range(2))
        return low, high

    def fneg(self, x: ir.LLVMValue) -> SpirvValue:
        """Emit the negative of a real and return it."""
        return self.exact(x.type, "FNegate", x)

    def arithmetic(self, name: str, *operands: SpirvValue) -> SpirvValue:
        """Emit an instruction on reals, which the caller has hidden by `hide_value`, and return its result."""
        t = operands[0].type
        made = self.glsl(name, t, *operands) if name == "fma" else self.exact(t, name, *operands)
        # A driver knows the result only if it knows all operands.
        if any(x.id in self.unknown for x in operands):
            self.unknown.add(made.id)
        return made

    # -- conversions ----------------------------------------------------------------------------------------

    def fpext(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of a real to a wider real type, which is exact."""
        v = self.value(x)
        return subnormals.f32_to_f64(self, v) if self.module.quirks.flushes else self.exact(to, "FConvert", v)

    def fptrunc(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of a real to a narrower real type, with rounding."""
        v = self.value(x)
        return subnormals.f64_to_f32(self, v) if self.module.quirks.flushes else self.exact(to, "FConvert", v)

    def trunc(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a truncation of an integer to the low bits that fit the type `to`."""
        if to == I1:
            return self.icmp_unsigned("!=", self.and_(x, self.const(x.type, 1)), self.const(x.type, 0))
        return self._resized("UConvert", x, to)

    def zext(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a widening of an integer to the type `to` with zeros in the new high bits."""
        return self._resized("UConvert", x, to)

    def sext(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a widening of an integer to the type `to` that preserves its sign."""
        return self._resized("SConvert", x, to)

    def _resized(self, name: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a widening or truncation of an integer. Constants and truth values need no conversion instruction."""
        v = self.value(x)
        if v.type == I1:
            return self.select(v, self.const(to, -1 if name == "SConvert" else 1), self.const(to, 0))
        if v.type == to:
            return v
        if v.number is not None and isinstance(v.type, ir.IntType):
            number, sign = int(v.number), 1 << (v.type.width - 1)
            return self.const(to, (number ^ sign) - sign if name == "SConvert" else number)
        made = self.pure(to, name, v)
        shrinks = isinstance(v.type, ir.IntType) and isinstance(to, ir.IntType) and to.width < v.type.width
        # `_compared_resized` finds the integer before the conversion in this table.
        self._resizings[made.id] = "" if shrinks else name, v
        return made

    def sitofp(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of a signed integer to a real."""
        return self._to_real("ConvertSToF", "SConvert", x, to)

    def uitofp(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of an unsigned integer to a real."""
        return self._to_real("ConvertUToF", "UConvert", x, to)

    def _to_real(self, name: str, widen: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit the conversion of an integer to the real type `to` by the instruction `name`."""
        # Narrow integers are widened to 32 bits first, because every device converts from there.
        if isinstance(x.type, ir.IntType) and x.type.width < 32:
            x = self._resized(widen, x, I32)
        return self.exact(to, name, x)

    def to_whole(self, name: str, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a conversion of a real to the integer type `to`, in whose range it must be, truncating toward zero."""
        return self.exact(to, name, x)

    def bitcast(self, x: ir.LLVMValue, to: ir.Type) -> SpirvValue:
        """Emit a reinterpretation of a value's bits as another type of the same width."""
        v = self.value(x)
        if self.module.type(v.type) == self.module.type(to):
            # Both types have the same SPIR-V type, so no instruction is needed.
            return SpirvValue(to, v.id)
        return self.pure(to, "Bitcast", v)

    # -- comparisons and choices ----------------------------------------------------------------------------

    def icmp_signed(self, sign: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit a comparison of two integers as signed numbers."""
        return self._icmp(sign, "S", x, y)

    def icmp_unsigned(self, sign: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit a comparison of two integers as unsigned numbers."""
        return self._icmp(sign, "U", x, y)

    def _icmp(self, sign: str, kind: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit a comparison of integers of kind "S" (signed) or "U" (unsigned); two constants are compared at once."""
        v, w = self.value(x), self.value(y)
        if v.type == I1:
            return self._compared_truths(sign, v, w)
        if v.number is not None and w.number is not None:
            assert isinstance(v.type, ir.IntType)
            low = 1 << (v.type.width - 1) if kind == "S" else 0
            # With the top bit flipped, signed numbers have the order of unsigned ones.
            return self.const(I1, _ORDER[sign](int(v.number) ^ low, int(w.number) ^ low))
        if w.number is not None and v.id in self._resizings:
            return self._compared_resized(sign, kind, v, w)
        if v.number is not None and w.id in self._resizings:
            return self._compared_resized(_MIRRORED.get(sign, sign), kind, w, v)
        return self._compared(sign, kind, v, w)

    def _compared(self, sign: str, kind: str, v: SpirvValue, w: SpirvValue) -> SpirvValue:
        """Emit the comparison of two integers, even if both are constants."""
        name = "I" if sign in ("==", "!=") else kind
        return self.pure(I1, name + _SIGNS[sign], v, w)

    def _compared_resized(self, sign: str, kind: str, x: SpirvValue, constant: SpirvValue) -> SpirvValue:
        """Emit the comparison of a converted integer with a constant, made in the integer's width before conversion.

        It saves an instruction and keeps drivers from doing so: Mesa 22.3 gets the ends of the range wrong, and takes
        an integer that was cut for one that was widened.
        """
        resizing, v = self._resizings[x.id]
        assert isinstance(v.type, ir.IntType) and isinstance(x.type, ir.IntType) and constant.number is not None
        signed, number, top = resizing == "SConvert", int(constant.number), 1 << (x.type.width - 1)
        if not resizing:
            above = self.const(v.type, v.type.width - x.type.width)
            moved = self.const(v.type, number << (v.type.width - x.type.width))
            return self._compared(sign, kind, self.shl(v, above), moved)
        if signed and kind == "U" and sign not in ("==", "!="):
            return self._compared(sign, kind, x, constant)
        number = (number ^ top) - top if kind == "S" or signed else number
        half = 1 << (v.type.width - 1)
        low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
        if low <= number <= high:
            return self._icmp(sign, "S" if signed else "U", v, self.const(v.type, number))
        return self.const(I1, _ORDER[sign](0, 1 if number > high else -1))

    def _compared_truths(self, sign: str, x: SpirvValue, y: SpirvValue) -> SpirvValue:
        """Emit the comparison of two truth values, where false is less than true."""
        if sign in ("==", "!="):
            return self.pure(I1, "Logical" + _SIGNS[sign], x, y)
        if sign in (">", ">="):
            x, y, sign = y, x, sign.replace(">", "<")
        return self.pure(I1, "LogicalAnd" if sign == "<" else "LogicalOr", self.pure(I1, "LogicalNot", x), y)

    def fcmp_ordered(self, sign: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit the comparison of two reals; the result is false if one of them is NaN."""
        v, w = self.value(x), self.value(y)
        if subnormals.compared_by_bits(self, v, w):
            return subnormals.compare(self, sign, v, w)
        return self.exact(I1, "FOrd" + _SIGNS[sign], v, w)

    def fcmp_unordered(self, sign: str, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit the comparison of two reals; it is true if one of them is NaN. The sign "uno" only tests for NaN."""
        if sign == "uno":
            nan = self.exact(I1, "FUnordNotEqual", x, x)
            return nan if x.ref == y.ref else self.or_(nan, self.exact(I1, "FUnordNotEqual", y, y))
        v, w = self.value(x), self.value(y)
        if subnormals.compared_by_bits(self, v, w):
            return subnormals.compared_unordered(self, sign, v, w)
        return self.exact(I1, "FUnord" + _SIGNS[sign], v, w)

    def select(self, cond: ir.LLVMValue, x: ir.LLVMValue, y: ir.LLVMValue) -> SpirvValue:
        """Emit a selection of one of two values by a condition."""
        chosen, v, w = self.value(cond), self.value(x), self.value(y)
        if chosen.number is not None:
            return v if chosen.number else w
        return v if v.id == w.id else self.pure(v.type, "Select", chosen, v, w).within(root_of(v, w))
