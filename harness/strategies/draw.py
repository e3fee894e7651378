"""Where choices come from: one small protocol, so that one generator serves fast seeded sampling and Hypothesis.

Invariant: the first item of a list and the lowest integer are the simplest, and a boolean is simplest false; what
shrinks does so towards them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Draw(Protocol):
    """A source of choices."""

    def integer(self, low: int, high: int) -> int:
        """A number of the closed interval."""

    def choice(self, items: Sequence[T]) -> T:
        """One of the items; an item that stands twice comes twice as often."""

    def boolean(self, probability: float = 0.5) -> bool:
        """True with about this probability."""


class RandomDraw:
    """Choices of a seeded generator: fast, and the same for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """A number of the closed interval, all alike."""
        return low + int(self._random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self._random() * len(items))]

    def boolean(self, probability: float = 0.5) -> bool:
        """True with this probability."""
        return self._random() < probability


class HypothesisDraw:
    """Choices that Hypothesis makes, records and shrinks. draw: what `composite` hands to its function."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw = draw
        self._integers = strategies.integers

    def integer(self, low: int, high: int) -> int:
        """A number of the closed interval; shrinks to the lowest."""
        return low if low == high else int(self._draw(self._integers(low, high)))

    def choice(self, items: Sequence[T]) -> T:
        """One of the items; shrinks to the first."""
        return items[self.integer(0, len(items) - 1)]

    def boolean(self, probability: float = 0.5) -> bool:
        """True with about this probability, to a hundredth; shrinks to False."""
        return self.integer(0, 99) >= 100 - round(100 * probability)
