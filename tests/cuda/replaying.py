"""Make a runtime in which few launches suffice for a CUDA graph, and a kernel for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stackgrad as sg
from on_emulator import runtime
from stackgrad.backends.cuda.backend import CudaBackend
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver


@contextmanager
def eager(patience: int = 3, **options: Any) -> Iterator[tuple[CudaBackend, EmulatedDriver]]:
    """Start a runtime in which a few equal launches in a row create a CUDA graph."""
    with runtime(**options) as (backend, driver):
        backend.device.patience = patience
        yield backend, driver


def adding(a: sg.Field) -> sg.Kernel:
    @sg.kernel
    def add(v: sg.f32):
        for i in a:
            a[i] += v

    return add


def refusing(call: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise DriverError(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", call)

    return refuse


def accumulated(x: sg.Field, y: sg.Field) -> sg.Kernel:
    """Return a kernel of two tasks that share a local, which is zero at the start of each launch."""

    @sg.kernel
    def accumulate():
        s = 0.0
        for i in x:
            s += x[i]
        for i in y:
            y[i] = s

    return accumulate
