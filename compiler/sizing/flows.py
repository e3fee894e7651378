"""What a piece of a task does to an adstack: by how much it grows, how high it gets meanwhile, how far it falls.

one piece after another     net = a.net + b.net      rise = max(a.rise, a.net + b.rise)
a loop whose body pushes    net = rise = sum(i in begin .. end: body.net)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import algebra as a
from . import ranges
from . import spans as s
from .expressions import ZERO, Expr
from .ranges import Bounds
from .spans import NOTHING, UNKNOWN, Span


@dataclass(frozen=True)
class Flow:
    """net: growth, rise: the highest point above the start, at least 0; fall: the lowest below it, at least 0."""

    net: Span = NOTHING
    rise: Span = NOTHING
    fall: Span = NOTHING

    @property
    def only_pushes(self) -> bool:
        return self.net is self.rise and self.fall is NOTHING

    @property
    def only_pops(self) -> bool:
        grows, falls = self.net.exact, self.fall.exact
        return self.rise.exact == ZERO and grows is not None and falls is not None and a.add(grows, falls) == ZERO


STILL = Flow()
ONE = s.number(1)
PUSH = Flow(ONE, ONE)
POP = Flow(s.number(-1), NOTHING, ONE)


def then(x: Flow, y: Flow) -> Flow:
    """One piece after another."""
    if x is STILL or y is STILL:
        return y if x is STILL else x
    net = s.add(x.net, y.net)
    if x.only_pushes and y.only_pushes:
        return Flow(net, net)
    rise = s.maximum(x.rise, s.add(x.net, y.rise))
    fall = s.maximum(x.fall, s.sub(y.fall, x.net))
    return Flow(net, rise, fall)


def either(condition: Span, x: Flow, y: Flow) -> Flow:
    """One of two pieces."""
    net = s.choose(condition, x.net, y.net)
    if x.only_pushes and y is STILL or y.only_pushes and x is STILL or x.only_pushes and y.only_pushes:
        return Flow(net, net)
    return Flow(net, s.choose(condition, x.rise, y.rise), s.choose(condition, x.fall, y.fall))


@dataclass(frozen=True)
class Loop:
    """A loop: its index (None if its range is not known), its range, its length; whether it may end early."""

    number: int | None
    begin: Span
    end: Span
    length: Span
    early: bool
    around: Bounds

    def over(self, make: Callable[[int, Expr, Expr, Expr, Bounds], Expr], x: Span) -> Span:
        """The sum or largest value of x over the loop, of which x is at least 0."""
        checks = x.checks | self.length.checks
        if self.number is None:
            return self._at_most(make, x)
        begin, end = self.begin.exact, self.end.exact
        assert begin is not None and end is not None
        ends = [None if e is None else make(self.number, begin, end, e, self.around) for e in (x.low, x.high)]
        if x.exact is not None and not self.early:
            assert ends[0] is not None
            return s.exactly(ends[0], checks)
        return Span(ZERO if self.early else ends[0], ends[1], checks)

    def _at_most(self, make: Callable[[int, Expr, Expr, Expr, Bounds], Expr], x: Span) -> Span:
        """Where the range is not known, its length may be at most something."""
        if x.exact == ZERO:
            return x
        if make is ranges.largest:
            return Span(ZERO, x.high, x.checks | self.length.checks)
        product = s.mul(Span(ZERO, self.length.high), Span(ZERO, x.high)) if x.high is not None else UNKNOWN
        return Span(ZERO, product.high, x.checks | self.length.checks)


def repeat(loop: Loop, body: Flow) -> Flow:
    """A loop over a piece."""
    if body is STILL:
        return STILL
    if body.only_pushes:
        net = loop.over(ranges.total, body.net)
        return Flow(net, net)
    if body.only_pops:
        fallen = loop.over(ranges.total, s.sub(NOTHING, body.net))
        return Flow(s.sub(NOTHING, fallen), NOTHING, fallen)
    if body.net.exact == ZERO:
        return Flow(NOTHING, loop.over(ranges.largest, body.rise), loop.over(ranges.largest, body.fall))
    return Flow(UNKNOWN, UNKNOWN, UNKNOWN)


def peak(flow: Flow) -> Span:
    """How high a stack gets that is empty at first. What pops an empty stack leaves it empty, so that nothing is known
    of what follows unless no pop can meet one.
    """
    fallen = flow.fall.high
    sound = fallen is not None and (fallen == ZERO or fallen.high <= 0)
    return flow.rise if sound else Span(ZERO, None)


def highest(x: Span, y: Span) -> Span:
    """The larger of two peaks."""
    return s.apply((x, y), a.maximum, True, True)
