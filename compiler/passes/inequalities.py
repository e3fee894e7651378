"""Linear inequalities over index expressions, and a prover that combines them.

A fact is an affine form (see affine.py) that is at least zero whenever control reaches the place where it is known:

    for i in 1 .. shape(x, 0):   i - 1 >= 0    shape(x, 0) - 1 - i >= 0

`Facts.holds(goal)` tries to write the goal as a sum of facts and of forms that are never negative. It is sound and
incomplete: a goal that it does not prove may hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.nodes import Value
from .affine import Affine, Symbol, add

DEPTH = 5
"""Most facts that a proof combines."""

EFFORT = 60
"""Most sums that the search for one proof tries."""

RESIDUALS = 4
"""Most conditions on arguments and extents that are kept as alternatives."""

FAR = 2**62
"""Magnitude below which a launch computes such a condition in 64 bits."""

Range = tuple[float, float]
"""Least and largest value of a symbol; either end may be infinite."""

EXTENT: Range = (0, 2**31 - 1)
"""Range of an extent that i32 holds: a kernel that reads it so is not launched on a longer array."""

WIDE_EXTENT: Range = (0, 2**62)
"""Range of an extent that is read as i64."""


class Facts:
    """Facts that hold at the present place. `mark` and `forget` bracket what holds in a block alone.

    ranges: gives the least and largest value of a symbol. alternatives: gives, of a symbol that is one of several
    forms (the result of `select`, `min`, `max`), those forms; () for any other symbol.
    """

    def __init__(self, ranges: Callable[[Symbol], Range], alternatives: Callable[[Symbol], tuple[Affine, ...]]) -> None:
        self._ranges, self._alternatives = ranges, alternatives
        self._facts: list[Affine] = []
        self._about: dict[Symbol, list[int]] = {}
        self._effort = 0
        self._residuals: list[Affine] | None = None

    def mark(self) -> int:
        """The number of facts known now."""
        return len(self._facts)

    def forget(self, mark: int) -> None:
        """Drop the facts that were learned after `mark`."""
        while len(self._facts) > mark:
            for symbol, _ in self._facts.pop().terms:
                self._about[symbol].pop()

    def learn(self, fact: Affine) -> None:
        """Add a form that is at least zero here."""
        for symbol, _ in fact.terms:
            self._about.setdefault(symbol, []).append(len(self._facts))
        self._facts.append(fact)

    def least(self, form: Affine) -> float:
        """A lower bound of a form, from the ranges of its symbols alone."""
        return form.constant + sum(_least_term(c, self._ranges(s)) for s, c in form.terms)

    def most(self, form: Affine) -> float:
        """An upper bound of a form, from the ranges of its symbols alone."""
        return -self.least(add(Affine(0), form, -1))

    def holds(self, goal: Affine) -> bool:
        """Whether the form is surely at least zero here."""
        self._effort = EFFORT
        return self._prove(goal, DEPTH)

    def residuals(self, goal: Affine) -> tuple[Affine, ...]:
        """Forms over arguments and extents alone, each of which implies the goal where it is at least zero."""
        self._effort, self._residuals = EFFORT, []
        self._prove(goal, DEPTH)
        found, self._residuals = self._residuals, None
        return tuple(dict.fromkeys(found))[:RESIDUALS]

    def _prove(self, goal: Affine, depth: int) -> bool:
        if self.least(goal) >= 0:
            return True
        if self._residuals is not None and self.most(goal) >= 0 and all(isinstance(s, tuple) for s, _ in goal.terms):
            if self.least(goal) > -FAR and self.most(goal) < FAR:
                self._residuals.append(goal)
            return False
        self._effort -= 1
        if depth == 0 or self._effort < 0:
            return False
        return any(self._eliminate(goal, symbol, c, depth) for symbol, c in goal.terms)

    def _eliminate(self, goal: Affine, symbol: Symbol, c: int, depth: int) -> bool:
        """Whether the goal follows once this symbol is replaced by a bound of it."""
        for at in reversed(self._about.get(symbol, ())):
            times, rest = divmod(c, self._facts[at].coefficient(symbol))
            if rest == 0 and times > 0 and self._prove(add(goal, self._facts[at], -times), depth - 1):
                return True
        forms = () if self._residuals is not None else self._alternatives(symbol)
        without = Affine(goal.constant, tuple(t for t in goal.terms if t[0] != symbol))
        return bool(forms) and all(self._prove(add(without, form, c), depth - 1) for form in forms)


def _least_term(c: int, values: Range) -> float:
    low, high = values
    return c * low if c > 0 else c * high


def range_of_type(value: Value) -> Range:
    """Range of a value of which its type alone is known."""
    t = value.type
    if not t.is_int:
        return (0, 1) if t.is_bool else (-math.inf, math.inf)
    return (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1) if t.is_signed else (0, 2**t.bits - 1)
