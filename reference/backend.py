"""Implement the interface of backends by the reference interpreter."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from ..backends.base import Arrays, Concurrency, Draws, Options, Probe, Scalars, Sizes
from ..compiler.ir.kernels import Kernel
from .launch import FUEL, most_lanes, run
from .machine import PreparedKernel
from .order import VECTOR, Order, order_by_name
from .storage import HeapCounter


@dataclass
class ReferenceExecutable:
    """Represent a kernel that the reference interpreter can run; index checks are always on.

    Attributes:
        kernel: kernel that is executed
        program: the kernel with the facts about it that all launches use
        backend: backend that made this object, with the order of iterations and the fuel
        growths: number of times that adstack memory grew; always 0, because no memory is held between launches
    """

    kernel: Kernel
    program: PreparedKernel
    backend: ReferenceBackend
    growths: int = 0

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute the kernel once and write its results into the given arrays.

        Raises:
            KernelTypeError: for arguments that do not fit
            StackgradError: for a trap, one of `traps.TRAPS`
        """
        b = self.backend
        run(self.program, arrays, scalars, sizes, draws, order=b.order, fuel=b.fuel, heap=b.heap)


class ReferenceBackend:
    """Run kernels by the reference interpreter; this class implements the interface of backends.

    Attributes:
        order: order of iterations, see `launch.run`
        fuel: statements that a launch may execute
        heap: accounts for adstack memory
    """

    name = "reference"
    blocks = "kept"

    def __init__(self, order: str | Order = VECTOR, fuel: int = FUEL) -> None:
        self.order = order_by_name(order) if isinstance(order, str) else order
        self.fuel = fuel
        self.heap = HeapCounter()

    def probe(self) -> Probe:
        """Return a report that the backend is available, with the versions of NumPy and Python."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return Probe(True, version=f"NumPy {np.__version__}, Python {python}")

    def compile(self, kernel: Kernel, options: Options) -> ReferenceExecutable:
        """Return an executable that interprets the kernel; no code is generated."""
        return ReferenceExecutable(kernel, PreparedKernel(kernel), self)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency:
        """Return how many iterations hold adstack memory at once: one for each lane of a chunk."""
        return Concurrency(lanes=most_lanes(kernel.tasks[task], sizes), claimed=True)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the current and the peak bytes of adstack memory for each slab."""
        return self.heap.report()

    def reset(self) -> None:
        """Reset the recorded peaks of adstack memory; no memory is held between launches."""
        self.heap = HeapCounter()
