"""Execute branches and loops for many lanes: all lanes of a loop run in lockstep until the last one leaves it."""

from __future__ import annotations

import numpy as np

from ..compiler.ir import nodes as n
from ..compiler.ir.statement import Value
from .frame import LaneFrame, LaneVector, merge, number
from .machine import RUN, ExitTarget, Machine


@RUN.row(n.If)
def _if(m: Machine, s: n.If, f: LaneFrame) -> LaneFrame | None:
    """Run each branch in the lanes that take it, and return the frame of the lanes that reach the end of a branch."""
    cond = f.value(s.cond)
    taken = int(np.count_nonzero(cond)) if cond.ndim else f.count * bool(cond)
    if taken in (0, f.count):
        return m.run(s.then if taken else s.orelse, f)
    ends, whole = [], True
    for block, picks in ((s.then, np.flatnonzero(cond)), (s.orelse, np.flatnonzero(np.logical_not(cond)))):
        part = f.narrow(picks)
        end = m.run(block, part)
        whole = whole and end is part
        ends.append(end)
    # If both branches end with all their lanes, the frame itself goes on.
    return f if whole else f.keep(merge([e.numbers() for e in ends if e is not None]))


@RUN.row(n.Break)
def _break(m: Machine, s: n.Break, f: LaneFrame) -> None:
    """Record that the lanes of the frame leave a loop or scope, and return None, as no lane goes on."""
    m.chunk.targets[-s.depth].broken.append(f.numbers())


@RUN.row(n.Continue)
def _continue(m: Machine, s: n.Continue, f: LaneFrame) -> None:
    """Record that the lanes of the frame skip the rest of this trip, and return None, as no lane goes on."""
    m.chunk.targets[-s.depth].continued.append(f.numbers())


@RUN.row(n.Return)
def _return(m: Machine, s: n.Return, f: LaneFrame) -> None:
    """Record that the lanes of the frame have returned from the kernel, and return None, as no lane goes on."""
    m.chunk.returned = True


@RUN.row(n.Scope)
def _scope(m: Machine, s: n.Scope, f: LaneFrame) -> LaneFrame | None:
    """Run the body of a scope, and return the frame of the lanes that reach its end or break out of it."""
    target = ExitTarget()
    m.chunk.targets.append(target)
    end = m.run(s.body, f)
    m.chunk.targets.pop()
    if end is f:
        return f
    return f.keep(merge([*([] if end is None else [end.numbers()]), *target.broken]))


