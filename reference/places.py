"""Execute statements that read or write array elements, locals, local arrays or adstacks."""

from __future__ import annotations

import numpy as np

from ..compiler.errors import CURE_OF_INDEX, AdstackOverflow, OutOfBounds
from ..compiler.ir import nodes as n
from ..compiler.ir.names import shown_name
from ..compiler.ir.statement import Stmt
from . import atomics
from .frame import LaneFrame, LaneVector, number
from .machine import RUN, Machine, lane_element
from .memory import FlatArray
from .scalar import NUMPY
from .storage import ChunkLocal, ChunkStack, Rows
from .traps import EmptyStack

Access = n.Load | n.Store | n.Atomic
StackStatement = n.StackPop | n.StackTop | n.StackTopAdjoint | n.StackAccumulate


# ---- memory -------------------------------------------------------------------------------------------------


def _outside(index: LaneVector, extent: int) -> bool:
    """Return True if the index of any lane is not in 0 .. extent - 1."""
    # The least and the greatest index suffice.
    return bool(index.size) and (int(index.min()) < 0 or int(index.max()) >= extent)


def _check_index(m: Machine, s: Stmt, f: LaneFrame, name: str, axis: int, index: LaneVector, extent: int) -> None:
    """Raise OutOfBounds for the first lane whose index is outside of the extent; axis -1 means a local array."""
    if _outside(index, extent):
        bad = (index < 0) | (index > extent - 1 if extent else True)
        where = f" of axis {axis}" if axis >= 0 else ""
        m.check(
            OutOfBounds,
            s,
            f,
            bad,
            lambda p: (
                f"index {lane_element(index, p)}{where} is outside `{shown_name(name)}`, whose extent there is {extent}"
            ),
            CURE_OF_INDEX,
        )


def _locate(m: Machine, s: Access, f: LaneFrame, memory: FlatArray) -> LaneVector:
    """Return the flat element number in C order that each lane accesses, after checking the index of each axis."""
    flat = number(0)
    for axis, (value, extent) in enumerate(zip(s.indices, memory.shape)):
        index = f.value(value)
        _check_index(m, s, f, s.array, axis, index, extent)
        flat = flat * np.int64(extent) + index.astype(np.int64) if axis else index.astype(np.int64)
    return flat


@RUN.row(n.Load)
def _load(m: Machine, s: n.Load, f: LaneFrame) -> LaneFrame:
    memory = m.memory[s.array]
    f.values[s.result.id] = memory.flat[_locate(m, s, f, memory)]
    return f


@RUN.row(n.Store)
def _store(m: Machine, s: n.Store, f: LaneFrame) -> LaneFrame:
    """Store one value per lane to elements of an array."""
    memory = m.memory[s.array]
    index, value = _locate(m, s, f, memory), f.value(s.value)
    # Of several lanes that store to one element the last wins: NumPy assigns so, and a uniform index does the same.
    memory.flat[index] = value[-1] if index.ndim == 0 and value.ndim else value
    return f


@RUN.row(n.Atomic)
def _atomic(m: Machine, s: n.Atomic, f: LaneFrame) -> LaneFrame:
    """Execute an atomic in each lane, and define the old values as the result if any statement reads the result."""
    memory = m.memory[s.array]
    index, value = _locate(m, s, f, memory), f.value(s.value)
    if s.expected is not None:
        expected = f.spread(f.value(s.expected))
        old = atomics.compare_and_swap(memory.flat, f.spread(index), expected, f.spread(value))
        f.values[s.result.id] = old[0] if m.chunk.width == 1 else old
    elif m.chunk.width == 1:
        f.values[s.result.id] = atomics.update_one(s.op, memory.flat, int(index), value)
    elif s.result.id in m.program.used:
        f.values[s.result.id] = atomics.fetch_and_update(s.op, memory.flat, f.spread(index), f.spread(value))
    else:
        atomics.update(s.op, memory.flat, f.spread(index), f.spread(value))
    return f


# ---- locals -------------------------------------------------------------------------------------------------


@RUN.row(n.Local)
def _local(m: Machine, s: n.Local, f: LaneFrame) -> LaneFrame:
    """Create a local scalar in the lanes of the frame, or set it to zero if it exists."""
    found = m.chunk.locals.get(s.var)
    if found is None:
        found = m.chunk.locals[s.var] = ChunkLocal(s.dtype, m.chunk.width)
    # Lanes outside the frame have left the scope of an earlier execution, or keep what they have.
    found.clear(f)
    return f


