"""This module emits masked code for atomic updates (the entry of the table MASKED for them).

Where every iteration has an element of its own, an update is a vector read, operation and write. Where all lanes update
one element and nothing reads what was there, the active lanes are combined first and the element is updated once.
Otherwise one active lane after the other makes its update.
"""

from __future__ import annotations

from functools import partial

from ....compiler.analysis.affine import is_own
from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar, f16
from ...codegen import ir
from ...codegen.emit import ArithEmitter
from ...codegen.ops import apply
from ...codegen.types import I64, PTR, const, memory_type
from .. import atomics
from ..branching.statements import from_memory, to_memory
from ..lane_loop import each_lane, spilled
from .access import LanePlace, read, write
from .lanes import WIDE, LaneEmitter
from .memory import place_of
from .statements import MASKED


@MASKED.row(n.Atomic)
def _atomic(e: LaneEmitter, stmt: n.Atomic) -> None:
    place, t = place_of(e, stmt)
    atomic = e.m.is_atomic(e.task, stmt.array)
    if place.kind == "uniform" and stmt.result not in e.u.read and _combines(e, stmt, t):
        update = partial(atomics.update, e, stmt.op, t, place.address, _combined(e, stmt, t))
        atomics.where_shared(e, atomic, update)
    elif stmt.expected is None and place.kind != "uniform" and not atomic and _is_own(e, stmt):
        _vector_update(e, stmt, place, t)
    else:
        _one_by_one(e, stmt, place, t, atomic)


# ---- elements of their own ----------------------------------------------------------------------------------


def _is_own(e: LaneEmitter, stmt: n.Atomic) -> bool:
    """Return True if no two lanes of a block update the same element in this statement."""
    return is_own(tuple(e.forms.form(v) for v in stmt.indices), e.body, e.forms)


def _vector_update(e: LaneEmitter, stmt: n.Atomic, place: LanePlace, t: Scalar) -> None:
    """Emit an update of one element per lane by a vector load, operation and store."""
    old = read(e, place, memory_type(t))
    value = to_memory(e, e.vector(stmt.value), t.is_bool)
    write(e, place, atomics.combine(e, stmt.op, t, old, value))
    e.values[stmt.result] = from_memory(e, old, t.is_bool)


# ---- one element --------------------------------------------------------------------------------------------


def _combines(e: LaneEmitter, stmt: n.Atomic, t: Scalar) -> bool:
    """Return True if the updates of all lanes by an atomic can be combined into one update of the element."""
    # Sums and products of f16 round each time, so they are not combined.
    return stmt.expected is None and t != f16 and e.lanes & (e.lanes - 1) == 0


def _combined(e: LaneEmitter, stmt: n.Atomic, t: Scalar) -> ir.LLVMValue:
    """Combine the operands of all active lanes by the atomic's operation, and return the combined operand."""
    value, mask = e.operand(stmt.value), e.flow.mask
    if stmt.op == "exchange":
        return e.b.extract_element(value, e.last(mask)) if isinstance(value.type, ir.VectorType) else value
    if stmt.op in ("min", "max", "bit_and", "bit_or") and not isinstance(value.type, ir.VectorType):
        return value
    value = e.splat(value)
    value = e.b.select(mask, value, const(value.type, _neutral(stmt.op, t)))
    count = e.lanes
    while count > 1:
        count //= 2
        value = apply(e, stmt.op, (t, t), _part(e, value, 0, count), _part(e, value, count, count))
    return e.b.extract_element(value, const(I64, 0))


def _part(e: LaneEmitter, value: ir.LLVMValue, start: int, count: int) -> ir.LLVMValue:
    """Return `count` lanes of a vector from lane `start` on."""
    return e.b.shuffle(value, range(start, start + count))


def _neutral(op: str, t: Scalar) -> float | int:
    """Return the number with which an atomic `op` leaves an element unchanged, such as 0 for an addition."""
    if op in ("min", "max"):
        if t.is_real:
            return float("inf") if op == "min" else -float("inf")
        low, high = t.limits
        return high if op == "min" else low
    if op == "add":
        return -0.0 if t.is_real else 0
    return {"mul": 1, "bit_and": -1, "bit_or": 0, "bit_xor": 0}[op]


# ---- one by one ---------------------------------------------------------------------------------------------


def _one_by_one(e: LaneEmitter, stmt: n.Atomic, place: LanePlace, t: Scalar, atomic: bool) -> None:
    """Emit the updates of the active lanes one after another."""
    wide = e.wide(memory_type(t))
    if place.kind == "uniform":
        places = e.splat(place.address)
    elif place.kind == "run":
        places = e.b.geps(place.address, e.numbers(I64), memory_type(t))
    else:
        places = place.address
    values = [v for v in (stmt.value, stmt.expected) if v is not None]
    args = [places, e.flow.mask, *(to_memory(e, e.vector(v), t.is_bool) for v in values)]

    def update(is_atomic: bool) -> ir.LLVMValue:
        name = f"sg.lanes.{'atomic' if is_atomic else 'plain'}.{stmt.op}.{t}.{e.lanes}"
        types = [a.type for a in args]
        return e.b.call(e.m.helper(name, wide, types, lambda a, f: _in_order(a, f, stmt.op, t, is_atomic), WIDE), args)

    e.values[stmt.result] = from_memory(e, atomics.where_shared(e, atomic, update), t.is_bool)


def _in_order(a: ArithEmitter, function: ir.LLVMFunction, op: str, t: Scalar, atomic: bool) -> None:
    """Write a helper that updates one address per active lane in order, and returns the old values (0 elsewhere)."""
    addresses, mask, *values = function.args
    memory = memory_type(t)
    places, contents = spilled(a, addresses), [spilled(a, v) for v in values]
    out = spilled(a, const(function.result, 0))

    def visit(lane: ir.LLVMValue) -> None:
        place = a.b.load(a.b.gep(places, lane, PTR), PTR)
        value, *expected = (from_memory(a, a.b.load(a.b.gep(c, lane, memory), memory), t.is_bool) for c in contents)
        if expected:
            old = atomics.compare_and_swap(a, t, place, expected[0], value, atomic)
        else:
            old = atomics.update(a, op, t, place, value, atomic)
        a.b.store(to_memory(a, old, t.is_bool), a.b.gep(out, lane, memory))

    each_lane(a, mask, visit)
    a.b.ret(a.b.load(out, function.result))
