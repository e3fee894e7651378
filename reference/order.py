"""Orders: how the iterations of a parallel task are cut into chunks, and in which order the chunks run.

The lanes of a chunk run in lockstep. Every order is a legal schedule, so a kernel without races gives the same
integers in all of them; one that differs between `vector`, `forward` and `reverse` has a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Chunk = tuple[int, int]
"""Row-major numbers of the iterations of a chunk: start, stop."""


@dataclass(frozen=True)
class Order:
    """A schedule. `chunks(total, width)` yields disjoint chunks that cover 0 .. total, `width` lanes at most."""

    name: str
    chunks: Callable[[int, int], Iterator[Chunk]]


def _vector(total: int, width: int) -> Iterator[Chunk]:
    for start in range(0, total, width):
        yield start, min(start + width, total)


def _forward(total: int, width: int) -> Iterator[Chunk]:
    for start in range(total):
        yield start, start + 1


def _reverse(total: int, width: int) -> Iterator[Chunk]:
    for start in reversed(range(total)):
        yield start, start + 1


VECTOR = Order("vector", _vector)
FORWARD = Order("forward", _forward)
REVERSE = Order("reverse", _reverse)


def shuffled(seed: int) -> Order:
    """One iteration at a time, in an order drawn from the seed."""

    def chunks(total: int, width: int) -> Iterator[Chunk]:
        for start in np.random.default_rng(seed).permutation(total):
            yield int(start), int(start) + 1

    return Order(f"shuffled:{seed}", chunks)


def order_named(name: str) -> Order:
    """vector, forward, reverse or shuffled:SEED. Raises ValueError for anything else."""
    for order in (VECTOR, FORWARD, REVERSE):
        if order.name == name:
            return order
    head, _, seed = name.partition(":")
    if head == "shuffled" and seed.isdecimal():
        return shuffled(int(seed))
    raise ValueError(f"no order is named {name!r}: use vector, forward, reverse or shuffled:SEED")