class _RunningLoop:
    """Track the lanes of a loop while the interpreter executes it: running, left, or waiting for the next trip.

    Lanes that leave by the condition, by `until` or by a break are recorded, and go on after the loop; lanes that
    return or that leave an outer loop are not. Every `running` frame but the first has `entry` as its parent.

    Attributes:
        m: state of the interpreter
        entry: frame of the lanes that entered the loop
        running: frame of the lanes that are in the current trip, or None
        rounds: number of trips started so far, the same for all running lanes
        stop: name of the local that ends the loop if it is true, or None
        trips: IR value that becomes the number of trips, or None
        target: lanes that executed `break`, or that wait for the next trip
    """

    def __init__(self, m: Machine, entry: LaneFrame, stop: str | None, trips: Value | None) -> None:
        self.m = m
        self.entry = entry
        self.running: LaneFrame | None = entry
        self.rounds = 0
        self.stop = stop
        self.trips = trips
        self.target = ExitTarget()
        self._exits: list[tuple[LaneVector, int]] = []
        m.chunk.targets.append(self.target)

    def leave(self, frame: LaneFrame, gone: LaneVector) -> LaneFrame | None:
        """Remove the lanes where `gone` is true from the loop, and return the frame of the remaining lanes."""
        leaving = int(np.count_nonzero(gone)) if gone.ndim else frame.count * bool(gone)
        if leaving == 0:
            return frame
        lanes = frame.numbers()
        if leaving == frame.count:
            self._exits.append((lanes, self.rounds))
            return None
        self._exits.append((lanes[gone], self.rounds))
        return frame.narrow(np.flatnonzero(np.logical_not(gone)))

    def collect(self) -> None:
        """Record the lanes that executed `break` among those that left the loop, with the number of trips so far."""
        self._exits += [(lanes, self.rounds) for lanes in self.target.broken]
        self.target.broken.clear()

    def settle(self, end: LaneFrame | None) -> None:
        """Set the lanes that make another trip: those of `end`, and those that executed `continue`."""
        self.collect()
        if end is not self.running or self.target.continued:
            rest = merge([*([] if end is None else [end.numbers()]), *self.target.continued])
            self.running = self.entry.keep(rest)
            self.target.continued.clear()

    def test_stop(self) -> None:
        """Remove the lanes whose `until` local, the stop flag of the loop, is true."""
        if self.stop is not None and self.running is not None:
            self.drop(self.m.chunk.locals[self.stop].get(self.running))

    def drop(self, gone: LaneVector) -> None:
        """Remove the running lanes where `gone` is true from the loop."""
        if self.running is not None:
            rest = self.leave(self.running, gone)
            if rest is not self.running:
                self.running = None if rest is None else self.entry.keep(rest.numbers())

    def finish(self) -> LaneFrame | None:
        """Set the trip counts of the lanes that left the loop, and return the frame of those that go on after it."""
        self.m.chunk.targets.pop()
        if not self._exits:
            return None
        out = self.entry.keep(merge([lanes for lanes, _ in self._exits]))
        if out is not None and self.trips is not None:
            out.values[self.trips.id] = self._counts().astype(self.trips.type.dtype)
        return out

    def _counts(self) -> LaneVector:
        """Return the number of trips that each lane made, in ascending order of lanes."""
        if len(self._exits) == 1:
            return number(self._exits[0][1])
        lanes = np.concatenate([lanes for lanes, _ in self._exits])
        rounds = np.repeat([r for _, r in self._exits], [lanes.size for lanes, _ in self._exits])
        counts: LaneVector = rounds[np.argsort(lanes, kind="stable")]
        return counts


def trip_count(begin: LaneVector, end: LaneVector, step: int) -> LaneVector:
    """Return the trip count of a range in each lane, max(0, ceil((end - begin)/step)), as i64."""
    span = (end.astype(np.int64) - begin.astype(np.int64)) * np.int64(1 if step > 0 else -1)
    return np.where(span > 0, (span - 1) // np.int64(abs(step)) + 1, np.int64(0))[()]


@RUN.row(n.For)
def _for(m: Machine, s: n.For, f: LaneFrame) -> LaneFrame | None:
    """Run a `for` loop in the lanes of the frame, and return the frame of the lanes that continue after it."""
    begin, step = f.value(s.begin), number(s.step)
    count = trip_count(begin, f.value(s.end), s.step)
    first: LaneVector = begin.astype(np.int64)
    if s.descending:
        first, step = first + (count - 1) * step, -step
    loop, dtype = _RunningLoop(m, f, s.stop, s.trips), s.index.type.dtype
    while loop.running is not None:
        now = loop.running
        # Lanes whose trips are used up leave before the next body.
        loop.drop((now.gather(count) if now is not f else count) <= loop.rounds)
        now = loop.running
        if now is None:
            break
        index = (now.gather(first) if now is not f else first) + loop.rounds * step
        now.values[s.index.id] = index.astype(dtype)
        loop.rounds += 1
        m.burn((s,))
        loop.settle(m.run(s.body, now))
        loop.test_stop()
    return loop.finish()


@RUN.row(n.While)
def _while(m: Machine, s: n.While, f: LaneFrame) -> LaneFrame | None:
    """Run a `while` loop in the lanes of the frame, and return the frame of the lanes that continue after it."""
    loop = _RunningLoop(m, f, s.stop, s.trips)
    while loop.running is not None:
        m.burn((s,))
        tested = m.run(s.condition, loop.running)
        loop.collect()
        inside = None if tested is None else loop.leave(tested, np.logical_not(tested.value(s.test)))
        loop.rounds += 1
        loop.settle(m.run(s.body, inside))
        loop.test_stop()
    return loop.finish()
