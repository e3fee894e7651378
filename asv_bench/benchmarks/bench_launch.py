"""Launch latency: what a call costs beside the work of the kernel, once everything is compiled and sized.

Times are of 1000 launches; subtract `bench_control.Machine.time_calls_x1000` for the calls as such. The work is a few
elements. `Cold` is the opposite: a first call, with tracing and compilation in it.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, BATCH, Bench, repeated, start, started
from .workloads import WORKLOADS


class Warm(Bench):
    """Launches in steady state."""

    workloads = ("empty", "one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compiled, sized and bound."""
        self.program = started(arch, workload, "small")

    def time_forward_x1000(self, arch: str, workload: str) -> None:
        """1000 launches of the kernel."""
        repeated(self.program.forward)


class WarmReverse(Bench):
    """Launches of gradients in steady state, seeds included. `tiny_loop` finds its sizes in the cache."""

    workloads = ("one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compiled, sized and bound."""
        self.program = started(arch, workload, "small")
        repeated(self.program.reverse, 3)
        self.countings = self.program.kernels[0].stats().countings

    def time_reverse_x1000(self, arch: str, workload: str) -> None:
        """1000 launches of the gradient."""
        repeated(self.program.reverse)

    def track_countings(self, arch: str, workload: str) -> int:
        """Runs of the counting kernel in 1000 launches in steady state; there should be none."""
        repeated(self.program.reverse)
        return self.program.kernels[0].stats().countings - self.countings

    track_countings.unit = "countings"  # type: ignore[attr-defined]


class Seed(Bench):
    """The part of `WarmReverse` that is no launch: filling the gradient of an output."""

    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """A field of the size that the workloads have."""
        start(arch)
        self.field = sg.field(sg.f32, 4, needs_grad=True)

    def time_fill_x1000(self, arch: str) -> None:
        """1000 fills."""
        repeated(lambda: self.field.grad.fill(1))


class Recounted(Bench):
    """Gradients whose loop bound was written before each launch: the adstacks are counted anew every time."""

    workloads = ("tiny_loop",)
    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Compiled, sized and bound."""
        self.program = started(arch, "tiny_loop", "small")

    def time_reverse_x1000(self, arch: str) -> None:
        """1000 times: write the bound, launch the gradient."""
        bound, reverse = self.program.bound, self.program.reverse
        assert bound is not None
        for _ in range(BATCH):
            bound[None] = 3
            reverse()
        sg.sync()


class Cold(Bench):
    """A first launch: trace, lower, compile, launch. The libraries are loaded."""

    workloads = ("three_fields", "sin_recurrence", "walker")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")
    number = 1
    warmup_time = 0
    repeat = (3, 7, 8.0)

    def setup(self, arch: str, workload: str) -> None:
        """Another kernel was compiled before; this one is fresh each time."""
        started(arch, "one_scalar", "small")
        start(arch)
        self.program = WORKLOADS[workload].build("small")

    def time_forward(self, arch: str, workload: str) -> None:
        """The first launch."""
        self.program.forward()

    def time_forward_and_reverse(self, arch: str, workload: str) -> None:
        """The first launch and the first gradient."""
        self.program.forward()
        self.program.reverse()
