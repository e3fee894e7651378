"""This module defines the source of random choices, so that one generator serves both seeded sampling and Hypothesis.

Invariant: the first item of a list and the lowest integer are the simplest, and False is the simplest boolean.
Hypothesis shrinks programs toward the simplest choices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Chooser(Protocol):
    """Define the interface of a source of random choices, from which a generator draws programs."""

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from low to high, both included."""

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items; an item that is listed twice is twice as likely."""

    def boolean(self, probability: float = 0.5) -> bool:
        """Return True with about this probability."""


class RandomChooser:
    """Make choices with a seeded generator, which is fast and repeats its choices for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from low to high, both included, with equal probabilities."""
        return low + int(self._random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """Return a random item, each with the same probability."""
        return items[int(self._random() * len(items))]

    def boolean(self, probability: float = 0.5) -> bool:
        """Return True with this probability."""
        return self._random() < probability


class HypothesisChooser:
    """Make choices that Hypothesis draws, records and shrinks, with the `draw` function that `composite` passes."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw = draw
        self._integers = strategies.integers

    def integer(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included; Hypothesis shrinks it toward the lowest."""
        return low if low == high else int(self._draw(self._integers(low, high)))

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items; Hypothesis shrinks the choice toward the first item."""
        return items[self.integer(0, len(items) - 1)]

    def boolean(self, probability: float = 0.5) -> bool:
        """Return True with about this probability; Hypothesis shrinks the result toward False."""
        return self.integer(0, 99) >= 100 - round(100 * probability)
