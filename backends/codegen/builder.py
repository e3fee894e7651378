"""This module defines IRBuilder, which appends instructions to basic blocks of textual LLVM IR (ir.py).

Instructions on constant integers, and identities such as x + 0 and x·1, give a value without an instruction: this is
less text to parse, and less code where LLVM does not optimize. The same holds for an instruction without effects that
the block has already: the same text is the same value. Nothing is folded on reals.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .ir import I1, PTR, UNLIKELY, VOID, BasicBlock, Constant, IntType, LLVMFunction, LLVMValue, Phi, Type, VectorType

_SIGNS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _among(scope: str) -> str:
    """Return the text `syncscope(...)` for an atomic instruction of LLVM IR, or "" if the scope is empty."""
    return f'syncscope("{scope}") ' if scope else ""


def _number(x: LLVMValue) -> int | None:
    """Return the Python number of a constant scalar integer, or None for any other LLVM value."""
    return x.constant if type(x) is Constant else None


def _truth(t: Type) -> Type:
    """Return the type of a comparison of two values of type `t`: i1, or a vector of i1."""
    return VectorType(I1, t.count) if isinstance(t, VectorType) else I1


def _binary(name: str) -> Callable[..., LLVMValue]:
    """Return a method of IRBuilder that emits the binary LLVM instruction `name`."""

    def emit(self: IRBuilder, x: LLVMValue, y: LLVMValue, flags: Sequence[str] = ()) -> LLVMValue:
        return self._pure(x.type, f"{' '.join((name, *flags))} {x.type.text} {x.ref}, {y.ref}")

    return emit


def _folding(
    name: str, both: Callable[[int, int], int], left: int | None, right: int, absorbing: int | None = None
) -> Callable[..., LLVMValue]:
    """Return a method that emits a binary integer instruction, unless constants or identities give the result.

    Args:
        name: Name of the instruction.
        both: Computes the result from two constants.
        left: Operand on the left that leaves the right operand as it is; None if there is none.
        right: Operand on the right that leaves the left operand as it is.
        absorbing: Operand that is the result whatever the other operand is; None if there is none.
    """
    plain = _binary(name)

    def emit(self: IRBuilder, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        p, q = _number(x), _number(y)
        if p is None and q is None:
            return plain(self, x, y)
        if p is not None and q is not None:
            return Constant(x.type, both(p, q))
        if q == right:
            return x
        if p is not None and p == left:
            return y
        if absorbing is not None and absorbing in (p, q):
            return x if p == absorbing else y
        return plain(self, x, y)

    return emit


def _conversion(name: str) -> Callable[[IRBuilder, LLVMValue, Type], LLVMValue]:
    """Return a method of IRBuilder that emits the conversion instruction `name`, such as `sitofp`."""

    def emit(self: IRBuilder, x: LLVMValue, to: Type) -> LLVMValue:
        return self._pure(to, f"{name} {x.type.text} {x.ref} to {to.text}")

    return emit


def _resizing(name: str, signed: bool) -> Callable[[IRBuilder, LLVMValue, Type], LLVMValue]:
    """Return a method of IRBuilder that changes the width of an integer; a constant needs no instruction for that."""
    plain = _conversion(name)

    def emit(self: IRBuilder, x: LLVMValue, to: Type) -> LLVMValue:
        number = _number(x)
        if number is None or not isinstance(x.type, IntType):
            return plain(self, x, to)
        bits = number & ((1 << x.type.width) - 1)
        # An i1 is kept as 0 or 1, but a sign extension of 1 gives -1.
        return Constant(to, -bits if signed and x.type.width == 1 else number if signed else bits)

    return emit


class IRBuilder:
    """Represent a builder that appends LLVM instructions to its basic block `block`, before the terminator."""

    def __init__(self, block: BasicBlock) -> None:
        self.block = block

    @property
    def function(self) -> LLVMFunction:
        """Return the function that the builder writes."""
        return self.block.function

    def position_at_end(self, block: BasicBlock) -> None:
        """Append all further instructions to the basic block `block`."""
        self.block = block

    def _value(self, t: Type, instruction: str) -> LLVMValue:
        """Append an instruction that reads memory or has effects, and return its result."""
        block = self.block
        ref = f"%v{block.function.fresh()}"
        block.lines.append(f"  {ref} = {instruction}{block.function.mark}")
        return LLVMValue(t, ref)

    def _pure(self, t: Type, instruction: str) -> LLVMValue:
        """Return the result of an instruction without effects, reusing an equal earlier one of the same block."""
        known = self.block.known
        made = known.get(instruction)
        if made is None:
            made = known[instruction] = self._value(t, instruction)
        return made

    # -- arithmetic -----------------------------------------------------------------------------------------

    add = _folding("add", operator.add, 0, 0)
    sub = _folding("sub", operator.sub, None, 0)
    mul = _folding("mul", operator.mul, 1, 1, absorbing=0)
    and_ = _folding("and", operator.and_, -1, -1, absorbing=0)
    or_ = _folding("or", operator.or_, 0, 0)
    xor = _folding("xor", operator.xor, 0, 0)
    udiv, urem, sdiv, srem = map(_binary, ("udiv", "urem", "sdiv", "srem"))
    shl, lshr, ashr = map(_binary, ("shl", "lshr", "ashr"))
    fadd, fsub, fmul, fdiv = map(_binary, ("fadd", "fsub", "fmul", "fdiv"))

    def fneg(self, x: LLVMValue) -> LLVMValue:
        """Return -x for a real x."""
        return self._pure(x.type, f"fneg {x}")

    # -- conversions ----------------------------------------------------------------------------------------

    trunc, zext, sext = _resizing("trunc", False), _resizing("zext", False), _resizing("sext", True)
    fpext, fptrunc, sitofp, uitofp = map(_conversion, ("fpext", "fptrunc", "sitofp", "uitofp"))
    bitcast, inttoptr, ptrtoint = map(_conversion, ("bitcast", "inttoptr", "ptrtoint"))

    # -- comparisons and choices ----------------------------------------------------------------------------

    def icmp_signed(self, sign: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return the comparison of two integers as signed numbers."""
        return self._icmp(sign, "" if sign in ("==", "!=") else "s", x, y)

    def icmp_unsigned(self, sign: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return the comparison of two integers as unsigned numbers."""
        return self._icmp(sign, "" if sign in ("==", "!=") else "u", x, y)

    def _icmp(self, sign: str, kind: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return the comparison of two integers, folded if both are constant.

        Args:
            sign: Comparison as Python writes it, such as `<=`.
            kind: `s` for signed, `u` for unsigned, empty for equality.
            x: First operand.
            y: Second operand.
        """
        p, q = _number(x), _number(y)
        if p is not None and q is not None and isinstance(x.type, IntType):
            sign_bit = 1 << (x.type.width - 1)
            mask = 2 * sign_bit - 1
            # Bit patterns moved by the sign bit compare unsigned as the signed numbers do.
            low = sign_bit if kind == "s" else 0
            return Constant(I1, _ORDER[sign]((p + low) & mask, (q + low) & mask))
        return self._pure(_truth(x.type), f"icmp {kind}{_SIGNS[sign]} {x.type.text} {x.ref}, {y.ref}")

    def fcmp_ordered(self, sign: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return the comparison of two reals, which is false if one of them is NaN."""
        return self._pure(_truth(x.type), f"fcmp o{_SIGNS[sign]} {x.type.text} {x.ref}, {y.ref}")

    def fcmp_unordered(self, sign: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return the comparison of two reals, which is true if one is NaN; the sign "uno" tests for NaN alone."""
        kind = "uno" if sign == "uno" else f"u{_SIGNS[sign]}"
        return self._pure(_truth(x.type), f"fcmp {kind} {x.type.text} {x.ref}, {y.ref}")

    def select(self, cond: LLVMValue, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """Return `x` where the condition holds and `y` elsewhere."""
        chosen = _number(cond)
        if chosen is not None:
            return x if chosen else y
        if x.ref == y.ref:
            return x
        return self._pure(x.type, f"select {cond}, {x}, {y}")

    def phi(self, t: Type) -> Phi:
        """Append a phi of the type `t` to the open block and return it; its values are added later."""
        made = Phi(t, f"%v{self.block.function.fresh()}")
        self.block.phis.append(made)
        return made

    # -- memory ---------------------------------------------------------------------------------------------

    def alloca(self, t: Type, count: int = 1) -> LLVMValue:
        """Return the address of stack memory for `count` elements of the type `t`."""
        return self._value(PTR, f"alloca {t.text}" if count == 1 else f"alloca [{count} x {t.text}]")

    def load(self, place: LLVMValue, t: Type, align: int = 0, constant: bool = False) -> LLVMValue:
        """Emit a load of a value of type `t` from an address and return the value.

        Args:
            place: Address to read.
            t: Type of the value.
            align: Alignment in bytes, if it differs from that of the type; 0 means that of the type.
            constant: Nothing writes to this memory while the code runs.
        """
        marks = (f", align {align}" if align else "") + (", !invariant.load !{}" if constant else "")
        return self._value(t, f"load {t.text}, {place}{marks}")

    def store(self, value: LLVMValue, place: LLVMValue, align: int = 0) -> None:
        """Emit a store of a value to an address; `align` is in bytes, and 0 means the alignment of the type."""
        aligned = f", align {align}" if align else ""
        self.block.lines.append(f"  store {value}, {place}{aligned}{self.function.mark}")

    def gep(self, base: LLVMValue, place: LLVMValue, element: Type, inbounds: bool = False) -> LLVMValue:
        """Return the address of element number `place` in an array of `element` that begins at `base`."""
        return self._pure(base.type, f"getelementptr {'inbounds ' if inbounds else ''}{element.text}, {base}, {place}")

    def atomic_rmw(self, op: str, place: LLVMValue, value: LLVMValue, ordering: str, scope: str = "") -> LLVMValue:
        """Emit an atomic read-modify-write and return the old value; for `scope` see the attribute of `Target`."""
        return self._value(value.type, f"atomicrmw {op} {place}, {value} {_among(scope)}{ordering}")

    def cmpxchg(
        self, place: LLVMValue, expected: LLVMValue, new: LLVMValue, ordering: str, scope: str = ""
    ) -> tuple[LLVMValue, LLVMValue]:
        """Emit an atomic compare-and-exchange; return the old value and the condition that the exchange was done.

        Returns:
            (old value, condition 'the old value was the expected one, so it is replaced').
        """
        t = expected.type
        pair = self._value(VOID, f"cmpxchg {place}, {expected}, {new} {_among(scope)}{ordering} {ordering}")
        old, replaced = (f"extractvalue {{ {t.text}, i1 }} {pair.ref}, {place}" for place in (0, 1))
        return self._pure(t, old), self._pure(I1, replaced)

    # -- vectors --------------------------------------------------------------------------------------------

    def splat(self, x: LLVMValue, count: int) -> LLVMValue:
        """Return a vector that has the scalar `x` in each of its `count` lanes."""
        t = VectorType(x.type, count)
        if isinstance(x, Constant):
            return LLVMValue(t, f"splat ({x})")
        first = self._pure(t, f"insertelement {t.text} poison, {x}, i64 0")
        return self._pure(t, f"shufflevector {first}, {t.text} poison, <{count} x i32> zeroinitializer")

    def shuffle(self, x: LLVMValue, lanes: Sequence[int]) -> LLVMValue:
        """Return the vector that consists of these lanes of the vector `x`."""
        assert isinstance(x.type, VectorType)
        t = VectorType(x.type.element, len(lanes))
        chosen = f"<{len(lanes)} x i32> <{', '.join([f'i32 {k}' for k in lanes])}>"
        return self._pure(t, f"shufflevector {x}, {x.type.text} poison, {chosen}")

    def geps(self, base: LLVMValue, places: LLVMValue, element: Type) -> LLVMValue:
        """Return a vector with the address of one element per lane, for signed element numbers.

        Args:
            base: One address for all lanes, or one address in each lane.
            places: Vector of element numbers.
            element: Type of an element.
        """
        assert isinstance(places.type, VectorType)
        t = VectorType(PTR, places.type.count)
        return self._pure(t, f"getelementptr {element.text}, {base}, {places}")

    def extract_element(self, vector: LLVMValue, lane: LLVMValue) -> LLVMValue:
        """Return one lane of a vector."""
        assert isinstance(vector.type, VectorType)
        return self._pure(vector.type.element, f"extractelement {vector}, {lane}")

    # -- control --------------------------------------------------------------------------------------------

    def call(self, function: LLVMFunction, args: Sequence[LLVMValue]) -> LLVMValue:
        """Emit a call of a function of the module and return the call's result."""
        return self.call_pointer(function, function.result, args)

    def call_pointer(self, callee: LLVMValue, result: Type, args: Sequence[LLVMValue]) -> LLVMValue:
        """Emit a call of the function at the address `callee` and return the call's result."""
        text = f"call {result.text} {callee.ref}({', '.join([str(a) for a in args])})"
        if result is not VOID:
            return self._value(result, text)
        self.block.lines.append(f"  {text}{self.function.mark}")
        return LLVMValue(VOID, "")

    def _leave(self, text: str) -> None:
        """Append the terminator `text` to the open block, which closes the block."""
        assert self.block.terminator is None, f"block {self.block.name} ends twice"
        self.block.terminator = f"  {text}{self.function.mark}"

    def branch(self, target: BasicBlock, mark: str = "") -> None:
        """Close the block with a branch to `target`; `mark` is metadata for the backward branch of a loop."""
        self._leave(f"br label {target.ref}{mark and ', '}{mark}")

    def cbranch(self, cond: LLVMValue, then: BasicBlock, orelse: BasicBlock, unlikely: bool = False) -> None:
        """Close the block with a conditional branch; `unlikely` says that `then` is hardly ever taken."""
        weights = f", {UNLIKELY}" if unlikely else ""
        self._leave(f"br {cond}, label {then.ref}, label {orelse.ref}{weights}")

    def ret(self, value: LLVMValue) -> None:
        """Emit `ret` with a value, which ends the basic block."""
        self._leave(f"ret {value}")

    def ret_void(self) -> None:
        """Emit `ret void`, which ends the basic block."""
        self._leave("ret void")

    def if_else(self, cond: LLVMValue, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """Emit the blocks `then` and `orelse`, of which `cond` selects one; `then` is marked as the unlikely one."""
        yes, no, done = (self.function.append_basic_block(name) for name in ("then", "else", "endif"))
        self.cbranch(cond, yes, no, unlikely=True)
        for start, write in ((yes, then), (no, orelse)):
            self.position_at_end(start)
            write()
            if self.block.terminator is None:
                self.branch(done)
        self.position_at_end(done)

    @contextmanager
    def if_then(self, cond: LLVMValue) -> Iterator[None]:
        """Emit the instructions of the `with` block under a condition: they run only if it is true."""
        then, done = self.function.append_basic_block("if"), self.function.append_basic_block("endif")
        self.cbranch(cond, then, done)
        self.position_at_end(then)
        yield
        if self.block.terminator is None:
            self.branch(done)
        self.position_at_end(done)
