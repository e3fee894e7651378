"""This module executes memory accesses and stores error bounds of arrays, locals, local arrays and adstacks."""

from __future__ import annotations

import numpy as np

from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar, f64, from_dtype
from ....reference.atomics import same_bits
from ....reference.frame import LaneFrame, LaneVector, number
from ....reference.machine import RUN
from ....reference.storage import ChunkLocal, Rows
from .ledger import ElementUse, Ledger, last_of
from .machine import BOUNDED, BoundedMachine, define, error
from .rules import F64, INF, ZERO
from .slots import Slots

Access = n.Load | n.Store | n.Atomic

_USES = {n.Load: ElementUse.READ, n.Store: ElementUse.STORED, n.Atomic: ElementUse.UPDATED}


# ---- memory -------------------------------------------------------------------------------------------------


def _need_indices(m: BoundedMachine, s: Access, f: LaneFrame) -> None:
    for index in s.indices:
        m.need(s, f, index, "an index")


def _located(m: BoundedMachine, s: Access, f: LaneFrame) -> LaneVector:
    """Return the row-major number of the element that each lane accesses."""
    flat = number(0)
    for axis, (value, extent) in enumerate(zip(s.indices, m.memory[s.array].shape)):
        index = f.value(value).astype(np.int64)
        flat = flat * np.int64(extent) + index if axis else index
    return flat


def _ledger(m: BoundedMachine, array: str) -> Ledger | None:
    """Return the ledger that records accesses to an array in this task, or None if they need not be recorded."""
    plan = m.bounded.plans[m.chunk.task]
    if array not in plan.kept:
        return None
    found = m.ledgers.get(array)
    if found is None:
        found = m.ledgers[array] = Ledger(m.memory[array].flat, m.errors.get(array), plan.kept[array])
    return found


def _touch(m: BoundedMachine, s: Access, f: LaneFrame, index: LaneVector) -> None:
    books = _ledger(m, s.array)
    if books is not None:
        use = _USES[type(s)]
        if isinstance(s, n.Atomic) and s.result.id in m.bounded.plans[m.chunk.task].ordered:
            use |= ElementUse.READ
        books.touch(f.spread(index), np.int64(m.chunk.start) + f.numbers(), use)


def _put(m: BoundedMachine, array: str, index: LaneVector, e: LaneVector) -> None:
    """Overwrite the error bounds of elements of an array."""
    known = m.errors.get(array)
    if known is None:
        if e is ZERO:
            return
        known = m.errors[array] = np.zeros(m.memory[array].flat.size)
    known[index] = last_of(index, e)


@BOUNDED.row(n.Load)
def _load(m: BoundedMachine, s: n.Load, f: LaneFrame) -> LaneFrame | None:
    _need_indices(m, s, f)
    RUN[n.Load](m, s, f)
    known, books = m.errors.get(s.array), _ledger(m, s.array)
    if known is None and books is None:
        define(m, s, f, ZERO)
        return f
    index = _located(m, s, f)
    _touch(m, s, f, index)
    define(m, s, f, ZERO if known is None else known[index])
    return f


@BOUNDED.row(n.Store)
def _store(m: BoundedMachine, s: n.Store, f: LaneFrame) -> LaneFrame | None:
    _need_indices(m, s, f)
    RUN[n.Store](m, s, f)
    e, books = error(f, s.value), _ledger(m, s.array)
    if e is ZERO and books is None and s.array not in m.errors:
        return f
    index = _located(m, s, f)
    _put(m, s.array, index, e)
    if books is not None:
        _touch(m, s, f, index)
        books.store(index, f.value(s.value), e, m.memory[s.array].flat[index])
    return f


@BOUNDED.row(n.Atomic)
def _atomic(m: BoundedMachine, s: n.Atomic, f: LaneFrame) -> LaneFrame | None:
    _need_indices(m, s, f)
    index = _located(m, s, f)
    dtype, flat, known = s.value.type, m.memory[s.array].flat, m.errors.get(s.array)
    books, value, e = _ledger(m, s.array), f.value(s.value), error(f, s.value)
    # An uncertain index has poisoned the run, and errors mean nothing any more.
    if m.poisoned is not None:
        return RUN[n.Atomic](m, s, f)
    if books is not None:
        _touch(m, s, f, index)
        if s.op == "add" and dtype.is_real:
            books.add(f.spread(index), np.abs(value.astype(F64)), e)
    # The content and its error are read before the reference changes them.
    old, found = flat[index], ZERO if known is None else known[index]
    RUN[n.Atomic](m, s, f)
    define(m, s, f, found)
    if s.op in ("min", "max") or not dtype.is_real and s.expected is None:
        _raise(m, s.array, index, e)
    elif s.op == "exchange":
        _put(m, s.array, index, e)
    elif s.expected is not None:
        _put(m, s.array, index, _swapped(s, f, old, found, e))
    else:
        _put(m, s.array, index, m.operation(s.op, dtype).of((old, value), (found, e), flat[index]))
    return f


def _swapped(s: n.Atomic, f: LaneFrame, old: LaneVector, found: LaneVector, e: LaneVector) -> LaneVector:
    """Return the error bound after an atomic compare-and-swap, infinite where the comparison is uncertain."""
    assert s.expected is not None
    unsure, expected = error(f, s.expected), f.value(s.expected)
    decided = (np.asarray(found) == 0) & (np.asarray(unsure) == 0)
    return np.where(decided, np.where(same_bits(*np.broadcast_arrays(old, expected)), e, found), INF)


