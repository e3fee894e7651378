"""Emulated drivers that run grids in different ways, for tests of cooperation between threads of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from on_emulator import runtime
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.testing.emulated_cuda.fibers import AVAILABLE

DRIVERS: dict[str, dict[str, Any]] = {
    "threads": {},
    "three threads": {"most": 3, "backward": True},
    "blocks": {"blocks": True},
    "two blocks": {"blocks": True, "most": 256, "backward": True},
}
if not AVAILABLE:
    DRIVERS = {name: how for name, how in DRIVERS.items() if not how.get("blocks")}
"""How grids run: see EmulatedDriver. Two blocks take chunks of 128, 512 and 1,024 of these sizes."""


@contextmanager
def device(name: str, **options: Any) -> Iterator[EmulatedDriver]:
    driver = EmulatedDriver(**DRIVERS[name])
    with runtime(driver, **options):
        yield driver
        assert not driver.early, "a thread was over when others met at a barrier"


def chosen(size: int, rate: float) -> np.ndarray:
    out = np.zeros(size, bool)
    out[np.random.default_rng(size).permutation(size)[: round(rate * size)]] = True
    return out
