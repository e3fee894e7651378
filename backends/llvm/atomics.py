"""This module emits updates of an element in memory: read, modify and write, atomic or plain.

Where iterations run at once (on a CPU: where a launch runs them on several threads): one atomic instruction if the
machine has the operation with the right meaning, and a compare-and-swap loop around the operation's code otherwise
(real min and max with their NaN, products, all of f16; precise sums of f32 on GPUs, whose instruction flushes subnormal
numbers). Where they run one after another: a load and a store. `cas` is the compare-and-swap itself, on bit patterns.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.types import Scalar, f16, f32
from ..codegen import ir
from ..codegen.emit import ArithEmitter
from ..codegen.ops import apply
from ..codegen.types import I8, I16, I32, I64, const, memory_type
from ..codegen.types import pointer as ir_pointer
from .emit import Emitter

_INTEGER = {"add": "add", "bit_and": "and", "bit_or": "or", "bit_xor": "xor", "exchange": "xchg"}
_EXTREMA = {("min", "i"): "min", ("max", "i"): "max", ("min", "u"): "umin", ("max", "u"): "umax"}
_WORDS = {8: I8, 16: I16, 32: I32, 64: I64}


def instruction(op: str, t: Scalar) -> str | None:
    """Return the name of LLVM's atomicrmw operation for the update `op` on type `t`, or None if there is none."""
    if t.is_real:
        return {"add": "fadd", "exchange": "xchg"}.get(op) if t != f16 else None
    return _EXTREMA.get((op, t.kind)) or _INTEGER.get(op)


def update(e: ArithEmitter, op: str, t: Scalar, place: ir.LLVMValue, value: ir.LLVMValue, atomic: bool) -> ir.LLVMValue:
    """Emit an update of the element at an address by an operation, and return the element's old value.

    Args:
        e: Arithmetic to emit into.
        op: Name of the update, such as `add`.
        t: Type of the element.
        place: Address of the element.
        value: Operand of the update.
        atomic: Other iterations may update the element at the same time.
    """
    if t.is_bool:
        value = e.b.zext(value, I8)
    if not atomic:
        old = e.b.load(place, memory_type(t))
        e.b.store(combine(e, op, t, old, value), place)
    elif (rmw := instruction(op, t)) is not None and not (rmw == "fadd" and _flushed(e, t)):
        old = e.b.atomic_rmw(rmw, place, value, "monotonic", e.m.target.scope)
    else:
        old = e.b.call(_loop(e, op, t, place.type), [place, value])
    return e.b.icmp_unsigned("!=", old, e.const(old, 0)) if t.is_bool else old


def where_shared(e: Emitter, atomic: bool, make: Callable[[bool], ir.LLVMValue]) -> ir.LLVMValue:
    """Emit an update; CPU code has an atomic and a plain version, of which each launch selects one.

    Args:
        e: Emitter of the function.
        atomic: The update must be atomic if several threads run the task.
        make: Emits the update, atomic if its argument is True, and returns the old value.
    """
    if not atomic or e.m.target.concurrent:
        return make(atomic)
    # On a CPU, code that is made for several threads has both updates: a slot says whether several threads run this
    # launch, and mostly, where there is little to do, only one does.
    b, function = e.b, e.b.function
    together, alone, done = (function.append_basic_block(name) for name in ("together", "alone", "updated"))
    b.cbranch(b.icmp_unsigned("!=", e.slot(e.m.layout.shared_at), const(I64, 0)), together, alone)
    found = []
    for block, is_atomic in ((together, True), (alone, False)):
        b.position_at_end(block)
        found.append((make(is_atomic), b.block))
        b.branch(done)
    b.position_at_end(done)
    old = b.phi(found[0][0].type)
    for value, source in found:
        old.add_incoming(value, source)
    return old


def _flushed(e: ArithEmitter, t: Scalar) -> bool:
    """Return True if the machine's atomic addition replaces subnormal numbers by zero but the build must keep them."""
    return e.m.target.flushes and t == f32 and e.m.options.precise


def compare_and_swap(
    e: ArithEmitter, t: Scalar, place: ir.LLVMValue, expected: ir.LLVMValue, value: ir.LLVMValue, atomic: bool
) -> ir.LLVMValue:
    """Replace the element at `place`, of any type but u1, if its bits are those of `expected`; return the old value.

    Args:
        e: Arithmetic to emit into.
        t: Type of the element.
        place: Address of the element.
        expected: Value that the element must have to be replaced.
        value: Value that replaces the element.
        atomic: Other iterations may update the element at the same time.
    """
    memory, word = memory_type(t), _WORDS[t.bits]
    if atomic:
        found, _ = e.b.cmpxchg(place, _as(e, expected, word), _as(e, value, word), "monotonic", e.m.target.scope)
        return _as(e, found, memory)
    old = e.b.load(place, memory)
    same = e.b.icmp_unsigned("==", _as(e, old, word), _as(e, expected, word))
    e.b.store(e.b.select(same, value, old), place)
    return old


def combine(e: ArithEmitter, op: str, t: Scalar, old: ir.LLVMValue, value: ir.LLVMValue) -> ir.LLVMValue:
    """Return the new value of an element: the operation applied to the old value and `value`."""
    # Booleans hold 0 or 1 in a byte, where the bit operations mean the same.
    return value if op == "exchange" else apply(e, op, (t, t), old, value)


def _loop(e: ArithEmitter, op: str, t: Scalar, pointer: ir.Type) -> ir.LLVMFunction:
    """Return a helper that applies `op` to an element by compare-and-swap, repeated until it succeeds."""
    memory = memory_type(t)
    word = _WORDS[max(t.bits, 8)]

    def body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
        b = a.b
        place, value = function.args
        first = b.load(place, word)
        start = b.block
        again, done = function.append_basic_block("again"), function.append_basic_block("done")
        b.branch(again)
        b.position_at_end(again)
        seen = b.phi(word)
        seen.add_incoming(first, start)
        new = combine(a, op, t, _as(a, seen, memory), value)
        found, swapped = b.cmpxchg(place, seen, _as(a, new, word), "monotonic", a.m.target.scope)
        seen.add_incoming(found, b.block)
        b.cbranch(swapped, done, again)
        b.position_at_end(done)
        b.ret(_as(a, seen, memory))

    # Memory of a thread block has an address space of its own.
    space = "" if pointer == ir_pointer(e.m.target.space) else ".shared"
    return e.m.helper(f"sg.atomic.{op}.{t}{space}", memory, [pointer, memory], body)


def _as(e: ArithEmitter, value: ir.LLVMValue, t: ir.Type) -> ir.LLVMValue:
    """Return the bits of a value, unchanged, as a value of type `t`."""
    return value if value.type == t else e.b.bitcast(value, t)
