"""This module emits branching code that accesses arrays, temporaries, local scalars and local arrays (table LOWER).

Arrays are C-contiguous: element (i, j, ...) is at row-major number ((i·s1 + j)·s2 + ...), computed in 64 bits. An index
outside ends the launch with an error, see index_checks.py. Where checks are switched off, an index outside an array is
undefined, but an index outside a local array reads 0 and writes nothing, because it would damage the stack.
"""

from __future__ import annotations

from functools import partial

from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar
from ...codegen import ir
from ...codegen.index_checks import check_indices, check_number, limit_of
from ...codegen.types import I1, I8, I64, VOID, const, memory_type, value_type
from .. import atomics
from ..emit import Emitter, StackVariable
from .statements import LOWER, from_memory, to_memory


def address(e: Emitter, stmt: n.Load | n.Store | n.Atomic) -> tuple[ir.LLVMValue, Scalar]:
    """Return (address, dtype) of the element that a statement accesses."""
    temp = e.m.layout.temps.get(stmt.array)
    if temp is not None:
        return e.temp(temp[0]), temp[1]
    array = e.m.layout.arrays[stmt.array]
    extents = [e.slot(array.shape_at + 8 * axis) for axis in range(array.type.ndim)]
    linear: ir.LLVMValue = const(I64, 0)
    if stmt.array in e.numbered and stmt.indices == e.m.kernel.tasks[e.task].indices:
        linear = e.iteration
        stray = check_number(e, stmt, linear, extents)
    else:
        indices = [e.index(i) for i in stmt.indices]
        stray = check_indices(e, stmt, indices, extents, e.flow.trap_if)
        for axis, index in enumerate(indices):
            linear = e.b.add(e.b.mul(linear, extents[axis]), index) if axis else index
    place = e.b.gep(e.slot_address(array.address_at), linear, memory_type(array.type.dtype))
    return _instead(e, stray, place), array.type.dtype


def _instead(e: Emitter, stray: ir.LLVMValue | None, place: ir.LLVMValue) -> ir.LLVMValue:
    """Return an element's address or, if the index is outside, an address in the argument block that is safe.

    The launch ends before the content of that word counts.
    """
    if stray is None:
        return place
    _note(e, stray)
    return e.b.select(stray, e.slot_address(e.m.layout.halted_at), place)


def _note(e: Emitter, stray: ir.LLVMValue) -> None:
    """Emit a store to the function's flag `an index lies outside`, if the function has this flag."""
    if e.strayed is not None:
        e.b.store(e.b.or_(e.b.load(e.strayed, I1), stray), e.strayed)


@LOWER.row(n.Within)
def _within(e: Emitter, stmt: n.Within) -> None:
    if e.checked_axes(stmt):
        stray = check_indices(e, stmt, [e.index(stmt.index)], [limit_of(e, stmt)], e.flow.trap_if)
        if stray is not None:
            _note(e, stray)
    e.values[stmt.result] = e.operand(stmt.index)
    if stmt.index in e.index_numbers:
        e.index_numbers[stmt.result] = e.index_numbers[stmt.index]


@LOWER.row(n.Load)
def _load(e: Emitter, stmt: n.Load) -> None:
    place, t = address(e, stmt)
    if e.m.target.entries and stmt.array not in e.m.written(e.task):
        content = e.b.load(place, memory_type(t), constant=True)
    else:
        content = e.flow.load(memory_type(t), place)
    e.values[stmt.result] = from_memory(e, content, t.is_bool)


@LOWER.row(n.Store)
def _store(e: Emitter, stmt: n.Store) -> None:
    place, t = address(e, stmt)
    write(e, to_memory(e, e.operand(stmt.value), t.is_bool), place)


def write(e: Emitter, value: ir.LLVMValue, place: ir.LLVMValue) -> None:
    """Emit a store of a value; while the emitter groups loads before writes, the store is deferred."""
    if e.late is None:
        e.flow.store(value, place)
    else:
        e.late.append(partial(e.flow.store, value, place))


