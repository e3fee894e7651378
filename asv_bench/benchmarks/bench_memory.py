"""Memory of gradients: adstack bytes by slab, what tapes save, and the memory of the process.

Exact numbers, not samples: any step is a change of the compiler. They say nothing about time.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, SLABS, Bench, started

LOOPS = ("sin_recurrence", "gated_nested", "csr_gather", "triangular", "walker", "ring_buffer", "invariant_nested")


class Slabs(Bench):
    """What one gradient needs: capacity of each stack times the rows that are in flight at once."""

    workloads = LOOPS
    params = (ARCHES, LOOPS, SLABS)
    param_names = ("arch", "workload", "slab")

    def setup(self, arch: str, workload: str, slab: str) -> None:
        """The full size: rows depend on it."""
        self.program = started(arch, workload, "full")

    def track_bytes(self, arch: str, workload: str, slab: str) -> int:
        """Bytes of a slab that the gradient needs, most of any kernel."""
        return max(kernel.stats().bytes[slab] for kernel in self.program.kernels)

    track_bytes.unit = "bytes"  # type: ignore[attr-defined]


class Held(Bench):
    """What the backend and the process hold after a gradient."""

    workloads = LOOPS
    params = (ARCHES, LOOPS)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """The full size: what is held depends on it."""
        self.program = started(arch, workload, "full")

    def track_row_bytes(self, arch: str, workload: str) -> int:
        """Bytes of one row of each slab, most of any task: what more threads would cost each."""
        uses = sg.adstack_report().tasks
        return sum(max((use.stride for use in uses if use.slab == slab), default=0) for slab in SLABS)

    def track_heap_peak(self, arch: str, workload: str) -> int:
        """Most bytes that the adstack heap held, all slabs, rounding to pages included."""
        return sg.adstack_report().peak

    track_row_bytes.unit = track_heap_peak.unit = "bytes"  # type: ignore[attr-defined]

    def peakmem_reverse(self, arch: str, workload: str) -> None:
        """Memory of the process at its peak: libraries, compiler, fields and adstacks."""
        self.program.reverse()


class Tapes(Bench):
    """State that a tape keeps because later launches overwrite it."""

    workloads = ("walker",)
    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """The full number of steps."""
        self.program = started(arch, "walker", "full")

    def track_saved_bytes(self, arch: str) -> int:
        """A program that steps through time, from x[t] to x[t + 1], overwrites nothing."""
        assert self.program.tape is not None
        return self.program.tape()

    track_saved_bytes.unit = "bytes"  # type: ignore[attr-defined]