@RUN.row(n.Get)
def _get(m: Machine, s: n.Get, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = m.chunk.locals[s.var].get(f)
    return f


@RUN.row(n.Set)
def _set(m: Machine, s: n.Set, f: LaneFrame) -> LaneFrame:
    m.chunk.locals[s.var].set(f, f.value(s.value))
    return f


@RUN.row(n.LocalArray)
def _local_array(m: Machine, s: n.LocalArray, f: LaneFrame) -> LaneFrame:
    found = m.chunk.rows.get(s.var)
    if found is None:
        m.chunk.rows[s.var] = Rows(s.size, m.chunk.width, s.dtype)
    else:
        found.clear(f)
    return f


def check_element(
    m: Machine, s: n.GetElement | n.SetElement | n.UpdateElement, f: LaneFrame, index: LaneVector
) -> None:
    """Raise OutOfBounds for the first lane whose index is outside of a local or shared array."""
    _check_index(m, s, f, s.var, -1, index, len(m.chunk.rows[s.var].cells))


@RUN.row(n.GetElement)
def _get_element(m: Machine, s: n.GetElement, f: LaneFrame) -> LaneFrame:
    rows, index = m.chunk.rows[s.var], f.value(s.index)
    check_element(m, s, f, index)
    f.values[s.result.id] = rows.read(f, index.astype(np.int64))
    return f


@RUN.row(n.SetElement)
def _set_element(m: Machine, s: n.SetElement, f: LaneFrame) -> LaneFrame:
    rows, index = m.chunk.rows[s.var], f.value(s.index)
    check_element(m, s, f, index)
    rows.write(f, index.astype(np.int64), f.value(s.value))
    return f


# ---- adstacks -----------------------------------------------------------------------------------------------


def _filled(m: Machine, s: StackStatement, f: LaneFrame) -> ChunkStack:
    """Return the adstack that the statement accesses. Raise EmptyStack if it is empty in some lane."""
    stack = m.stack(s.stack)
    m.check(EmptyStack, s, f, np.equal(stack.top(f), 0), lambda _: f"{_described(stack)} is empty")
    return stack


def _described(stack: ChunkStack) -> str:
    """Return the name of an adstack and of the variable whose history it keeps, for error messages."""
    of = f" (history of `{stack.decl.variable}`)" if stack.decl.variable else ""
    return f"adstack `{stack.decl.stack}`{of}"


@RUN.row(n.StackAlloca)
def _alloca(m: Machine, s: n.StackAlloca, f: LaneFrame) -> LaneFrame:
    """Empty an adstack in the lanes that execute its declaration."""
    m.stack(s.stack).move(f, 0)
    return f


@RUN.row(n.StackPush)
def _push(m: Machine, s: n.StackPush, f: LaneFrame) -> LaneFrame:
    """Push one value to an adstack in each lane. Raise AdstackOverflow if it is full in some lane."""
    stack = m.stack(s.stack)
    if stack.capacity is not None:
        m.check(
            AdstackOverflow,
            s,
            f,
            np.greater_equal(stack.top(f), stack.capacity),
            lambda _: f"{_described(stack)} holds {stack.capacity} of {stack.capacity} slots; one more is pushed",
            "the capacity that was computed for this launch is too small: sizing and kernel disagree",
        )
    stack.push(f, f.value(s.value))
    return f


@RUN.row(n.StackPop)
def _pop(m: Machine, s: n.StackPop, f: LaneFrame) -> LaneFrame:
    stack = _filled(m, s, f)
    stack.move(f, stack.top(f) - 1)
    return f


@RUN.row(n.StackTop)
def _top(m: Machine, s: n.StackTop, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = _filled(m, s, f).primal(f)
    return f


@RUN.row(n.StackTopAdjoint)
def _top_adjoint(m: Machine, s: n.StackTopAdjoint, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = _filled(m, s, f).adjoint(f)
    return f


@RUN.row(n.StackAccumulate)
def _accumulate(m: Machine, s: n.StackAccumulate, f: LaneFrame) -> LaneFrame:
    stack = _filled(m, s, f)
    stack.set_adjoint(f, NUMPY["add"].meaning(stack.adjoint(f), f.value(s.value)))
    return f