@LOWER.row(n.Atomic)
def _atomic(e: Emitter, stmt: n.Atomic) -> None:
    if stmt in e.private:
        place = e.private[stmt]
        t = stmt.value.type
        e.b.store(atomics.combine(e, stmt.op, t, e.b.load(place, memory_type(t)), e.operand(stmt.value)), place)
        return
    place, t = address(e, stmt)
    atomic = e.m.is_atomic(e.task, stmt.array)
    if stmt.expected is not None:
        given = e.operand(stmt.expected), e.operand(stmt.value)
        swap = partial(atomics.compare_and_swap, e, t, place, *given)
        e.values[stmt.result] = atomics.where_shared(e, atomic, swap)
        return
    value = e.operand(stmt.value)
    if e.late is None:
        update = partial(atomics.update, e, stmt.op, t, place, value)
        e.values[stmt.result] = atomics.where_shared(e, atomic, update)
    elif atomic:
        e.late.append(partial(atomics.update, e, stmt.op, t, place, value, atomic))
    else:
        write(e, atomics.combine(e, stmt.op, t, e.b.load(place, memory_type(t)), value), place)


# ---- locals -------------------------------------------------------------------------------------------------


@LOWER.row(n.Local)
def _local(e: Emitter, stmt: n.Local) -> None:
    if stmt.var in e.fixed:
        return
    t = value_type(stmt.dtype)
    if stmt.var not in e.locals:
        e.locals[stmt.var] = StackVariable(e.alloca(t), stmt.dtype)
    e.flow.store(const(t, 0), e.locals[stmt.var].address)


@LOWER.row(n.Get)
def _get(e: Emitter, stmt: n.Get) -> None:
    known = e.fixed.get(stmt.var)
    e.values[stmt.result] = known or e.flow.load(value_type(stmt.result.type), e.locals[stmt.var].address)


@LOWER.row(n.Set)
def _set(e: Emitter, stmt: n.Set) -> None:
    if stmt.var in e.fixed:
        e.fixed[stmt.var] = e.operand(stmt.value)
        return
    e.flow.store(e.operand(stmt.value), e.locals[stmt.var].address)


@LOWER.row(n.LocalArray)
def _local_array(e: Emitter, stmt: n.LocalArray) -> None:
    t = memory_type(stmt.dtype)
    if stmt.var not in e.locals:
        e.locals[stmt.var] = StackVariable(e.alloca(t, max(stmt.size, 1)), stmt.dtype, stmt.size)
    place = e.locals[stmt.var].address
    size = const(I64, max(stmt.size, 1) * stmt.dtype.size)
    memset = e.m.declare("llvm.memset.p0.i64", VOID, [place.type, I8, I64, I1])
    e.b.call(memset, [place, const(I8, 0), size, const(I1, False)])


def element(
    e: Emitter, stmt: n.GetElement | n.SetElement | n.UpdateElement
) -> tuple[ir.LLVMValue, ir.LLVMValue, StackVariable]:
    """Return (address, condition 'the index is inside', variable); outside, the address is that of element 0."""
    array = e.locals[stmt.var]
    index, size = e.index(stmt.index), const(I64, array.size or 0)
    inside = e.b.icmp_unsigned("<", index, size)
    if e.checks_element(stmt):
        outside = e.b.xor(inside, const(I1, True))
        e.flow.trap_if(outside, e.m.site("element", e.task, stmt), index, size)
    safe = e.b.select(inside, index, const(I64, 0))
    return e.b.gep(array.address, safe, memory_type(array.dtype)), inside, array


@LOWER.row(n.GetElement)
def _get_element(e: Emitter, stmt: n.GetElement) -> None:
    place, inside, array = element(e, stmt)
    value = from_memory(e, e.flow.load(memory_type(array.dtype), place), array.dtype.is_bool)
    e.values[stmt.result] = e.b.select(inside, value, e.const(value, 0))


@LOWER.row(n.SetElement)
def _set_element(e: Emitter, stmt: n.SetElement) -> None:
    """Emit a write to a local or shared array; if the index lies outside, the array keeps its contents."""
    place, inside, array = element(e, stmt)
    if array.is_shared:
        # Other threads may write element 0 at this time.
        with e.b.if_then(inside):
            e.flow.store(to_memory(e, e.operand(stmt.value), array.dtype.is_bool), place)
        return
    old = e.flow.load(memory_type(array.dtype), place)
    new = to_memory(e, e.operand(stmt.value), array.dtype.is_bool)
    e.flow.store(e.b.select(inside, new, old), place)
