"""This module emits masked code for arrays, temporaries, local scalars and local arrays (entries of table MASKED).

Elements whose numbers rise by one from lane to lane are read and written as one run of memory. A varying local array is
[element][lane]. A local declared at the present level is overwritten in all lanes: the lanes that are not active at
this level never see it.
"""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar
from ...codegen import ir
from ...codegen.types import I1, I8, I64, VOID, const, memory_type
from ..branching.statements import from_memory, to_memory
from ..emit import StackVariable
from .access import LanePlace, read, write
from .index_checks import check_indices, check_within, trap_lanes
from .lanes import LaneEmitter
from .statements import MASKED


def place_of(e: LaneEmitter, stmt: n.Load | n.Store | n.Atomic) -> tuple[LanePlace, Scalar]:
    """Return the addresses in all lanes of the elements that a statement accesses, and their dtype."""
    temp = e.m.layout.temps.get(stmt.array)
    if temp is not None:
        return LanePlace("uniform", e.slot_pointer(temp[0])), temp[1]
    array = e.m.layout.arrays[stmt.array]
    t = memory_type(array.type.dtype)
    start = e.slot_address(array.address_at)
    extents = [e.slot(array.shape_at + 8 * axis) for axis in range(array.type.ndim)]
    check_indices(e, stmt, extents)
    outer, last = stmt.indices[:-1], stmt.indices[-1:]
    if e.u.is_uniform(*outer) and all(e.stride(v) in (0, 1) for v in last):
        linear = _number(e, [e.to_i64(e.base(v), v.type) for v in stmt.indices], extents)
        return LanePlace("uniform" if e.u.is_uniform(*last) else "run", e.b.gep(start, linear, t)), array.type.dtype
    if e.u.is_uniform(*outer):
        rows = _number(e, [e.index(v) for v in outer], extents)
        row = e.b.gep(start, e.b.mul(rows, extents[-1]), t) if outer else start
        places = e.operand(last[0]) if last[0].type.is_signed else e.index(last[0])
        return LanePlace("apart", e.b.geps(row, places, t)), array.type.dtype
    linear = _number(e, [e.splat(e.index(v)) for v in stmt.indices], [e.splat(x) for x in extents])
    return LanePlace("apart", e.b.geps(start, linear, t)), array.type.dtype


def _number(e: LaneEmitter, indices: list[ir.LLVMValue], extents: list[ir.LLVMValue]) -> ir.LLVMValue:
    """Return the row-major position of an element in its array."""
    linear: ir.LLVMValue = const(I64, 0)
    for axis, index in enumerate(indices):
        linear = e.b.add(e.b.mul(linear, extents[axis]), index) if axis else index
    return linear


@MASKED.row(n.Within)
def _within(e: LaneEmitter, stmt: n.Within) -> None:
    check_within(e, stmt)
    e.values[stmt.result] = e.operand(stmt.index)
    if stmt.result in e.u.strides:
        e.bases[stmt.result] = e.base(stmt.index)


@MASKED.row(n.Load)
def _load(e: LaneEmitter, stmt: n.Load) -> None:
    place, t = place_of(e, stmt)
    e.values[stmt.result] = from_memory(e, read(e, place, memory_type(t)), t.is_bool)


@MASKED.row(n.Store)
def _store(e: LaneEmitter, stmt: n.Store) -> None:
    place, t = place_of(e, stmt)
    write(e, place, to_memory(e, e.operand(stmt.value), t.is_bool))


# ---- locals -------------------------------------------------------------------------------------------------


@MASKED.row(n.Local)
def _local(e: LaneEmitter, stmt: n.Local) -> None:
    t = e.storage(stmt.var, stmt.dtype)
    if stmt.var not in e.locals:
        e.locals[stmt.var] = StackVariable(e.alloca(t), stmt.dtype)
    e.levels[stmt.var] = e.flow.level
    e.b.store(const(t, 0), e.locals[stmt.var].address)


@MASKED.row(n.Get)
def _get(e: LaneEmitter, stmt: n.Get) -> None:
    local = e.locals[stmt.var]
    e.values[stmt.result] = e.b.load(local.address, e.storage(stmt.var, local.dtype))


