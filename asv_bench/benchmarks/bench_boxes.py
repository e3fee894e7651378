"""Measure loops over boxes with a short last axis, such as that of a batch of one simulation.

A CPU runs iterations that are neighbors on the last axis side by side, so that a short axis leaves it little to do.
"""

from __future__ import annotations

import stackgrad as sg

from .common import ARCHES, Bench, repeated, start

COUNT = 1 << 14


class Short(Bench):
    """Measure an update of vectors over a box (16384, batch) that the compiler knows, or that a field has."""

    params = (ARCHES, (1, 2), ("known", "field"))
    param_names = ("arch", "batch", "box")

    def setup(self, arch: str, batch: int, box: str) -> None:
        """Compile the kernel."""
        start(arch)
        x, v = (sg.Vector.field(3, sg.f32, (COUNT, batch)) for _ in range(2))
        domain = sg.ndrange(COUNT, batch) if box == "known" else v

        @sg.kernel
        def run() -> None:
            for place in sg.grouped(domain):
                x[place] += 0.01 * v[place]

        self.run = run
        repeated(run, 3)

    def time_forward_x100(self, arch: str, batch: int, box: str) -> None:
        """Launch the kernel 100 times, then wait for the device."""
        repeated(self.run, 100)
