"""The CPU backend with masked code for every task that can have it, however few iterations the task has.

A launch of a few iterations runs branching code otherwise, so that tests on small arrays would never see the other way.
"""

from __future__ import annotations

from dataclasses import replace

from ..backends.base import Options
from ..backends.cpu.backend import CpuBackend, CpuExecutable
from ..compiler.ir.nodes import Kernel

LANES = 8
"""Few, so that small arrays fill some blocks and leave others in part."""


class MaskedCpu(CpuBackend):
    """Compiles for LANES lanes unless the options say for how many. Debug builds have branching code alone."""

    def compile(self, kernel: Kernel, options: Options) -> CpuExecutable:
        return super().compile(kernel, replace(options, lanes=options.lanes or LANES))
