"""Divide the iterations of a parallel task into chunks, and choose the order in which chunks run.

The lanes of a chunk run in lockstep. Every order is a legal schedule, so a kernel without races gives the same integers
in all of them; a kernel that differs between `vector`, `forward` and `reverse` has a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

ChunkRange = tuple[int, int]
"""The type of a chunk: row-major numbers of its iterations, start and stop."""


@dataclass(frozen=True)
class Order:
    """Represent an order in which the iterations of a parallel task run, and how they are grouped in chunks.

    Attributes:
        name: name by which users select it
        chunks: `chunks(total, width)` yields disjoint chunks that cover 0 .. total, with at most `width` lanes each
    """

    name: str
    chunks: Callable[[int, int], Iterator[ChunkRange]]


def _vector(total: int, width: int) -> Iterator[ChunkRange]:
    """Yield chunks of `width` iterations each, first to last, as (first, end); the last may be shorter."""
    for start in range(0, total, width):
        yield start, min(start + width, total)


def _forward(total: int, width: int) -> Iterator[ChunkRange]:
    """Yield one-iteration chunks of `total` iterations, first to last, whatever the width."""
    for start in range(total):
        yield start, start + 1


def _reverse(total: int, width: int) -> Iterator[ChunkRange]:
    """Yield one-iteration chunks of `total` iterations, last to first, whatever the width."""
    for start in reversed(range(total)):
        yield start, start + 1


VECTOR = Order("vector", _vector)
FORWARD = Order("forward", _forward)
REVERSE = Order("reverse", _reverse)


def shuffled(seed: int) -> Order:
    """Return an order of single iterations, one at a time, that is a random permutation drawn from the seed."""

    def chunks(total: int, width: int) -> Iterator[ChunkRange]:
        for start in np.random.default_rng(seed).permutation(total):
            yield int(start), int(start) + 1

    return Order(f"shuffled:{seed}", chunks)


def order_by_name(name: str) -> Order:
    """Return the iteration order named vector, forward, reverse or shuffled:SEED. Raise ValueError for other names."""
    for order in (VECTOR, FORWARD, REVERSE):
        if order.name == name:
            return order
    head, _, seed = name.partition(":")
    if head == "shuffled" and seed.isdecimal():
        return shuffled(int(seed))
    raise ValueError(f"no order is named {name!r}: use vector, forward, reverse or shuffled:SEED")
