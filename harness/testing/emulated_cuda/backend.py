"""This module connects the CUDA backend with the emulated driver; variants differ in number and order of threads."""

from __future__ import annotations

from functools import cache

from ....backends.cuda.backend import CudaBackend
from .driver import EmulatedDriver

NAMES = ("cuda-emulated", "cuda-emulated-few", "cuda-emulated-blocks")
"""Names of the executors.

They run a thread for each iteration in ascending order; three threads, the last one first; and blocks of threads.
"""

FEW, BLOCKS = 3, 256
"""Numbers of threads in the grids of the last two executors."""


class EmulatedCuda(CudaBackend):
    """An `EmulatedCuda` is a CUDA backend whose driver, `emulator`, runs kernels on the CPU."""

    def __init__(self, emulator: EmulatedDriver | None = None) -> None:
        self.emulator = emulator or EmulatedDriver()
        # Threads one after another cannot wait for each other.
        self.blocks = "warps" if self.emulator.has_blocks else "loops"
        super().__init__(self.emulator)
        self.device.patience = 2  # so that most launches of tests go through graphs


@cache
def emulated_cuda(name: str = NAMES[0]) -> EmulatedCuda:
    """Return the emulated CUDA backend of this name; the names differ in the order and number of threads."""
    most = dict(zip(NAMES, (0, FEW, BLOCKS), strict=True))[name]
    return EmulatedCuda(EmulatedDriver(most=most, backward=name == NAMES[1], blocks=name == NAMES[2]))
