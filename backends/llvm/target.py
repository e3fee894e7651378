"""What the generator must know about a machine, as one row of data per target; rows contain no code."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """space: address space of arrays and of the argument block. library: column of LIBRARY.

    concurrent: iterations run at once, so atomics must be atomic. interleaved: adstack slots of neighbouring rows
    are neighbours in memory (slot-major), rather than each row being contiguous. native_half: the machine converts
    between f16 and f32 itself. fused: it multiplies and adds in one rounding. contracts: it has an
    instruction for that, of one rounding or two. entries: one entry point per task (GPUs)
    instead of one for the kernel. lean: instructions count more than the last ulp (polynomials/lean.py). flushes: its
    atomic addition of f32 takes subnormal numbers for zeros. clock: which counter tells how long a task took; none if
    empty. scope: LLVM's name for the threads of a device, where atomics that take in the host cost more, or fail.
    doubles: it computes in f64. vector_masks: it loads and stores those lanes of a vector that a mask selects, and
    gathers and scatters them.
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
