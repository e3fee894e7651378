"""Emit the two sweeps of a loop with checkpoints; `segments` finds such loops and draws the sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.roles import LOCAL_DECLARATIONS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import i64
from ..ir.walk import rename_block, walk
from .copier import Copier
from .segments import SegmentedLoop
from .structure import BlockPath

if TYPE_CHECKING:
    from .forward import ForwardSweep
    from .reverse import TaskReverser


class SegmentCounts(NamedTuple):
    """Represent the values at the root of a task that place the segments of a loop.

    Attributes:
        first: The index of the first trip.
        trips: The number of trips, of type i64.
        segments: The number of segments, of type i64.
    """

    first: Value
    trips: Value
    segments: Value


def state_stack(prefix: str, path: BlockPath, var: str) -> str:
    """Return the name of the adstack for the states of a local at the beginnings of the segments of a loop."""
    return f"{state_stacks(prefix)}{path[0][0]}.{var}"


def state_stacks(prefix: str) -> str:
    """Return the text that the names of all adstacks of states begin with."""
    return f"{prefix}.checkpoint"


def forward_segments(sweep: ForwardSweep, loop: n.For, path: BlockPath) -> Block:
    """Return the first sweep of a loop with checkpoints: it pushes the state of each segment, and nothing else.

    Args:
        sweep: The forward sweep of the task.
        loop: The loop.
        path: The body of the loop.
    """
    b, segmented = sweep.b, sweep.segments[path]
    b.loc = loop.loc
    with b.block() as out:
        counts = sweep.counts[path] = _counts(b, loop, segmented.length)
        with b.block() as trip:
            number = b.fresh(i64)
            for var, dtype in segmented.state.items():
                b.emit(n.StackPush(state_stack(sweep.prefix, path, var), b.get(var, dtype), loc=loop.loc))
            begin, many = _segment(b, loop, counts, segmented, number)
            with b.block() as body:
                index, copier = b.fresh(begin.type), _copier(sweep, loop)
                copier.names[loop.index] = _index(b, loop, begin, index)
                copier.next_id = b.next_id
                for stmt in copier.block(loop.body):
                    b.emit(stmt)
                b.next_id = copier.next_id
            _loop(b, index, many, body)
        _loop(b, number, counts.segments, trip)
    return tuple(out)


def _copier(sweep: ForwardSweep, loop: n.For) -> Copier:
    """Return a copier for the body of a loop, by which locals outside of the loop keep their names."""
    inside = {s.var for s in walk(loop.body) if isinstance(s, LOCAL_DECLARATIONS)}
    return Copier(sweep.b.next_id, sweep.copies, sweep.at_risk, f"{sweep.prefix}.first.", inside)


def reverse_segments(r: TaskReverser, loop: n.For, path: BlockPath) -> None:
    """Emit the second sweep of a loop with checkpoints: forward and reverse of each segment, last to first."""
    b, segmented, counts = r.b, r.sweep.segments[path], r.sweep.counts[path]
    number = b.fresh(i64)
    with b.block() as trip:
        for var, dtype in segmented.state.items():
            stack = state_stack(r.prefix, path, var)
            b.set(var, b.top(stack, dtype))
            b.pop(stack)
        for value, place in r.plan.saved.items():
            if place[:1] == path:
                r.declare_stack(value)
        b.loc = loop.loc
        begin, many = _segment(b, loop, counts, segmented, number)
        again = b.fresh(begin.type)
        with b.block() as forward:
            index = _index(b, loop, begin, again)
            for stmt in rename_block(r.sweep.block(loop.body, path), {loop.index: index}):
                b.emit(stmt)
        b.loc = loop.loc
        _loop(b, again, many, forward)
        back = b.fresh(begin.type)
        with b.block() as reverse:
            r.reverse_block(path, loop.body, {loop.index: _index(b, loop, begin, back)})
        b.loc = loop.loc
        _loop(b, back, many, reverse, descending=True)
    _loop(b, number, counts.segments, trip, descending=True)


# ---- places of segments ---------------------------------------------------------------------------------------------


def _counts(b: Builder, loop: n.For, length: int) -> SegmentCounts:
    """Emit the number of trips and of segments of a loop, and the index of its first trip."""
    # The span of a loop may need more bits than its index.
    begin, end = b.cast(loop.begin, i64), b.cast(loop.end, i64)
    zero, distance = b.const(0, i64), b.const(abs(loop.step), i64)
    span = b.op("sub", end, begin) if loop.step > 0 else b.op("sub", begin, end)
    trips = b.op("max", zero, _divided(b, span, distance))
    segments = _divided(b, trips, b.const(length, i64))
    first = loop.begin
    if loop.descending:
        last = b.op("mul", b.op("sub", trips, b.const(1, i64)), b.const(loop.step, i64))
        first = b.op("add", first, b.cast(last, first.type))
    return SegmentCounts(first, trips, segments)


def _divided(b: Builder, count: Value, by: Value) -> Value:
    """Return count / by, rounded up."""
    more = b.op("sub", by, b.const(1, i64))
    return b.op("floordiv", b.op("add", count, more), by)


def _segment(
    b: Builder, loop: n.For, counts: SegmentCounts, segmented: SegmentedLoop, number: Value
) -> tuple[Value, Value]:
    """Emit the index at which a segment begins, and its number of trips; return both, in the type of the index."""
    length, dtype = b.const(segmented.length, i64), loop.index.type
    before = b.op("mul", number, length)
    many = b.op("min", length, b.op("sub", counts.trips, before))
    moved = b.op("mul", b.cast(before, dtype), b.const(_stride(loop), dtype))
    return b.op("add", counts.first, moved), b.cast(many, dtype)


def _index(b: Builder, loop: n.For, begin: Value, trip: Value) -> Value:
    """Emit the index of a trip of a segment, which wraps around as the index of the loop does."""
    moved = trip if _stride(loop) == 1 else b.op("mul", trip, b.const(_stride(loop), trip.type))
    return b.op("add", begin, moved)


def _stride(loop: n.For) -> int:
    """Return the distance of the indices of a trip and the next one."""
    return -loop.step if loop.descending else loop.step


def _loop(b: Builder, index: Value, many: Value, body: list[Stmt], descending: bool = False) -> None:
    """Emit a loop over 0 .. many in front of which its begin is computed."""
    begin = b.const(0, index.type)
    b.emit(n.For(index, begin, many, tuple(body), descending=descending, loc=b.loc))
