"""Measure launch latency: the cost of a call beside the work of the kernel, once everything is compiled and sized.

Times are those of 1000 launches; subtract `bench_control.Machine.time_calls_x1000` for the calls themselves. The work
is a few elements. `Cold` is the opposite: a first call, with tracing and compilation.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, BATCH, Bench, repeated, start, started
from .workloads import WORKLOADS


class Warm(Bench):
    """Measure launches in steady state."""

    workloads = ("empty", "one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compile, size and bind the workload."""
        self.program = started(arch, workload, "small")

    def time_forward_x1000(self, arch: str, workload: str) -> None:
        """Launch the kernel 1000 times."""
        repeated(self.program.forward)


class WarmReverse(Bench):
    """Measure launches of gradients in steady state, seeds included. `tiny_loop` finds its sizes in the cache."""

    workloads = ("one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compile, size and bind the workload."""
        self.program = started(arch, workload, "small")
        repeated(self.program.reverse, 3)
        self.countings = self.program.kernels[0].stats().countings

    def time_reverse_x1000(self, arch: str, workload: str) -> None:
        """Launch the gradient 1000 times."""
        repeated(self.program.reverse)

    def track_countings(self, arch: str, workload: str) -> int:
        """Count the runs of the counting kernel in 1000 launches in steady state; there should be none."""
        repeated(self.program.reverse)
        return self.program.kernels[0].stats().countings - self.countings

    track_countings.unit = "countings"  # type: ignore[attr-defined]


class Seed(Bench):
    """Measure the part of `WarmReverse` that is no launch: filling the gradient of an output."""

    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Make a field of the size that the workloads have."""
        start(arch)
        self.field = sg.field(sg.f32, 4, needs_grad=True)

    def time_fill_x1000(self, arch: str) -> None:
        """Fill the gradient 1000 times."""
        repeated(lambda: self.field.grad.fill(1))


class Recounted(Bench):
    """Measure gradients whose loop bound was written before each launch, so that adstacks are counted every time."""

    workloads = ("tiny_loop",)
    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Compile, size and bind the workload."""
        self.program = started(arch, "tiny_loop", "small")

    def time_reverse_x1000(self, arch: str) -> None:
        """Write the bound and launch the gradient, 1000 times."""
        bound, reverse = self.program.bound, self.program.reverse
        assert bound is not None
        for _ in range(BATCH):
            bound[None] = 3
            reverse()
        sg.sync()


class Cold(Bench):
    """Measure a first launch: trace, lower, compile, launch. The libraries are loaded."""

    workloads = ("three_fields", "sin_recurrence", "walker")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")
    number = 1
    warmup_time = 0
    repeat = (3, 7, 8.0)

    def setup(self, arch: str, workload: str) -> None:
        """Compile another kernel first, then make a fresh kernel."""
        started(arch, "one_scalar", "small")
        start(arch)
        self.program = WORKLOADS[workload].build("small")

    def time_forward(self, arch: str, workload: str) -> None:
        """Launch the kernel for the first time."""
        self.program.forward()

    def time_forward_and_reverse(self, arch: str, workload: str) -> None:
        """Launch the kernel and its gradient for the first time."""
        self.program.forward()
        self.program.reverse()
