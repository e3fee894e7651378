"""Run one test on the emulated CUDA driver."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.cuda.backend import CudaBackend
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver


@contextmanager
def runtime(driver: EmulatedDriver | None = None, **options: Any) -> Iterator[tuple[CudaBackend, EmulatedDriver]]:
    """Make `sg.cuda` the emulated driver in the `with` block, and assert that the host waited before it read memory."""
    before = registry._instances.get("cuda")
    driver = driver or EmulatedDriver()
    backend = CudaBackend(driver)
    registry.put("cuda", backend)
    try:
        sg.init(arch=sg.cuda, **options)
        yield backend, driver
        assert driver.unawaited == 0
    finally:
        sg.reset()
        if before is None:
            registry._instances.pop("cuda")
        else:
            registry.put("cuda", before)


def left(backend: CudaBackend, driver: EmulatedDriver) -> list[tuple[str, int]]:
    """Return the allocations that remain after all arrays and kernels are gone, except the device's own."""
    gc.collect()
    backend.reset()
    own = {("device", 64), ("pinned", 16384)}
    return [(leak.kind, leak.bytes) for leak in driver.leaks() if (leak.kind, leak.bytes) not in own]
