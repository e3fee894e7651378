"""This module runs the CPU backend with masked code for every task that can have it, however few its iterations.

Usually a launch of a few iterations runs branching code, so tests on small arrays would never reach masked code.
"""

from __future__ import annotations

from dataclasses import replace

from ...backends.base import Options
from ...backends.cpu.backend import CpuBackend, CpuExecutable
from ...compiler.ir.kernels import Kernel

LANES = 8
"""Number of lanes of a block. It is small, so that small arrays fill some blocks and leave others in part."""


class MaskedCpu(CpuBackend):
    """Represent a CPU backend that compiles masked code of LANES lanes unless the options set a number of lanes.

    Debug builds have branching code only.
    """

    def compile(self, kernel: Kernel, options: Options) -> CpuExecutable:
        """Compile a kernel to masked code of LANES lanes unless the options set a number of lanes."""
        return super().compile(kernel, replace(options, lanes=options.lanes or LANES))
