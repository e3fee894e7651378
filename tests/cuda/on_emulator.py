"""A runtime on the emulated driver, for one test."""

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
    """`sg.cuda` is the emulated driver inside. The host must not have touched memory before it waited."""
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
    """What is held on the device when nobody names arrays and kernels any more, but for its own."""
    gc.collect()
    backend.reset()
    own = {("device", 64), ("pinned", 16384)}
    return [(leak.kind, leak.bytes) for leak in driver.leaks() if (leak.kind, leak.bytes) not in own]
