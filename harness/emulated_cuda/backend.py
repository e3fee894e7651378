"""The CUDA backend on the emulated driver, one instance a process for each way to run a grid."""

from __future__ import annotations

from functools import cache

from ...backends.cuda.backend import CudaBackend
from .driver import EmulatedDriver

NAMES = ("cuda-emulated", "cuda-emulated-few", "cuda-emulated-blocks")
"""Executors: a thread for each iteration, in ascending order; three threads, the last one first; blocks of threads."""

FEW, BLOCKS = 3, 256
"""Threads of the grids of the last two."""


class EmulatedCuda(CudaBackend):
    """emulator: its driver."""

    def __init__(self, emulator: EmulatedDriver | None = None) -> None:
        self.emulator = emulator or EmulatedDriver()
        super().__init__(self.emulator)
        self.device.patience = 2  # so that most launches of tests go through graphs


@cache
def emulated(name: str = NAMES[0]) -> EmulatedCuda:
    """The one of this name."""
    most = dict(zip(NAMES, (0, FEW, BLOCKS), strict=True))[name]
    return EmulatedCuda(EmulatedDriver(most=most, backward=name == NAMES[1], blocks=name == NAMES[2]))
