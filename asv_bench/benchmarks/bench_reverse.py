"""Measure throughput: the time of a forward and of a reverse sweep, and their ratio.

The ratio hardly depends on the machine.
"""

from __future__ import annotations

from .common import ARCHES, Bench, median_ratio, started


class Sweeps(Bench):
    """Measure one launch each, of loops whose trip counts are data."""

    workloads = (
        "sin_recurrence",
        "gated_nested",
        "csr_gather",
        "triangular",
        "walker",
        "ring_buffer",
        "invariant_nested",
    )
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compile, size and allocate the workload."""
        self.program = started(arch, workload, "full")

    def time_forward(self, arch: str, workload: str) -> None:
        """Launch the kernel; for `walker`, run all launches."""
        self.program.forward()

    def time_reverse(self, arch: str, workload: str) -> None:
        """Launch the gradient only; for `walker`, whose tape records the launches, forward and gradient."""
        self.program.reverse()

    def track_ratio(self, arch: str, workload: str) -> float:
        """Return the median over interleaved pairs of the time of reverse over the time of forward."""
        return median_ratio(self.program.reverse, self.program.forward)

    track_ratio.unit = "reverse/forward"  # type: ignore[attr-defined]
