"""Measure the memory of gradients: adstack bytes of each slab, bytes that tapes save, and memory of the process.

These are exact numbers, not samples: any step is a change of the compiler. They say nothing about time.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, SLABS, Bench, started

LOOPS = ("sin_recurrence", "gated_nested", "csr_gather", "triangular", "walker", "ring_buffer", "invariant_nested")


class Slabs(Bench):
    """Measure the adstack bytes that one gradient requires: slots per row times the number of rows in use at once."""

    workloads = LOOPS
    params = (ARCHES, LOOPS, SLABS)
    param_names = ("arch", "workload", "slab")

    def setup(self, arch: str, workload: str, slab: str) -> None:
        """Build the workload in its size "full", not "small", and run it and its gradient once.

        The number of rows depends on the size.
        """
        self.program = started(arch, workload, "full")

    def track_bytes(self, arch: str, workload: str, slab: str) -> int:
        """Return the number of bytes that the kernel with the largest need requires in the given slab."""
        return max(kernel.stats().bytes[slab] for kernel in self.program.kernels)

    track_bytes.unit = "bytes"  # type: ignore[attr-defined]


class Held(Bench):
    """Measure the memory that the backend and the process still hold after a gradient."""

    workloads = LOOPS
    params = (ARCHES, LOOPS)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Build the workload in its size "full", not "small", and run it and its gradient once.

        The held memory depends on the size.
        """
        self.program = started(arch, workload, "full")

    def track_row_bytes(self, arch: str, workload: str) -> int:
        """Return the bytes of the longest row of any task in each slab, summed over the slabs."""
        uses = sg.adstack_report().tasks
        return sum(max((use.stride for use in uses if use.slab == slab), default=0) for slab in SLABS)

    def track_heap_peak(self, arch: str, workload: str) -> int:
        """Return the peak size of the adstack heap in bytes: all slabs, with rounding to pages."""
        return sg.adstack_report().peak

    track_row_bytes.unit = track_heap_peak.unit = "bytes"  # type: ignore[attr-defined]

    def peakmem_reverse(self, arch: str, workload: str) -> None:
        """Run the gradient, while asv measures the peak memory of the whole process."""
        self.program.reverse()


class Tapes(Bench):
    """Measure the bytes of array contents that a tape saves because later launches overwrite these arrays."""

    workloads = ("walker",)
    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Build the workload `walker` in its size "full", not "small", and run it and its gradient once."""
        self.program = started(arch, "walker", "full")

    def track_saved_bytes(self, arch: str) -> int:
        """Return the number of bytes that the tape saves; 0 if each step writes to its own part of the arrays."""
        assert self.program.tape is not None
        return self.program.tape()

    track_saved_bytes.unit = "bytes"  # type: ignore[attr-defined]
