"""This module emits the read-modify-write of one array element, atomic or not.

Where iterations run at once, this is one atomic instruction if the device has the operation with the right meaning, and
otherwise a compare-and-swap loop around the operation's entry in the table SPIRV. The loop serves reals (but for sums
that the device adds; in precise builds only if the device keeps subnormal numbers), products, and all types narrower
than 32 bits, for which it exchanges the word around the element. Where one iteration runs at a time, or where no other
iteration touches the element, a load and a store do.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.types import Scalar, f32, f64
from ..codegen import ir
from ..codegen.types import memory_type
from . import access
from .code import I32, I64, ArithmeticWriter
from .emit import ArithEmitter
from .module import root_of
from .ops import apply

_INTEGER = {
    "add": "AtomicIAdd",
    "bit_and": "AtomicAnd",
    "bit_or": "AtomicOr",
    "bit_xor": "AtomicXor",
    "exchange": "AtomicExchange",
}
_EXTREMA = {
    ("min", "i"): "AtomicSMin",
    ("max", "i"): "AtomicSMax",
    ("min", "u"): "AtomicUMin",
    ("max", "u"): "AtomicUMax",
}
_WORDS = {8: ir.IntType(8), 16: ir.IntType(16), 32: I32, 64: I64}


def instruction(e: ArithEmitter, op: str, t: Scalar) -> str | None:
    """Return the name of the SPIR-V atomic instruction for an operation and dtype, or None if the device lacks it.

    The capability that the instruction needs is declared.

    Args:
        e: function being written
        op: operation of the IR, such as "add"
        t: dtype of the element
    """
    if t in (f32, f64) and op == "add":
        has = e.m.features.float32_add and not _flushed(e) if t == f32 else e.m.features.float64_add
        if has:
            e.b.module.require(f"AtomicFloat{t.bits}AddEXT")
        return "AtomicFAddEXT" if has else None
    if t.is_real or t.bits < 32:
        return None
    return _EXTREMA.get((op, t.kind)) or _INTEGER.get(op)


def word_instruction(op: str, t: Scalar) -> str | None:
    """Return the name of the atomic instruction for an operation on a word of 32 or 64 bits, or None."""
    if t.is_real or t.bits < 32:
        return None
    return _EXTREMA.get((op, t.kind)) or _INTEGER.get(op)


def _flushed(e: ArithEmitter) -> bool:
    """Return True if atomic f32 sums of the device may flush subnormal numbers that a precise build must keep."""
    return e.m.features.quirks.flushes and e.m.options.precise


def update(e: ArithEmitter, op: str, t: Scalar, place: ir.LLVMValue, value: ir.LLVMValue, atomic: bool) -> ir.LLVMValue:
    """Emit an update of the element at an address by an operation, and return the element's old value.

    Args:
        e: function being written
        op: operation of the IR; "exchange" stores the value
        t: dtype of the element
        place: address of the element
        value: second operand
        atomic: True if another iteration may update the element at the same time
    """
    memory = memory_type(t)
    if t.is_bool:
        value = e.b.zext(value, memory)
    if not atomic:
        old: ir.LLVMValue = access.load(e.b, place, memory)
        access.store(e.b, combine(e, op, t, old, value), place)
    elif (name := instruction(e, op, t)) is not None:
        old = access.atomic(e.b, name, place, value)
    else:
        old = e.b.call(_loop(e, op, t, root_of(place)), [place, value])
    return e.b.icmp_unsigned("!=", old, e.const(old, 0)) if t.is_bool else old


def combine(e: ArithEmitter, op: str, t: Scalar, old: ir.LLVMValue, value: ir.LLVMValue) -> ir.LLVMValue:
    """Emit an operation that computes an element's new value from its old value and the operand, and return it."""
    # Booleans hold 0 or 1 in a byte, where the bit operations mean the same.
    return value if op == "exchange" else apply(e, op, (t, t), old, value)


