"""Measure how many bytes the adstack rows of a GPU take, by order of iterations and by length of rows.

docs/decisions/0013-ragged-rows-on-gpus.md states the conclusions.

    python tests/cuda/row_counts.py            prints the table

A row of 32 neighboring threads is as long as the deepest of what they run, one iteration after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from stackgrad.backends.device.policy import WARP, DeviceLimits, TaskDemand, cached_threads, dispatch

H100 = DeviceLimits(50 << 20, 80 << 30)
SLOT = 4
COUNT = 100_000

Depths = np.ndarray


def _shuffled(depths: Depths) -> Depths:
    return np.random.default_rng(0).permutation(depths)


def _power(mean: float, top: int) -> Depths:
    """Return depths from 1 to `top` whose frequency falls with a power of the depth, with the given mean."""
    at = (np.arange(COUNT) + 0.5) / COUNT
    low, high = 0.1, 8.0
    for _ in range(60):
        power = (low + high) / 2
        depths = np.floor((1 - at * (1 - float(top) ** -power)) ** (-1 / power))
        low, high = (power, high) if depths.mean() > mean else (low, power)
    return np.append(depths[:-1], top).astype(np.int64)


def _geometric(mean: float, top: int) -> Depths:
    at = (np.arange(COUNT) + 0.5) / COUNT
    return np.append(np.ceil(np.log1p(-at) / np.log1p(-1 / mean))[:-1], top).astype(np.int64)


def _two(deep: int, top: int) -> Depths:
    return np.where(np.arange(COUNT) < deep, top, 1)


DISTRIBUTIONS: dict[str, Callable[[], Depths]] = {
    "all 1000": lambda: np.full(COUNT, 1000),
    "1 to 1000, evenly": lambda: np.arange(COUNT) % 1000 + 1,
    "geometric, mean 10, one of 1000": lambda: _geometric(10, 1000),
    "power law 1 to 1000, mean 10": lambda: _power(10, 1000),
    "one in ten 1000, the others 1": lambda: _two(COUNT // 10, 1000),
    "one in a thousand 1000, the others 1": lambda: _two(COUNT // 1000, 1000),
    "power law 1 to 100,000, mean 100": lambda: _power(100, 100_000),
}


@dataclass(frozen=True)
class Counts:
    """Hold measurements of one distribution of depths.

    They are bytes of all pushes, of uniform rows, and of rows that are as long as a warp needs, for iterations in this
    order and sorted by depth; and steps of all warps, in this order and sorted.
    """

    content: int
    rows: int
    uniform: int
    ragged: int
    sorted: int
    steps: int
    sorted_steps: int

    def line(self, name: str) -> str:
        """Return the row of the table for one distribution of depths."""
        sizes = (self.content, self.uniform, self.ragged, self.sorted)
        steps = (self.steps, self.sorted_steps)
        cells = [f"{self.rows:,}", *(f"{size / 1e6:,.1f}" for size in sizes), *(f"{k / 1e3:,.0f}" for k in steps)]
        return f"| {name} | " + " | ".join(cells) + " |"


def counted(depths: Depths) -> Counts:
    """Return the measurements of one task with one adstack of 4-byte slots."""
    deepest, content = int(depths.max()) * SLOT, int(depths.sum()) * SLOT
    rows = dispatch(TaskDemand(deepest, len(depths), content, len(depths)), H100).rows
    most = min(cached_threads(deepest, H100), -(-len(depths) // WARP) * WARP)
    ordered = -np.sort(-depths)
    return Counts(
        content,
        rows,
        rows * deepest,
        _ragged(depths, most),
        _ragged(ordered, most),
        _steps(depths, rows),
        _steps(ordered, most),
    )


def _trips(depths: Depths, threads: int) -> np.ndarray:
    """Return, for each round and warp, the greatest depth of the warp's lanes."""
    padded = np.zeros(-(-len(depths) // threads) * threads, np.int64)
    padded[: len(depths)] = depths
    return padded.reshape(-1, threads // WARP, WARP).max(2)


def _ragged(depths: Depths, threads: int) -> int:
    """Return the bytes of rows that are as long as the deepest iteration of their warp."""
    return int(_trips(depths, threads).max(0).sum()) * WARP * SLOT


def _steps(depths: Depths, threads: int) -> int:
    return int(_trips(depths, threads).sum())


def table() -> list[str]:
    """Return the rows of the table, one for each distribution."""
    return [counted(_shuffled(depths())).line(name) for name, depths in DISTRIBUTIONS.items()]


if __name__ == "__main__":
    print("\n".join(table()))
