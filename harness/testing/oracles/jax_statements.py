"""This module holds the table TRANSLATE: for each statement class, the function that runs it for lanes in lockstep.

A statement runs for the lanes of a mask, and never for an empty mask. Control follows the concrete halves. An idle lane
computes too, but its values reach no memory, no local and no decision. What it feeds to JAX lies inside the `safe`
intervals of the operation, so that its zero cotangent stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....compiler.errors import DivisionByZero, KernelAssertionError, OutOfBounds, StackgradError
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.ops import OPS
from ....compiler.ir.roles import CONTROL
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.table import Table
from ....compiler.ir.types import Scalar
from .common import HOLES, uniform
from .jax_memory import Cells, LaneValue, blend, bucket, ranks, reduce_queues
from .jax_ops import JAX, convert, reinterpret, storage


@dataclass
class LockstepLaunch:
    """Represent one launch on the JAX oracle: the kernel, memory, scalars and random key that all tasks share."""

    kernel: Kernel
    cells: dict[str, Cells]
    scalars: Mapping[str, Any]
    key: tuple[int, int]
    widen: bool
    used: frozenset[Value]
    ended: bool = False


@dataclass
class LaneExits:
    """Represent which lanes have left a loop, scope or task, and which have left only the present trip of a loop."""

    broken: np.ndarray
    continued: np.ndarray

    @classmethod
    def of(cls, lanes: int) -> LaneExits:
        """Return a `LaneExits` for a loop, scope or task that no lane has left yet."""
        return cls(np.zeros(lanes, bool), np.zeros(lanes, bool))


@dataclass
class LockstepLanes:
    """Represent a group of iterations of a task that run in lockstep, each as one lane.

    Attributes:
        points: (count,) row-major numbers in the box; further lanes, never alive, pad them to a bucket.
        arrays: local arrays by element, so that an index that all lanes share costs JAX nothing.
    """

    launch: LockstepLaunch
    task: int
    points: np.ndarray
    values: dict[Value, LaneValue] = field(default_factory=dict)
    locals: dict[str, LaneValue] = field(default_factory=dict)
    arrays: dict[str, list[LaneValue]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = bucket(self.points.size)
        padding = self.size - self.points.size
        self.alive = np.arange(self.size) < self.points.size
        # Padding lanes repeat the last point, so that they compute on ordinary values.
        self.numbers = np.concatenate([self.points, np.repeat(self.points[-1:], padding)])
        self.drawn = np.zeros(self.size, np.int64)
        self.frames = [LaneExits.of(self.size)]

    def full(self, value: Any, dtype: Scalar) -> LaneValue:
        """Return a constant of type `dtype` that has the same value in all lanes."""
        return LaneValue(np.full(self.size, value, storage(dtype, self.launch.widen)))

    def block(self, body: Block, mask: np.ndarray) -> None:
        """Run the statements of a block for the lanes of the mask; a lane that exits early skips the rest."""
        for stmt in body:
            if not mask.any():
                return
            TRANSLATE[type(stmt).__name__](self, stmt, mask)
            if isinstance(stmt, CONTROL):
                mask = mask & ~self.frames[-1].broken & ~self.frames[-1].continued

    def apply(self, name: str, args: Sequence[LaneValue], dtype: Scalar, mask: np.ndarray) -> LaneValue:
        """Apply an operation to the operands of all lanes, and return the result as a lane value."""
        row = JAX[name]
        traced = row.traced is not None and any(a.trace is not None for a in args)
        if traced and not row.linear:
            args = [_guard(a, *interval, mask) for a, interval in zip(args, OPS[name].safe)]
        value = row.concrete(*(a.value for a in args)).astype(storage(dtype, self.launch.widen))
        return LaneValue(value, row.traced(*(a.lifted() for a in args)) if traced and row.traced else None)

    def blended(self, mask: np.ndarray, new: LaneValue, old: LaneValue) -> LaneValue:
        """Return `new` in the lanes of the mask, `old` elsewhere.

        No blend is needed if only padding lanes would keep `old`.
        """
        return new if (mask | ~self.alive).all() else blend(mask, new, old)

    def address(self, stmt: Any, shape: Sequence[int], indices: Sequence[Value], mask: np.ndarray) -> np.ndarray:
        """Return the row-major number of the element that each lane accesses, with 0 for idle lanes.

        Raises:
            OutOfBounds: an index of a lane of the mask is outside.
        """
        flat, inside = np.zeros(self.size, np.int64), np.ones(self.size, bool)
        for axis, value in zip(shape, indices):
            index = self.values[value].value.astype(np.int64)
            inside &= (index >= 0) & (index < axis)
            flat = flat * axis + index
        if (wrong := np.flatnonzero(mask & ~inside)).size:
            at = ", ".join(str(self.values[v].value[wrong[0]]) for v in indices)
            name = getattr(stmt, "array", None) or stmt.var
            raise self.trap(OutOfBounds, stmt, f"index [{at}] is outside {name} of shape {tuple(shape)}")
        return np.where(mask, flat, 0)

    def memory(self, stmt: Any, access: str, mask: np.ndarray, once: bool = False) -> tuple[Cells, np.ndarray]:
        """Return the memory and the element numbers that a statement accesses, and record the access.

        The claim raises OrderMatters if the order of lanes matters.
        """
        cells = self.launch.cells[stmt.array]
        index = self.address(stmt, cells.shape, stmt.indices, mask)
        if self.points.size > 1:
            cells.claim(access, index, mask, once)
        return cells, index

    def trap(self, kind: type[StackgradError], stmt: Stmt, reason: str) -> StackgradError:
        """Return an exception of this class whose message has the source location of a statement."""
        span = self.launch.kernel.span(stmt.loc)
        return kind(f"{span.render()}: {reason}" if span else f"kernel {self.launch.kernel.name}: {reason}")


def _guard(arg: LaneValue, low: float, high: float, mask: np.ndarray) -> LaneValue:
    """Replace the values of idle lanes outside low .. high by safe ones, because 0 · inf would give NaN backward."""
    harmful = ~mask & ~((arg.value >= low) & (arg.value <= high))
    return blend(harmful, LaneValue(np.full_like(arg.value, (low + high) / 2)), arg) if harmful.any() else arg


TRANSLATE: Table[str, Callable[[LockstepLanes, Any, np.ndarray], None]] = Table(
    "TRANSLATE", n.STATEMENTS, HOLES, about="how the JAX oracle runs the statement on all lanes"
)


# ---- values -------------------------------------------------------------------------------------------------


@TRANSLATE.row("Const")
def _const(run: LockstepLanes, stmt: n.Const, mask: np.ndarray) -> None:
    run.values[stmt.result] = run.full(stmt.value, stmt.result.type)


@TRANSLATE.row("Arg")
def _arg(run: LockstepLanes, stmt: n.Arg, mask: np.ndarray) -> None:
    dtype = stmt.result.type
    run.values[stmt.result] = run.full(dtype(run.launch.scalars[stmt.name]), dtype)


@TRANSLATE.row("Shape")
def _shape(run: LockstepLanes, stmt: n.Shape, mask: np.ndarray) -> None:
    run.values[stmt.result] = run.full(run.launch.cells[stmt.array].shape[stmt.axis], stmt.result.type)


@TRANSLATE.row("Op")
def _op(run: LockstepLanes, stmt: n.Op, mask: np.ndarray) -> None:
    args = [run.values[v] for v in stmt.args]
    if OPS[stmt.op].traps and stmt.result.type.is_int and np.any(mask & (args[-1].value == 0)):
        raise run.trap(DivisionByZero, stmt, f"{stmt.op} of integers by zero")
    run.values[stmt.result] = run.apply(stmt.op, args, stmt.result.type, mask)


@TRANSLATE.row("Cast")
def _cast(run: LockstepLanes, stmt: n.Cast, mask: np.ndarray) -> None:
    arg, source, target = run.values[stmt.arg], stmt.arg.type, stmt.result.type
    value = convert(arg.value, source, target, run.launch.widen)
    run.values[stmt.result] = LaneValue(value, arg.trace if target.is_real else None)


@TRANSLATE.row("Within")
def _within(run: LockstepLanes, stmt: n.Within, mask: np.ndarray) -> None:
    index, extent = run.values[stmt.index].value, run.values[stmt.extent].value
    wrong = np.flatnonzero(mask & ((index < 0) | (index >= extent)))
    if wrong.size:
        raise run.trap(OutOfBounds, stmt, f"index {index[wrong[0]]} is outside 0 to {extent[wrong[0]] - 1}")
    run.values[stmt.result] = run.values[stmt.index]


@TRANSLATE.row("BitCast")
def _bit_cast(run: LockstepLanes, stmt: n.BitCast, mask: np.ndarray) -> None:
    arg = run.values[stmt.arg].value
    run.values[stmt.result] = LaneValue(reinterpret(arg, stmt.arg.type, stmt.result.type, run.launch.widen))


@TRANSLATE.row("Random")
def _random(run: LockstepLanes, stmt: n.Random, mask: np.ndarray) -> None:
    dtype = stmt.result.type
    task = run.task if stmt.task is None else stmt.task
    drawn = uniform(dtype, run.launch.key, task, run.numbers, run.drawn)
    run.values[stmt.result] = LaneValue(drawn.astype(storage(dtype, run.launch.widen)))
    run.drawn += mask


# ---- memory -------------------------------------------------------------------------------------------------


@TRANSLATE.row("Load")
def _load(run: LockstepLanes, stmt: n.Load, mask: np.ndarray) -> None:
    cells, index = run.memory(stmt, "load", mask)
    run.values[stmt.result] = cells.load(index)


@TRANSLATE.row("Store")
def _store(run: LockstepLanes, stmt: n.Store, mask: np.ndarray) -> None:
    cells, index = run.memory(stmt, "store", mask)
    cells.store(index, run.values[stmt.value], mask)


@TRANSLATE.row("Atomic")
def _atomic(run: LockstepLanes, stmt: n.Atomic, mask: np.ndarray) -> None:
    """Run an atomic statement for the lanes of the mask.

    Lanes at one element take turns in lane order, unless the old value is unused and the operation associates.
    """
    new = run.values[stmt.value]
    if stmt.result in run.launch.used or stmt.op in ("exchange", "cas"):
        # An atomic whose old value is used is as exclusive as a store, except within this statement.
        cells, index = run.memory(stmt, "store", mask, once=True)
        _take_turns(run, stmt, cells, index, mask)
        return
    cells, index = run.memory(stmt, stmt.op, mask)
    if stmt.op == "add":
        cells.add(index, new, mask)
        return

    def combine(a: LaneValue, b: LaneValue, lanes: np.ndarray) -> LaneValue:
        return run.apply(stmt.op, (a, b), stmt.value.type, lanes)

    new, first = reduce_queues(new, index, mask, combine)
    cells.store(index, combine(cells.load(index), new, first), first)


def _take_turns(run: LockstepLanes, stmt: n.Atomic, cells: Cells, index: np.ndarray, mask: np.ndarray) -> None:
    new = old = run.values[stmt.value]
    place, _ = ranks(index, mask)
    for turn in range(int(place.max()) + 1):
        lanes = mask & (place == turn)
        seen = cells.load(index)
        made = new if stmt.op in ("exchange", "cas") else run.apply(stmt.op, (seen, new), stmt.value.type, lanes)
        written = lanes
        if stmt.expected is not None:
            x, y = seen.value, run.values[stmt.expected].value
            written = lanes & ((x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y))
        cells.store(index, made, written)
        old = blend(lanes, seen, old)
    run.values[stmt.result] = old


# ---- locals -------------------------------------------------------------------------------------------------


@TRANSLATE.row("Local")
def _local(run: LockstepLanes, stmt: n.Local, mask: np.ndarray) -> None:
    """Declare a local and set it to zero in all lanes, also in idle ones, because these never read the local."""
    run.locals[stmt.var] = run.full(0, stmt.dtype)


@TRANSLATE.row("Get")
def _get(run: LockstepLanes, stmt: n.Get, mask: np.ndarray) -> None:
    run.values[stmt.result] = run.locals[stmt.var]


@TRANSLATE.row("Set")
def _set(run: LockstepLanes, stmt: n.Set, mask: np.ndarray) -> None:
    run.locals[stmt.var] = run.blended(mask, run.values[stmt.value], run.locals[stmt.var])


@TRANSLATE.row("LocalArray")
def _local_array(run: LockstepLanes, stmt: n.LocalArray, mask: np.ndarray) -> None:
    run.arrays[stmt.var] = [run.full(0, stmt.dtype)] * stmt.size


@TRANSLATE.row("GetElement")
def _get_element(run: LockstepLanes, stmt: n.GetElement, mask: np.ndarray) -> None:
    parts = run.arrays[stmt.var]
    index = run.address(stmt, (len(parts),), (stmt.index,), mask)
    first, *others = np.unique(index[mask])
    found = parts[first]
    for i in others:
        found = blend(mask & (index == i), parts[i], found)
    run.values[stmt.result] = found


@TRANSLATE.row("SetElement")
def _set_element(run: LockstepLanes, stmt: n.SetElement, mask: np.ndarray) -> None:
    parts, new = run.arrays[stmt.var], run.values[stmt.value]
    index = run.address(stmt, (len(parts),), (stmt.index,), mask)
    for i in np.unique(index[mask]):
        parts[i] = run.blended(mask & (index == i), new, parts[i])


# ---- control ------------------------------------------------------------------------------------------------


@TRANSLATE.row("If")
def _if(run: LockstepLanes, stmt: n.If, mask: np.ndarray) -> None:
    cond = run.values[stmt.cond].value
    run.block(stmt.then, mask & cond)
    run.block(stmt.orelse, mask & ~cond)


def _loop(run: LockstepLanes, stmt: Any, mask: np.ndarray, enter: Callable[[int, np.ndarray], np.ndarray]) -> None:
    """Run the trips of a loop in lockstep; enter(k, lanes) prepares trip k and returns the lanes that take it."""
    frame = LaneExits.of(run.size)
    run.frames.append(frame)
    trips = np.zeros(run.size, np.int64)
    k = 0
    while (mask := enter(k, mask)).any():
        run.block(stmt.body, mask)
        # Lanes that left this trip early take part in the next one.
        frame.continued[:] = False
        trips += mask
        mask = mask & ~frame.broken
        if stmt.stop is not None:
            mask = mask & ~run.locals[stmt.stop].value
        k += 1
    run.frames.pop()
    if stmt.trips is not None:
        run.values[stmt.trips] = LaneValue(trips.astype(stmt.trips.type.dtype))


@TRANSLATE.row("For")
def _for(run: LockstepLanes, stmt: n.For, mask: np.ndarray) -> None:
    begin, end = (run.values[v].value.astype(np.int64) for v in (stmt.begin, stmt.end))
    count: np.ndarray = np.maximum(0, -((begin - end) // stmt.step))

    def enter(k: int, lanes: np.ndarray) -> np.ndarray:
        place = count - 1 - k if stmt.descending else k
        run.values[stmt.index] = LaneValue((begin + place * stmt.step).astype(stmt.index.type.dtype))
        return lanes & (k < count)

    _loop(run, stmt, mask, enter)


@TRANSLATE.row("While")
def _while(run: LockstepLanes, stmt: n.While, mask: np.ndarray) -> None:
    def enter(k: int, lanes: np.ndarray) -> np.ndarray:
        run.block(stmt.condition, lanes)
        lanes = lanes & ~run.frames[-1].broken
        return lanes & run.values[stmt.test].value if lanes.any() else lanes

    _loop(run, stmt, mask, enter)


@TRANSLATE.row("Scope")
def _scope(run: LockstepLanes, stmt: n.Scope, mask: np.ndarray) -> None:
    run.frames.append(LaneExits.of(run.size))
    run.block(stmt.body, mask)
    run.frames.pop()


@TRANSLATE.row("Break")
def _break(run: LockstepLanes, stmt: n.Break, mask: np.ndarray) -> None:
    for frame in run.frames[-stmt.depth :]:
        frame.broken |= mask


@TRANSLATE.row("Continue")
def _continue(run: LockstepLanes, stmt: n.Continue, mask: np.ndarray) -> None:
    run.frames[-stmt.depth].continued |= mask
    for frame in run.frames[len(run.frames) - stmt.depth + 1 :]:
        frame.broken |= mask


@TRANSLATE.row("Return")
def _return(run: LockstepLanes, stmt: n.Return, mask: np.ndarray) -> None:
    for frame in run.frames:
        frame.broken |= mask


# ---- effects ------------------------------------------------------------------------------------------------


@TRANSLATE.row("Assert")
def _assert(run: LockstepLanes, stmt: n.Assert, mask: np.ndarray) -> None:
    if np.any(mask & ~run.values[stmt.cond].value):
        raise run.trap(KernelAssertionError, stmt, stmt.message)


@TRANSLATE.row("Print")
def _print(run: LockstepLanes, stmt: n.Print, mask: np.ndarray) -> None:
    """Print nothing, because an oracle only computes arrays."""
