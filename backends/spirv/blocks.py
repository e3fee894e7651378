"""This module emits SPIR-V for the statements on blocks: shared arrays, atomic updates of them, barriers and fences.

A block is a workgroup. Shared arrays hold words of 32 or 64 bits, so that an atomic exchanges the word of any type.
Collectives do not come here: the pass `thread_blocks` turns them into exchanges through shared arrays.
"""

from __future__ import annotations

from ...compiler.errors import Unsupported
from ...compiler.ir import nodes as n
from ...compiler.ir.types import Scalar
from ..codegen import ir
from . import opcodes as op
from .atomics import combine, word_instruction
from .code import I1, I32
from .emit import Emitter
from .memory import element
from .shared_words import from_word, to_word, word_type
from .statements import LOWER
from .variables import ShaderArray


@LOWER.row(n.SharedArray)
def _shared_array(e: Emitter, stmt: n.SharedArray) -> None:
    m, word = e.b.module, word_type(stmt.dtype)
    variable = m.shared(f"{e.task}.{stmt.var}", word, stmt.size)
    e.arrays[stmt.var] = ShaderArray(variable, m.array(word, stmt.size), stmt.dtype, stmt.size, word)


@LOWER.row(n.UpdateElement)
def _update_element(e: Emitter, stmt: n.UpdateElement) -> None:
    """Emit an atomic update of a shared element. An index outside changes nothing, and results in 0."""
    t, b = stmt.value.type, e.b
    if t.bits == 64 and not e.m.features.shared_int64_atomics:
        raise Unsupported(
            f"this device has no atomic update of elements of type {t} in shared arrays",
            "use a type of 32 bits, or update an element of a field",
            e.m.kernel.span(stmt.loc),
        )
    place, inside, _ = element(e, stmt)
    if t.bits == 64:
        b.module.require("Int64Atomics")
    old = b.scalar(word_type(t))
    old.set(b.const(word_type(t), 0))
    with b.if_then(inside):
        old.set(_updated(e, stmt.op, t, place, e.operand(stmt.value)))
    e.values[stmt.result] = from_word(e, old.get(), t)


def _updated(e: Emitter, name: str, t: Scalar, place: int, value: ir.LLVMValue) -> ir.LLVMValue:
    """Emit the update of the word at a pointer, and return the old word."""
    b = e.b
    scope, relaxed = b.const(I32, op.WORKGROUP_SCOPE).id, b.const(I32, op.RELAXED).id
    word = word_type(t)
    instruction = word_instruction(name, t)
    if instruction is not None:
        return b.result_of(word, instruction, place, scope, relaxed, b.value(to_word(e, value, t)).id)
    seen, swapped = b.scalar(word), b.scalar(I1)
    seen.set(b.result_of(word, "Load", place))
    swapped.set(b.const(I1, False))
    # A boolean is a word of 0 or 1, which the operations on integers combine.
    own = b.zext(value, I32) if t.is_bool else value

    def attempt() -> None:
        before = seen.get()
        content = before if t.is_bool else from_word(e, before, t)
        new = combine(e, name, t, content, own)
        wanted = new if t.is_bool else to_word(e, new, t)
        both = b.value(wanted).id, b.value(before).id
        found = b.result_of(word, "AtomicCompareExchange", place, scope, relaxed, relaxed, *both)
        swapped.set(b.icmp_unsigned("==", found, before))
        seen.set(found)

    b.loop(lambda: b.xor(swapped.get(), b.const(I1, True)), attempt, lambda: None)
    return seen.get()


@LOWER.row(n.Sync)
def _sync(e: Emitter, stmt: n.Sync) -> None:
    b = e.b
    semantics = b.const(I32, op.ORDERED_MEMORY).id
    if stmt.kind == "block":
        meet(e)
        return
    scope = op.DEVICE_SCOPE if stmt.kind == "grid_fence" else op.WORKGROUP_SCOPE
    b.emit("MemoryBarrier", b.const(I32, scope).id, semantics)


def meet(e: Emitter) -> None:
    """Emit a barrier of the workgroup, which also makes earlier writes visible to all its threads."""
    b = e.b
    scope, semantics = b.const(I32, op.WORKGROUP_SCOPE).id, b.const(I32, op.ORDERED_MEMORY).id
    b.emit("ControlBarrier", scope, scope, semantics)
