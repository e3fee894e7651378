"""The reference as a backend: the interpreter behind the calls that every backend offers."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from ..backends.base import Arrays, Draws, Flight, Options, Probe, Scalars, Sizes
from ..compiler.ir.nodes import Kernel
from .launch import FUEL, most_lanes, run
from .machine import Program
from .order import VECTOR, Order, order_named
from .storage import Heap


@dataclass
class ReferenceExecutable:
    """A kernel ready to be interpreted; always checked and precise, whatever the options."""

    kernel: Kernel
    program: Program
    backend: ReferenceBackend
    growths: int = 0

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute once, arrays in place. Raises KernelTypeError or one of `traps.TRAPS`."""
        b = self.backend
        run(self.program, arrays, scalars, sizes, draws, order=b.order, fuel=b.fuel, heap=b.heap)


class ReferenceBackend:
    """order, fuel: how launches run; see `launch.run`."""

    name = "reference"

    def __init__(self, order: str | Order = VECTOR, fuel: int = FUEL) -> None:
        self.order = order_named(order) if isinstance(order, str) else order
        self.fuel = fuel
        self.heap = Heap()

    def probe(self) -> Probe:
        """Available wherever NumPy is."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return Probe(True, version=f"NumPy {np.__version__}, Python {python}")

    def compile(self, kernel: Kernel, options: Options) -> ReferenceExecutable:
        """Look up what launches need; nothing is translated."""
        return ReferenceExecutable(kernel, Program(kernel), self)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight:
        """One for each lane of a chunk."""
        return Flight(lanes=most_lanes(kernel.tasks[task], sizes), claimed=True)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Adstack memory by slab; current is zero between launches."""
        return self.heap.report()

    def reset(self) -> None:
        """Forget the peaks; no memory is held between launches."""
        self.heap = Heap()
