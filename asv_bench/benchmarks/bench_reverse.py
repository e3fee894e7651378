"""Measure throughput: the times of a forward launch and of its gradient, and their ratio.

The ratio hardly depends on the machine.
"""

from __future__ import annotations

from .common import ARCHES, Bench, median_ratio, started


class Sweeps(Bench):
    """Measure one forward or gradient launch of each workload whose loops have trip counts read from data."""

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
        """Compile the workload, size its adstacks and allocate its memory."""
        self.program = started(arch, workload, "full")

    def time_forward(self, arch: str, workload: str) -> None:
        """Launch the workload's kernel once; for `walker`, run all launches of the simulation."""
        self.program.forward()

    def time_reverse(self, arch: str, workload: str) -> None:
        """Launch the grad kernel only; for `walker`, run its forward launches and their gradients under the tape."""
        self.program.reverse()

    def track_ratio(self, arch: str, workload: str) -> float:
        """Return the median, over interleaved pairs of calls, of gradient time divided by forward time."""
        return median_ratio(self.program.reverse, self.program.forward)

    track_ratio.unit = "reverse/forward"  # type: ignore[attr-defined]