def _raise(m: BoundedMachine, array: str, index: LaneVector, e: LaneVector) -> None:
    """Raise the error bounds of elements of an array to at least `e`.

    Extremes move by no more than their operands, and an uncertain integer makes the element uncertain.
    """
    if e is not ZERO:
        known = m.errors.get(array)
        known = m.errors[array] = np.zeros(m.memory[array].flat.size) if known is None else known
        np.maximum.at(known, *np.broadcast_arrays(index, e))


def format_of(m: BoundedMachine, array: str) -> Scalar:
    """Return the scalar type in which this run stores the elements of an array."""
    return from_dtype(m.memory[array].flat.dtype)


# ---- locals -------------------------------------------------------------------------------------------------


@BOUNDED.row(n.Local)
def _local(m: BoundedMachine, s: n.Local, f: LaneFrame) -> LaneFrame | None:
    known = m.owned.local_errors.get(s.var)
    if known is not None:
        known.clear(f)
    return RUN[n.Local](m, s, f)


@BOUNDED.row(n.Get)
def _get(m: BoundedMachine, s: n.Get, f: LaneFrame) -> LaneFrame | None:
    known = m.owned.local_errors.get(s.var)
    define(m, s, f, ZERO if known is None else known.get(f))
    return RUN[n.Get](m, s, f)


@BOUNDED.row(n.Set)
def _set(m: BoundedMachine, s: n.Set, f: LaneFrame) -> LaneFrame | None:
    if s.var in m.bounded.stops:
        m.need(s, f, s.value, "a flag that ends a loop")
    e, errors = error(f, s.value), m.owned.local_errors
    known = errors.get(s.var)
    if known is None and e is not ZERO:
        known = errors[s.var] = ChunkLocal(f64, m.chunk.width)
    if known is not None:
        known.set(f, e)
    return RUN[n.Set](m, s, f)


@BOUNDED.row(n.LocalArray)
def _local_array(m: BoundedMachine, s: n.LocalArray, f: LaneFrame) -> LaneFrame | None:
    known = m.owned.row_errors.get(s.var)
    if known is not None:
        known.clear(f)
    return RUN[n.LocalArray](m, s, f)


@BOUNDED.row(n.GetElement)
def _get_element(m: BoundedMachine, s: n.GetElement, f: LaneFrame) -> LaneFrame | None:
    m.need(s, f, s.index, "an index")
    RUN[n.GetElement](m, s, f)
    known = m.owned.row_errors.get(s.var)
    define(m, s, f, ZERO if known is None else known.read(f, f.value(s.index).astype(np.int64)))
    return f


@BOUNDED.row(n.SetElement)
def _set_element(m: BoundedMachine, s: n.SetElement, f: LaneFrame) -> LaneFrame | None:
    m.need(s, f, s.index, "an index")
    RUN[n.SetElement](m, s, f)
    e, errors = error(f, s.value), m.owned.row_errors
    known = errors.get(s.var)
    if known is None and e is not ZERO:
        known = errors[s.var] = Rows(len(m.chunk.rows[s.var].cells), m.chunk.width, f64)
    if known is not None:
        known.write(f, f.value(s.index).astype(np.int64), e)
    return f


# ---- adstacks -----------------------------------------------------------------------------------------------


def _slots(m: BoundedMachine, stack: str) -> Slots:
    found = m.owned.slot_errors.get(stack)
    if found is None:
        found = m.owned.slot_errors[stack] = Slots(m.chunk.width)
    return found


BOUNDED.update({kind: RUN[kind] for kind in (n.StackAlloca, n.StackPop)})


@BOUNDED.row(n.StackPush)
def _push(m: BoundedMachine, s: n.StackPush, f: LaneFrame) -> LaneFrame | None:
    RUN[n.StackPush](m, s, f)
    _slots(m, s.stack).push(f, m.stack(s.stack), error(f, s.value))
    return f


@BOUNDED.row(n.StackTop)
def _top(m: BoundedMachine, s: n.StackTop, f: LaneFrame) -> LaneFrame | None:
    RUN[n.StackTop](m, s, f)
    define(m, s, f, _slots(m, s.stack).primal(f, m.stack(s.stack)))
    return f


@BOUNDED.row(n.StackTopAdjoint)
def _top_adjoint(m: BoundedMachine, s: n.StackTopAdjoint, f: LaneFrame) -> LaneFrame | None:
    RUN[n.StackTopAdjoint](m, s, f)
    define(m, s, f, _slots(m, s.stack).adjoint(f, m.stack(s.stack)))
    return f


@BOUNDED.row(n.StackAccumulate)
def _accumulate(m: BoundedMachine, s: n.StackAccumulate, f: LaneFrame) -> LaneFrame | None:
    stack, slots = m.stack(s.stack), _slots(m, s.stack)
    if not np.all(stack.top(f)):
        return RUN[n.StackAccumulate](m, s, f)
    # The adjoint and its error are read before the reference adds to the slot.
    old, found, e = stack.adjoint(f), slots.adjoint(f, stack), error(f, s.value)
    RUN[n.StackAccumulate](m, s, f)
    bound = m.operation("add", s.value.type).of((old, f.value(s.value)), (found, e), stack.adjoint(f))
    slots.set_adjoint(f, stack, bound)
    return f
