"""This module emulates Metal on the CPU: kernels run one thread after another, directly on the arrays.

It does what docs/metal.md says of a launcher: it fills the argument block, places the adstacks, and runs the entry
points in order. Parallel tasks have GROUPS threadgroups, so their threads stride over the iterations.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ....backends.base import SLABS, Arrays, Concurrency, Draws, Options, Probe, Scalars, Sizes
from ....backends.codegen.layout import written_names
from ....backends.codegen.stack_sizes import stack_capacity
from ....backends.device.policy import TaskGeometry
from ....backends.device.stacks import plan
from ....backends.host.block import ArgumentBlock
from ....backends.host.report import exception
from ....backends.metal.program import MetalProgram, program
from ....backends.metal.translate import CURE, PROGRAM, TranslatorMissing
from ....backends.metal.translate import translator_path as translator
from ....backends.spirv.shaders import LOCAL_SIZE
from ....compiler.ir.kernels import Kernel
from . import library

NAME = "metal-emulated"

GROUPS = 2
"""Number of threadgroups of a parallel task."""


@dataclass(eq=False)
class EmulatedExecutable:
    """An `EmulatedExecutable` is a kernel that was translated to Metal, as C++ compiled for the CPU.

    `growths` stays 0, because every launch has adstack memory of its own.
    """

    kernel: Kernel
    program: MetalProgram
    growths: int = 0
    _functions: dict[str, library.EntryFunction] = field(init=False)
    _slabs: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions = library.functions(self.program.entries)
        shaders = self.program.shaders
        self._block = ArgumentBlock(shaders.layout, self.kernel.name, written_names(shaders.kernel))

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Launch the kernel once on the CPU, one thread after another.

        Raises:
            OutOfBounds, KernelAssertionError, DivisionByZero, AdstackOverflow: the kernel traps.
        """
        shaders, block = self.program.shaders, self._block
        layout = shaders.layout
        begin = layout.temps_at
        block.view[begin : begin + 8 * len(layout.temps)] = bytes(8 * len(layout.temps))
        block.bind(arrays, scalars, draws)
        if layout.stacks:
            self._place_stacks(sizes)
        memory = (ctypes.c_uint64 * ((layout.size + len(shaders.tail)) // 8 + 1))()
        own = memoryview(memory).cast("B")
        own[: layout.size + len(shaders.tail)] = bytes(block.view) + shaders.tail
        for entry in self.program.entries:
            groups = 1 if entry.task is None else GROUPS
            self._functions[entry.name](ctypes.addressof(memory), groups)
        # The entry points wrote temporaries and errors into the copy of the block.
        block.view[:] = own[: layout.size]
        if block.word(layout.error_at):
            published = [(stack, stack_capacity(stack, sizes)) for stack in layout.stacks]
            raise exception(shaders.kernel, shaders.sites, block.take_error(), published)

    def _place_stacks(self, sizes: Sizes) -> None:
        shaders = self.program.shaders
        layout, tasks = shaders.layout, shaders.kernel.tasks
        rows = {task: TaskGeometry(GROUPS * LOCAL_SIZE if tasks[task].is_parallel else 1) for task, _ in layout.rows}
        found = plan(layout, sizes, rows)
        self._slabs = {slab: np.zeros(-(-size // 8) + 2, np.int64) for slab, size in found.needs.items()}
        spare = np.zeros(4, np.int64)
        for at, word in found.words:
            self._block.put(at, word)
        for slab, at in layout.slabs.items():
            self._block.put(at, self._slabs.setdefault(slab, spare).ctypes.data)


class EmulatedMetal:
    """This backend translates kernels to Metal programs and runs them on the CPU."""

    name = "metal"
    blocks = "loops"

    def probe(self) -> Probe:
        """Return the availability of the backend: SPIRV-Cross and a C++ compiler must be installed."""
        try:
            translator()
        except TranslatorMissing:
            return Probe(False, reason=f"{PROGRAM} is missing", cure=CURE)
        if not library.has_compiler():
            return Probe(False, reason=f"{library.COMPILER} is missing", cure=library.CURE)
        return Probe(True, version=f"{PROGRAM}, {library.COMPILER}")

    def compile(self, kernel: Kernel, options: Options) -> EmulatedExecutable:
        """Translate a kernel to Metal and return it compiled for the CPU.

        Raises:
            Unsupported: Metal lacks a feature that the kernel uses.
        """
        return EmulatedExecutable(kernel, program(kernel, options))

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency:
        """Return the number of rows in use at a time: one for each thread of the task."""
        return Concurrency(GROUPS * LOCAL_SIZE if kernel.tasks[task].is_parallel else 1)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return zero usage for each slab, because every executable has its own adstack memory."""
        return {slab: {"current": 0, "peak": 0} for slab in SLABS}

    def reset(self) -> None:
        """Do nothing, because the emulated backend holds no memory between launches."""


@cache
def emulated_metal() -> EmulatedMetal:
    """Return the emulated Metal backend of this process."""
    return EmulatedMetal()
