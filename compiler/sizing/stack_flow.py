"""This module describes how a piece of code changes an adstack's height: total change, highest and lowest height.

    one piece after another     net = a.net + b.net      rise = max(a.rise, a.net + b.rise)
    a loop whose body pushes    net = rise = sum(i in begin .. end: body.net)

Heights are counted from the start of the piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import algebra as a
from . import ranges
from . import symbolic_intervals as s
from .expressions import ZERO, SizeExpr
from .ranges import Bounds
from .symbolic_intervals import NOTHING, UNKNOWN, SymbolicInterval


@dataclass(frozen=True)
class StackFlow:
    """Represent how a piece of a task changes the height of one adstack: total change, highest and lowest height.

    Attributes:
        net: The growth from the start to the end.
        rise: The highest point above the start, at least 0.
        fall: The lowest point below the start, at least 0.
    """

    net: SymbolicInterval = NOTHING
    rise: SymbolicInterval = NOTHING
    fall: SymbolicInterval = NOTHING

    @property
    def only_pushes(self) -> bool:
        """Return True if the piece of code never pops a value from the adstack."""
        return self.net is self.rise and self.fall is NOTHING

    @property
    def only_pops(self) -> bool:
        """Return True if the piece of code never pushes a value to the adstack."""
        grows, falls = self.net.exact, self.fall.exact
        return self.rise.exact == ZERO and grows is not None and falls is not None and a.add(grows, falls) == ZERO


STILL = StackFlow()
ONE = s.constant_interval(1)
PUSH = StackFlow(ONE, ONE)
POP = StackFlow(s.constant_interval(-1), NOTHING, ONE)


def sequential_flow(x: StackFlow, y: StackFlow) -> StackFlow:
    """Return the change of an adstack's height by two pieces of code that run one after the other."""
    if x is STILL or y is STILL:
        return y if x is STILL else x
    net = s.add(x.net, y.net)
    if x.only_pushes and y.only_pushes:
        return StackFlow(net, net)
    rise = s.maximum(x.rise, s.add(x.net, y.rise))
    fall = s.maximum(x.fall, s.sub(y.fall, x.net))
    return StackFlow(net, rise, fall)


def branching_flow(condition: SymbolicInterval, x: StackFlow, y: StackFlow) -> StackFlow:
    """Return the change of an adstack's height by a branch: x if the condition is true, and y if it is false."""
    net = s.select_interval(condition, x.net, y.net)
    if x.only_pushes and y is STILL or y.only_pushes and x is STILL or x.only_pushes and y.only_pushes:
        return StackFlow(net, net)
    return StackFlow(net, s.select_interval(condition, x.rise, y.rise), s.select_interval(condition, x.fall, y.fall))


@dataclass(frozen=True)
class LoopRange:
    """A `LoopRange` is the range of a loop's index, with its length and the ranges of the enclosing loops.

    Attributes:
        number: Number of the index; None if the range is not known.
        begin: First index.
        end: The index after the last one.
        length: Number of trips.
        early: True if the loop may end early.
        around: Begin and end of the loops around, by number of their index.
    """

    number: int | None
    begin: SymbolicInterval
    end: SymbolicInterval
    length: SymbolicInterval
    early: bool
    around: Bounds

    def over(
        self, make: Callable[[int, SizeExpr, SizeExpr, SizeExpr, Bounds], SizeExpr], x: SymbolicInterval
    ) -> SymbolicInterval:
        """Return the sum or maximum (`make` says which) of a value x, at least 0, over the trips of the loop.

        Args:
            make: `ranges.range_sum` or `ranges.range_maximum`.
            x: The value in one trip.
        """
        checks = x.checks | self.length.checks
        if self.number is None:
            return self._at_most(make, x)
        begin, end = self.begin.exact, self.end.exact
        assert begin is not None and end is not None
        ends = [None if e is None else make(self.number, begin, end, e, self.around) for e in (x.low, x.high)]
        if x.exact is not None and not self.early:
            assert ends[0] is not None
            return s.exact_interval(ends[0], checks)
        return SymbolicInterval(ZERO if self.early else ends[0], ends[1], checks)

    def _at_most(
        self, make: Callable[[int, SizeExpr, SizeExpr, SizeExpr, Bounds], SizeExpr], x: SymbolicInterval
    ) -> SymbolicInterval:
        """Return an upper bound of the sum or maximum over a loop whose range is unknown."""
        if x.exact == ZERO:
            return x
        if make is ranges.range_maximum:
            return SymbolicInterval(ZERO, x.high, x.checks | self.length.checks)
        product = (
            s.mul(SymbolicInterval(ZERO, self.length.high), SymbolicInterval(ZERO, x.high))
            if x.high is not None
            else UNKNOWN
        )
        return SymbolicInterval(ZERO, product.high, x.checks | self.length.checks)


def loop_flow(loop: LoopRange, body: StackFlow) -> StackFlow:
    """Return the change of an adstack's height by a loop, given the change by one trip of its body."""
    if body is STILL:
        return STILL
    if body.only_pushes:
        net = loop.over(ranges.range_sum, body.net)
        return StackFlow(net, net)
    if body.only_pops:
        fallen = loop.over(ranges.range_sum, s.sub(NOTHING, body.net))
        return StackFlow(s.sub(NOTHING, fallen), NOTHING, fallen)
    if body.net.exact == ZERO:
        return StackFlow(
            NOTHING, loop.over(ranges.range_maximum, body.rise), loop.over(ranges.range_maximum, body.fall)
        )
    # A body that pushes and pops and leaves another height needs more than a sum, so nothing is known.
    return StackFlow(UNKNOWN, UNKNOWN, UNKNOWN)


def peak(flow: StackFlow) -> SymbolicInterval:
    """Return the greatest height that an initially empty adstack reaches in a piece of code.

    A pop of an empty adstack leaves it empty, which flows do not describe. So if a pop may meet an empty adstack, the
    result is unknown.
    """
    fallen = flow.fall.high
    sound = fallen is not None and (fallen == ZERO or fallen.high <= 0)
    return flow.rise if sound else SymbolicInterval(ZERO, None)


def higher_peak(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of the larger of two peak heights of an adstack."""
    return s.apply_operation((x, y), a.maximum, True, True)
