"""This module bounds index expressions over all iterations by affine forms in values that are fixed in a launch.

A range holds the values that an expression takes over all trips of the loops around it. It is not empty, because a loop
without trips executes no access.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.affine import Affine, IndexForms, add, subtract
from ..analysis.intervals import Interval, index_interval
from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.statement import Stmt, Value
from .structure import inner_blocks

ONE = Affine(1)


class Ranges:
    """Compute the least and the greatest value of index expressions in one task.

    Attributes:
        known: For the index of each loop, its least and its greatest value, as affine forms in arguments and shapes.
    """

    def __init__(self, task: Task, forms: IndexForms) -> None:
        self.known: dict[Value, Interval[Affine]] = {}
        for index, begin, end in zip(task.indices, task.begin, task.end):
            self._enter(index, forms.form(begin), forms.form(end), 1)
        for stmt in _loops(task.body):
            self._enter(stmt.index, forms.form(stmt.begin), forms.form(stmt.end), stmt.step)

    def _enter(self, index: Value, begin: Affine, end: Affine, step: int) -> None:
        """Record the range of a loop's index, if the ranges of the loop's bounds are known."""
        first, end_range = self.of(begin), self.of(end)
        if first and end_range:
            self.known[index] = index_interval(first, end_range, step, lambda form, by: add(form, ONE, by))

    def of(self, form: Affine) -> Interval[Affine] | None:
        """Return an interval that contains all values of an affine form in this task.

        The result is None if a symbol of the form is neither fixed by the launch nor has a known range.
        """
        low = high = Affine(form.constant)
        for symbol, c in form.terms:
            alone = Affine(0, ((symbol, 1),))
            ends = self.known.get(symbol) if isinstance(symbol, Value) else Interval(alone, alone)
            if ends is None:
                return None
            # A negative coefficient turns the least value of a symbol into the greatest value of the form.
            low = add(low, ends[c < 0], c)
            high = add(high, ends[c > 0], c)
        return Interval(low, high)

    def spans(self, form: Affine) -> list[Affine]:
        """Return, for each loop index in an affine form, the difference of its greatest and its least value.

        No difference is negative, because a loop around an access that runs has at least one trip.
        """
        inside = (self.known.get(s) for s in form.symbols() if isinstance(s, Value))
        return [subtract(ends.high, ends.low) for ends in inside if ends]


def ranges_apart(p: Affine, of_p: Ranges, q: Affine, of_q: Ranges) -> bool:
    """Return True if the ranges of two affine forms, p and q, surely do not overlap.

    Args:
        p: An index of one access.
        of_p: The ranges in the task of that access.
        q: The index of another access along the same axis.
        of_q: The ranges in the task of the other access.
    """
    range_p, range_q = of_p.of(p), of_q.of(q)
    if range_p is None or range_q is None:
        return False
    spans = [*of_p.spans(p), *of_q.spans(q)]
    gaps = subtract(range_q.low, range_p.high), subtract(range_p.low, range_q.high)
    return any(_positive(gap, spans) for gap in gaps)


def _positive(gap: Affine, spans: list[Affine]) -> bool:
    """Return True if an affine gap is proved to be positive, alone or after subtracting a multiple of a span.

    That is, gap > 0, or gap - k * span > 0 for some k > 0 and one of the spans, which are not negative.
    """
    if not gap.terms:
        return gap.constant > 0
    factors = [gap.coefficient(s.terms[0][0]) // s.terms[0][1] for s in spans if s.terms]
    rests = [add(gap, s, -k) for s, k in zip((s for s in spans if s.terms), factors) if k > 0]
    return any(not rest.terms and rest.constant > 0 for rest in rests)


def _loops(block: tuple[Stmt, ...]) -> Iterator[n.For]:
    """Yield all serial loops with an index in a block, at any depth."""
    for stmt in block:
        if isinstance(stmt, n.For):
            yield stmt
        for _, inner in inner_blocks(stmt):
            yield from _loops(inner)
