"""This module contains linear inequalities over index expressions, and a prover that combines them.

A fact is an affine form (see affine.py) that is at least zero whenever control reaches the place of the fact:

    for i in 1 .. shape(x, 0):   i - 1 >= 0    shape(x, 0) - 1 - i >= 0

`FactSet.holds(goal)` tries to write the goal as a sum of facts and of forms that are never negative. The prover is
sound but incomplete: a goal that it does not prove may still hold.
"""

from __future__ import annotations

from collections.abc import Callable

from .affine import Affine, Symbol, add
from .intervals import Interval, Number, NumberInterval, greatest_sum, least_sum

DEPTH = 5
"""This limit bounds the number of facts that a proof combines."""

EFFORT = 60
"""This limit bounds the number of sums that the search for one proof tries."""

RESIDUALS = 4
"""This limit bounds the number of conditions on arguments and extents that are kept as alternatives."""

FAR = 2**62
"""This limit bounds conditions on arguments and extents in magnitude, so that a launch can compute them in 64 bits."""

EXTENT: NumberInterval = Interval(0, 2**31 - 1)
"""Interval of an extent that i32 holds: a kernel that reads an extent as i32 is not launched on a longer array."""

WIDE_EXTENT: NumberInterval = Interval(0, 2**62)
"""Interval of an extent that is read as i64."""


class FactSet:
    """Hold the inequalities that are true at the current statement; `forget` drops those that were added in a block.

    Args:
        ranges: function that returns the interval of a symbol.
        alternatives: function that returns the forms of which a symbol is one (for the result of `select`, `min`,
            `max`), or () for any other symbol.
    """

    def __init__(
        self, ranges: Callable[[Symbol], NumberInterval], alternatives: Callable[[Symbol], tuple[Affine, ...]]
    ) -> None:
        self._ranges, self._alternatives = ranges, alternatives
        self._facts: list[Affine] = []
        self._about: dict[Symbol, list[int]] = {}
        self._effort = 0
        self._residuals: list[Affine] | None = None

    def mark(self) -> int:
        """Return the number of facts known now, to be passed to `forget` later."""
        return len(self._facts)

    def forget(self, mark: int) -> None:
        """Drop the facts that were added after `mark`."""
        while len(self._facts) > mark:
            for symbol, _ in self._facts.pop().terms:
                self._about[symbol].pop()

    def learn(self, fact: Affine) -> None:
        """Record that an affine form is at least zero at the current statement."""
        for symbol, _ in fact.terms:
            self._about.setdefault(symbol, []).append(len(self._facts))
        self._facts.append(fact)

    def least(self, form: Affine) -> Number:
        """Return a lower bound of an affine form, computed from the intervals of its symbols alone."""
        return least_sum(form.constant, [(self._ranges(s), c) for s, c in form.terms])

    def most(self, form: Affine) -> Number:
        """Return an upper bound of an affine form, computed from the intervals of its symbols alone."""
        return greatest_sum(form.constant, [(self._ranges(s), c) for s, c in form.terms])

    def holds(self, goal: Affine) -> bool:
        """Return True if the affine form is proved to be at least zero at the current statement."""
        self._effort = EFFORT
        return self._prove(goal, DEPTH)

    def residuals(self, goal: Affine) -> tuple[Affine, ...]:
        """Return affine forms over arguments and extents alone, which a launch can evaluate to prove the goal.

        If one of them is at least zero, then `goal` is at least zero.
        """
        self._effort, self._residuals = EFFORT, []
        self._prove(goal, DEPTH)
        found, self._residuals = self._residuals, None
        return tuple(dict.fromkeys(found))[:RESIDUALS]

    def _prove(self, goal: Affine, depth: int) -> bool:
        if self.least(goal) >= 0:
            return True
        # A goal over arguments and extents alone is a condition that a launch can evaluate.
        if self._residuals is not None and self.most(goal) >= 0 and all(isinstance(s, tuple) for s, _ in goal.terms):
            if self.least(goal) > -FAR and self.most(goal) < FAR:
                self._residuals.append(goal)
            return False
        self._effort -= 1
        if depth == 0 or self._effort < 0:
            return False
        return any(self._eliminate(goal, symbol, c, depth) for symbol, c in goal.terms)

    def _eliminate(self, goal: Affine, symbol: Symbol, c: int, depth: int) -> bool:
        """Return True if `goal` is proved by replacing a symbol, of coefficient `c`, with one of its bounds."""
        # Recent facts come from the innermost loops and conditions, so they are tried first.
        for at in reversed(self._about.get(symbol, ())):
            # A positive multiple of the fact is subtracted from the goal so that the symbol cancels.
            times, rest = divmod(c, self._facts[at].coefficient(symbol))
            if rest == 0 and times > 0 and self._prove(add(goal, self._facts[at], -times), depth - 1):
                return True
        forms = () if self._residuals is not None else self._alternatives(symbol)
        without = Affine(goal.constant, tuple(t for t in goal.terms if t[0] != symbol))
        # The symbol is one of these forms, but it is not known which, so the goal must hold for each of them.
        return bool(forms) and all(self._prove(add(without, form, c), depth - 1) for form in forms)
