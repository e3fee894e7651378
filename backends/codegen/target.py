"""This module defines Target, the properties of a machine that the LLVM generator reads."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Represent the properties of a machine that code is generated for.

    Attributes:
        name: Name of the target in the registry of limits.
        library: Column of LIBRARY (libcall.py) with the names of math functions.
        space: Address space of arrays and of the argument block.
        concurrent: Iterations run at once, so atomics must be atomic.
        interleaved: Adstack slots of neighboring rows are neighbors in memory (slot-major); otherwise each row is
            contiguous.
        native_half: The machine converts between f16 and f32 itself.
        fused: The machine multiplies and adds in one rounding.
        contracts: The machine has an instruction that multiplies and adds, with one rounding or two.
        entries: Each task has entry points of its own (GPUs), in place of one entry point for the kernel.
        clock: Name of the counter that tells how long a task took; empty if there is none.
        scope: LLVM's name for the threads of one device. Atomics that also include the host cost more, or fail.
        lean: The number of instructions counts more than the last ulp (polynomials/gpu_trigonometric.py).
        flushes: The atomic addition of f32 takes subnormal numbers for zeros.
        doubles: The machine computes in f64.
        vector_masks: The machine loads and stores the lanes of a vector that a mask selects, and gathers and scatters
            them.
    """

    name: str
    library: str
    space: int = 0
    concurrent: bool = False
    interleaved: bool = False
    native_half: bool = True
    fused: bool = False
    contracts: bool = False
    entries: bool = False
    clock: str = ""
    scope: str = ""
    lean: bool = False
    flushes: bool = False
    doubles: bool = True
    vector_masks: bool = False


_CLOCKS = {"x86_64": "tsc", "amd64": "tsc", "aarch64": "cntvct", "arm64": "cntvct"}

CPU = Target("cpu", "libm", clock=_CLOCKS.get(platform.machine().lower(), ""))
NVPTX = Target(
    "nvptx",
    "libdevice",
    space=1,
    concurrent=True,
    interleaved=True,
    fused=True,
    entries=True,
    scope="device",
    lean=True,
    flushes=True,
)
