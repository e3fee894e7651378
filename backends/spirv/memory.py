"""This module emits SPIR-V for accesses to arrays, temporaries, local scalars and local arrays (table LOWER).

Arrays are C-contiguous; places are computed in 64 bits, so that none wraps. An index outside ends the launch with an
error, unless checks are switched off. Without checks, an index outside a local array reads 0 and writes nothing.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.index_checks import check_indices, limit_of
from ..codegen.types import memory_type, value_type
from . import access, atomics
from . import opcodes as op
from .code import I1, I32
from .emit import Emitter
from .shared_words import from_word, to_word
from .statements import LOWER, from_memory, to_memory
from .variables import ShaderArray


def address(e: Emitter, stmt: n.Load | n.Store | n.Atomic) -> tuple[ir.LLVMValue, Scalar]:
    """Return the address and the dtype of the element that a statement accesses."""
    b, temp = e.b, e.m.layout.temps.get(stmt.array)
    if temp is not None:
        return e.slot_address(temp[0]), temp[1]
    array = e.m.layout.arrays[stmt.array]
    indices = [e.index(i) for i in stmt.indices]
    extents = [e.slot(array.shape_at + 8 * axis) for axis in range(array.type.ndim)]
    stray = check_indices(e, stmt, indices, extents, e.trap_if)
    linear: ir.LLVMValue = e.word(0)
    for axis, index in enumerate(indices):
        linear = b.add(b.mul(linear, extents[axis]), index) if axis else index
    offset = b.mul(linear, e.word(array.type.dtype.size))
    place = b.add(e.address_of_array(stmt.array), offset)
    # A deferred check ends the launch only later, so the access of a stray index goes to the argument block.
    return place if stray is None else b.select(stray, e.block, place), array.type.dtype


@LOWER.row(n.Within)
def _within(e: Emitter, stmt: n.Within) -> None:
    if e.checked_axes(stmt):
        check_indices(e, stmt, [e.index(stmt.index)], [limit_of(e, stmt)], e.trap_if)
    e.values[stmt.result] = e.operand(stmt.index)


@LOWER.row(n.Load)
def _load(e: Emitter, stmt: n.Load) -> None:
    place, t = address(e, stmt)
    e.values[stmt.result] = from_memory(e, access.load(e.b, place, memory_type(t)), t.is_bool)


@LOWER.row(n.Store)
def _store(e: Emitter, stmt: n.Store) -> None:
    place, t = address(e, stmt)
    access.store(e.b, to_memory(e, e.operand(stmt.value), t.is_bool), place)


@LOWER.row(n.Atomic)
def _atomic(e: Emitter, stmt: n.Atomic) -> None:
    """Emit an atomic update of an element, or of the thread's own partial sum if the element is reduced at the end."""
    kept = e.kept.get(stmt)
    if kept is not None:
        t = stmt.value.type
        kept.set(atomics.combine(e, stmt.op, t, kept.get(), e.operand(stmt.value)))
        return
    place, t = address(e, stmt)
    atomic, value = e.m.is_atomic(e.task, stmt.array), e.operand(stmt.value)
    if stmt.expected is not None:
        e.values[stmt.result] = atomics.compare_and_swap(e, t, place, e.operand(stmt.expected), value, atomic)
        return
    e.values[stmt.result] = atomics.update(e, stmt.op, t, place, value, atomic)


# ---- locals -------------------------------------------------------------------------------------------------


@LOWER.row(n.Local)
def _local(e: Emitter, stmt: n.Local) -> None:
    """Declare a local scalar the first time, and emit code that sets it to zero."""
    t = value_type(stmt.dtype)
    if stmt.var not in e.locals:
        e.locals[stmt.var] = e.b.scalar(t)
    e.locals[stmt.var].set(e.b.const(t, 0))


@LOWER.row(n.Get)
def _get(e: Emitter, stmt: n.Get) -> None:
    e.values[stmt.result] = e.locals[stmt.var].get()


@LOWER.row(n.Set)
def _set(e: Emitter, stmt: n.Set) -> None:
    e.locals[stmt.var].set(e.operand(stmt.value))


@LOWER.row(n.LocalArray)
def _local_array(e: Emitter, stmt: n.LocalArray) -> None:
    """Declare a local array the first time, and emit code that sets it to zero."""
    if stmt.var not in e.arrays:
        t = e.b.module.array(value_type(stmt.dtype), max(stmt.size, 1))
        e.arrays[stmt.var] = ShaderArray(e.b.variable(t), t, stmt.dtype, stmt.size)
    array = e.arrays[stmt.var]
    e.b.emit("Store", array.id, e.b.module.null(array.type))


def element(e: Emitter, stmt: n.GetElement | n.SetElement | n.UpdateElement) -> tuple[int, ir.LLVMValue, ShaderArray]:
    """Return a pointer to an element of a local array, the condition that the index is inside, and the array.

    Where the index is outside, the pointer is to element 0.
    """
    b, array = e.b, e.arrays[stmt.var]
    index, size = e.index(stmt.index), e.word(array.size)
    inside = b.icmp_unsigned("<", index, size)
    if e.checks_element(stmt):
        e.trap_if(b.xor(inside, b.const(I1, True)), e.m.site("element", e.task, stmt), index, size)
    safe = b.trunc(b.select(inside, index, e.word(0)), I32)
    m, place = b.module, b.module.fresh()
    storage = op.FUNCTION if array.word is None else op.WORKGROUP
    kind = m.pointer(storage, m.type(array.word or value_type(array.dtype)))
    b.emit("AccessChain", kind, place, array.id, b.value(safe).id)
    return place, inside, array


@LOWER.row(n.GetElement)
def _get_element(e: Emitter, stmt: n.GetElement) -> None:
    place, inside, array = element(e, stmt)
    value: ir.LLVMValue = e.b.result_of(array.word or value_type(array.dtype), "Load", place)
    if array.word is not None:
        value = from_word(e, value, array.dtype)
    e.values[stmt.result] = e.b.select(inside, value, e.const(value, 0))


@LOWER.row(n.SetElement)
def _set_element(e: Emitter, stmt: n.SetElement) -> None:
    """Emit a store to an element of a local or shared array. An index outside stores nothing."""
    place, inside, array = element(e, stmt)
    if array.word is not None:
        # Other threads may write element 0 at this time.
        with e.b.if_then(inside):
            e.b.emit("Store", place, e.b.value(to_word(e, e.operand(stmt.value), array.dtype)).id)
        return
    old = e.b.result_of(value_type(array.dtype), "Load", place)
    # Where the index is outside, element 0 is overwritten by itself.
    e.b.emit("Store", place, e.b.select(inside, e.operand(stmt.value), old).id)
