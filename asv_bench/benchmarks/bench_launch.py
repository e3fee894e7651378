"""Measure launch latency: the overhead of a call when the kernel is compiled and its adstacks are sized.

Times are those of 1000 launches; subtract `bench_control.Machine.time_calls_x1000` for the calls themselves. The work
is a few elements. `Cold` is the opposite: a first call, with tracing and compilation.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, BATCH, Bench, repeated, start, started
from .workloads import WORKLOADS


class Warm(Bench):
    """Measure repeated launches of forward kernels that are already compiled and sized."""

    workloads = ("empty", "one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compile the workload, size its adstacks and bind its arrays."""
        self.program = started(arch, workload, "small")

    def time_forward_x1000(self, arch: str, workload: str) -> None:
        """Launch the workload's forward kernel 1000 times, then wait for the device."""
        repeated(self.program.forward)


class WarmReverse(Bench):
    """Measure repeated launches of grad kernels that are compiled and sized, including the time to set their seeds."""

    workloads = ("one_scalar", "three_fields", "tiny_loop")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")

    def setup(self, arch: str, workload: str) -> None:
        """Compile the workload, size its adstacks and bind its arrays."""
        self.program = started(arch, workload, "small")
        repeated(self.program.reverse, 3)
        self.countings = self.program.kernels[0].stats().countings

    def time_reverse_x1000(self, arch: str, workload: str) -> None:
        """Set the seeds and launch the grad kernel, 1000 times."""
        repeated(self.program.reverse)

    def track_countings(self, arch: str, workload: str) -> int:
        """Return how often the counting kernel ran during 1000 repeated launches of the grad kernel; 0 is expected."""
        repeated(self.program.reverse)
        return self.program.kernels[0].stats().countings - self.countings

    track_countings.unit = "countings"  # type: ignore[attr-defined]


class Seed(Bench):
    """Measure the part of `WarmReverse` that sets the seed: filling the gradient of an output field."""

    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Allocate a field of the same size as the output of the workloads."""
        start(arch)
        self.field = sg.field(sg.f32, 4, needs_grad=True)

    def time_fill_x1000(self, arch: str) -> None:
        """Fill the gradient of the output field 1000 times."""
        repeated(lambda: self.field.grad.fill(1))


class Recounted(Bench):
    """Measure grad kernels whose adstacks must be sized again at each launch, because the loop bound is rewritten."""

    workloads = ("tiny_loop",)
    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Compile the workload, size its adstacks and bind its arrays."""
        self.program = started(arch, "tiny_loop", "small")

    def time_reverse_x1000(self, arch: str) -> None:
        """Write the field that holds the loop bound and launch the grad kernel, 1000 times."""
        bound, reverse = self.program.bound, self.program.reverse
        assert bound is not None
        for _ in range(BATCH):
            bound[None] = 3
            reverse()
        sg.sync()


class Cold(Bench):
    """Measure the first launch of a kernel, with all compilation; the libraries are already loaded."""

    workloads = ("three_fields", "sin_recurrence", "walker")
    params = (ARCHES, workloads)
    param_names = ("arch", "workload")
    number = 1
    warmup_time = 0
    repeat = (3, 7, 8.0)

    def setup(self, arch: str, workload: str) -> None:
        """Compile another kernel to load the libraries, then create a kernel that is not yet compiled."""
        started(arch, "one_scalar", "small")
        start(arch)
        self.program = WORKLOADS[workload].build("small")

    def time_forward(self, arch: str, workload: str) -> None:
        """Launch a new kernel for the first time, which compiles it."""
        self.program.forward()

    def time_forward_and_reverse(self, arch: str, workload: str) -> None:
        """Launch a new kernel and then its gradient for the first time, which compiles both."""
        self.program.forward()
        self.program.reverse()


class Wide(Bench):
    """Measure repeated launches of a kernel with as many arrays as a rigid-body solver has, called by keyword."""

    params = (ARCHES,)
    param_names = ("arch",)

    def setup(self, arch: str) -> None:
        """Compile the kernel and launch it until nothing is left to prepare."""
        start(arch)
        fields = [sg.field(sg.f32, 4) for _ in range(96)]

        @sg.kernel
        def run(step: sg.f32):  # type: ignore[no-untyped-def, valid-type]
            for i in range(4):
                for x in sg.static(fields):
                    x[i] += step

        self.run = run
        repeated(self.forward, 8)

    def forward(self) -> None:
        """Launch the kernel once."""
        self.run(step=1.0)

    def time_forward_x1000(self, arch: str) -> None:
        """Launch the kernel 1000 times, then wait for the device."""
        repeated(self.forward)