@MASKED.row(n.Set)
def _set(e: LaneEmitter, stmt: n.Set) -> None:
    local = e.locals[stmt.var]
    value = e.operand(stmt.value)
    if stmt.var in e.u.changing:
        value = e.splat(value)
        if e.levels[stmt.var] != e.flow.level:
            value = e.b.select(e.flow.mask, value, e.b.load(local.address, value.type))
    e.b.store(value, local.address)


# ---- local arrays -------------------------------------------------------------------------------------------


@MASKED.row(n.LocalArray)
def _local_array(e: LaneEmitter, stmt: n.LocalArray) -> None:
    t, count = memory_type(stmt.dtype), max(stmt.size, 1)
    width = e.lanes if stmt.var in e.u.changing else 1
    if stmt.var not in e.locals:
        e.locals[stmt.var] = StackVariable(e.alloca(e.wide(t) if width > 1 else t, count), stmt.dtype, stmt.size)
    e.levels[stmt.var] = e.flow.level
    place = e.locals[stmt.var].address
    memset = e.m.declare("llvm.memset.p0.i64", VOID, [place.type, I8, I64, I1])
    e.b.call(memset, [place, const(I8, 0), const(I64, count * width * stmt.dtype.size), const(I1, False)])


def _inside(
    e: LaneEmitter, stmt: n.GetElement | n.SetElement, array: StackVariable
) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the index of an access to a local array, 0 if it is outside, and the condition that it is inside.

    Both are vectors if the index varies between lanes.
    """
    index = e.index(stmt.index)
    inside = e.b.icmp_unsigned("<", index, e.const(index, array.size or 0))
    if e.checks_element(stmt):
        outside = e.b.xor(inside, e.const(inside, True))
        site, size = e.m.site("element", e.task, stmt), const(I64, array.size or 0)
        if e.u.is_uniform(stmt.index):
            e.flow.trap_if(outside, site, index, size)
        else:
            trap_lanes(e, outside, site, index, size)
    return e.b.select(inside, index, e.const(index, 0)), inside


def _element(e: LaneEmitter, stmt: n.GetElement | n.SetElement, array: StackVariable, index: ir.LLVMValue) -> LanePlace:
    """Return the addresses in all lanes of the element of a local array that a statement accesses."""
    t = memory_type(array.dtype)
    if stmt.var not in e.u.changing:
        if e.u.is_uniform(stmt.index):
            return LanePlace("uniform", e.b.gep(array.address, index, t))
        return LanePlace("apart", e.b.geps(array.address, index, t))
    if e.u.is_uniform(stmt.index):
        return LanePlace("run", e.b.gep(array.address, index, e.wide(t)))
    number = e.b.add(e.b.mul(index, e.const(index, e.lanes)), e.numbers(I64))
    return LanePlace("apart", e.b.geps(array.address, number, t))


@MASKED.row(n.GetElement)
def _get_element(e: LaneEmitter, stmt: n.GetElement) -> None:
    """Emit a load of an element of a local array, as the result of the statement."""
    array = e.locals[stmt.var]
    index, inside = _inside(e, stmt, array)
    place, t = _element(e, stmt, array, index), memory_type(array.dtype)
    # A run of a local array is there in full, so it is read whole.
    content = e.b.load(place.address, e.wide(t)) if place.kind == "run" else read(e, place, t)
    value = from_memory(e, content, array.dtype.is_bool)
    e.values[stmt.result] = e.b.select(inside, value, e.const(value, 0))


@MASKED.row(n.SetElement)
def _set_element(e: LaneEmitter, stmt: n.SetElement) -> None:
    """Emit a store to an element of a local array. Lanes whose index is outside store nothing."""
    array = e.locals[stmt.var]
    index, inside = _inside(e, stmt, array)
    place = _element(e, stmt, array, index)
    new = to_memory(e, e.operand(stmt.value), array.dtype.is_bool)
    # All lanes index a uniform array alike, and write the same value to it.
    if place.kind == "uniform":
        old = e.b.load(place.address, new.type)
        e.b.store(e.b.select(inside, new, old), place.address)
    elif place.kind == "run":
        new = e.splat(new)
        old = e.b.load(place.address, new.type)
        kept = new if e.levels[stmt.var] == e.flow.level else e.b.select(e.flow.mask, new, old)
        e.b.store(e.b.select(inside, kept, old), place.address)
    else:
        outer = e.flow.mask
        e.flow.mask = e.b.and_(outer, inside)
        write(e, place, new)
        e.flow.mask = outer