def compare_and_swap(
    e: ArithEmitter, t: Scalar, place: ir.LLVMValue, expected: ir.LLVMValue, value: ir.LLVMValue, atomic: bool
) -> ir.LLVMValue:
    """Emit a compare-and-swap: store `value` if the element's bits equal those of `expected`. Return the old value.

    The dtype `t` is not u1. Without `atomic`, a load, a comparison and a store serve.
    """
    memory, word, b = memory_type(t), _WORDS[t.bits], e.b
    if not atomic:
        old = access.load(b, place, memory)
        same = b.icmp_unsigned("==", b.bitcast(old, word), b.bitcast(expected, word))
        access.store(b, b.select(same, value, old), place)
        return old
    if t.bits >= 32:
        return b.bitcast(access.compare_exchange(b, place, b.bitcast(expected, word), b.bitcast(value, word)), memory)

    def replaced(a: ArithEmitter, old: ir.LLVMValue, operands: list[ir.LLVMValue]) -> ir.LLVMValue:
        expected, value = (a.b.bitcast(x, word) for x in operands)
        same = a.b.icmp_unsigned("==", a.b.bitcast(old, word), expected)
        return a.b.bitcast(a.b.select(same, value, a.b.bitcast(old, word)), memory)

    return b.call(_repeated(e, f"sg.atomic.cas.{t}", t, 2, replaced, root_of(place)), [place, expected, value])


def _loop(e: ArithEmitter, op: str, t: Scalar, root: int | None) -> ArithmeticWriter:
    """Return a shader function that applies `op` to an element by a compare-and-swap loop."""

    def combined(a: ArithEmitter, old: ir.LLVMValue, operands: list[ir.LLVMValue]) -> ir.LLVMValue:
        return combine(a, op, t, old, operands[0])

    return _repeated(e, f"sg.atomic.{op}.{t}", t, 1, combined, root)


Change = Callable[[ArithEmitter, ir.LLVMValue, list[ir.LLVMValue]], ir.LLVMValue]
"""The type of a function that returns the new content from the old content and the operands."""


def _repeated(
    e: ArithEmitter, name: str, t: Scalar, operands: int, change: Change, root: int | None
) -> ArithmeticWriter:
    """Return a shader function NAME(address, operands...) that repeats a compare-and-swap until it succeeds.

    The function returns the old value of the element.

    Args:
        e: a function of the module
        name: name of the function to be written
        t: dtype of the element
        operands: number of operands
        change: computes the new value from the old value and the operands
        root: binding of the buffer that holds the element; None on devices with buffer addresses
    """
    memory = memory_type(t)
    own, word = _WORDS[max(t.bits, 8)], _WORDS[max(t.bits, 32)]

    def body(a: ArithEmitter, b: ArithmeticWriter) -> None:
        place, *given = access.rooted(b.args[0], root), *b.args[1:]
        # An element below 32 bits is a part of an aligned word, `shift` bits above its lowest bit.
        down = b.and_(place, a.word(word.width // 8 - 1))
        base, shift = b.sub(place, down), b.trunc(b.shl(down, a.word(3)), word)
        seen, swapped, old = b.scalar(word), b.scalar(ir.I1), b.scalar(memory)
        seen.set(access.load(b, base, word))
        swapped.set(b.const(ir.I1, False))

        def attempt() -> None:
            before = seen.get()
            part = b.trunc(b.lshr(before, shift), own) if own.width < 32 else before
            old.set(b.bitcast(part, memory))
            new = b.bitcast(change(a, b.bitcast(part, memory), list(given)), own)
            found = access.compare_exchange(b, base, before, _placed(a, before, new, shift, word, own))
            swapped.set(b.icmp_unsigned("==", found, before))
            seen.set(found)

        b.loop(lambda: b.xor(swapped.get(), b.const(ir.I1, True)), attempt, lambda: None)
        b.ret(old.get())

    return e.m.helper(name if root is None else f"{name}.in_{root}", memory, [I64, *[memory] * operands], body)


def _placed(
    a: ArithEmitter, word: ir.LLVMValue, part: ir.LLVMValue, shift: ir.LLVMValue, t: ir.IntType, own: ir.IntType
) -> ir.LLVMValue:
    """Return an integer in which the `own.width` bits from bit `shift` on are replaced by `part`."""
    if own == t:
        return part
    b = a.b
    ones = b.shl(b.const(t, (1 << own.width) - 1), shift)
    rest = b.and_(word, b.xor(ones, b.const(t, -1)))
    return b.or_(rest, b.shl(b.zext(part, t), shift))
