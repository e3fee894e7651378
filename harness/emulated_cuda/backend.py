"""The CUDA backend on the emulated driver, one instance a process for each way to run a grid."""
from __future__ import annotations

from functools import cache

from ...backends.cuda.backend import CudaBackend
from .driver import EmulatedDriver

NAMES = ("cuda-emulated", "cuda-emulated-few")
"""Executors: a thread for each iteration, in ascending order; three threads, the last one first."""

FEW = 3


class EmulatedCuda(CudaBackend):
    """emulator: its driver."""

    def __init__(self, emulator: EmulatedDriver | None = None) -> None:
        self.emulator = emulator or EmulatedDriver()
        super().__init__(self.emulator)
        self.device.patience = 2  # so that most launches of tests go through graphs


@cache
def emulated(name: str = NAMES[0]) -> EmulatedCuda:
    """The one of this name."""
    few = name == NAMES[1]
    return EmulatedCuda(EmulatedDriver(most=FEW if few else 0, backward=few))
