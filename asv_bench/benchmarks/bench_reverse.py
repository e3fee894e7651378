"""Throughput: the time of a forward and of a reverse sweep, and their ratio, which no change of machine moves much."""

from __future__ import annotations

from .common import ARCHES, Bench, median_ratio, started


class Sweeps(Bench):
    """One launch each, of loops whose trip counts are data."""

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
        """Compiled, sized, allocated."""
        self.program = started(arch, workload, "full")

    def time_forward(self, arch: str, workload: str) -> None:
        """The kernel; all launches of `walker`."""
        self.program.forward()

    def time_reverse(self, arch: str, workload: str) -> None:
        """The gradient alone; for `walker`, whose tape records the launches, forward and gradient."""
        self.program.reverse()

    def track_ratio(self, arch: str, workload: str) -> float:
        """Median over interleaved pairs of time of reverse over time of forward."""
        return median_ratio(self.program.reverse, self.program.forward)

    track_ratio.unit = "reverse/forward"  # type: ignore[attr-defined]
