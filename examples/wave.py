"""Find the splash that a ring of gauges has recorded: source inversion with the wave equation in two dimensions.

The height u of a square pool with fixed borders obeys u_tt = c^2 (u_xx + u_yy). Second-order differences in time and
space (Courant, Friedrichs, Lewy: "Ueber die partiellen Differenzengleichungen der mathematischen Physik", 1928),
with the Courant number C = c dt / dx below 1 / sqrt(2):

    u(t + 1) = 2 u(t) - u(t - 1) + C^2 L u(t),    L u = u_east + u_west + u_north + u_south - 4 u

The pool starts at rest, so u(1) = u(0) + C^2 L u(0) / 2. Gauges on a circle record u at each step. The unknown is the
whole field u(0); the loss is the mean squared difference from the records of a known splash, as in photoacoustic
tomography
(Treeby, Cox: "k-Wave: MATLAB toolbox for the simulation and reconstruction of photoacoustic wave fields", 2010).
Its gradient is the wave equation run backward with the differences as sources; here the tape makes it.

    python examples/wave.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

COURANT = 0.5
RATE = 0.02
SMALL = {"cells": 12, "steps": 16, "gauges": 12, "iterations": 30}
CHECK = {"cells": 8, "steps": 4, "gauges": 6, "iterations": 1}
"""What `stackgrad check` runs."""


@sg.data_oriented
class Pool:
    """Hold the heights u of every step, of shape (steps + 1, cells, cells), and the gauges with their records."""

    def __init__(self, cells: int, steps: int, gauges: int) -> None:
        self.cells, self.steps, self.gauges = cells, steps, gauges
        self.start = sg.field(sg.f64, shape=(cells, cells), needs_grad=True)
        self.u = sg.field(sg.f64, shape=(steps + 1, cells, cells), needs_grad=True)
        self.place = sg.Vector.field(2, sg.i32, shape=gauges)
        self.record = sg.field(sg.f64, shape=(steps + 1, gauges))
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)
        angle = 2.0 * np.pi * np.arange(gauges) / gauges
        circle = cells / 2 + 0.4 * cells * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        self.place.from_numpy(circle.astype(np.int32))

    @sg.func
    def bend(self, t, cell):
        """Return the Laplacian L u at a cell and step t; 0 on the border, where u does not change."""
        total = 0.0
        i, j = cell[0], cell[1]
        if sg.min(i, j) > 0 and sg.max(i, j) < self.cells - 1:
            for step in sg.static((-1, 1)):
                total += self.u[t, i + step, j] + self.u[t, i, j + step]
            total -= 4.0 * self.u[t, i, j]
        return total

    @sg.kernel
    def splash(self):
        for i, j in self.start:
            if sg.min(i, j) > 0 and sg.max(i, j) < self.cells - 1:
                self.u[0, i, j] = self.start[i, j]

    @sg.kernel
    def leave(self):
        """Compute the heights after the first step, from rest."""
        for cell in sg.grouped(self.start):
            change = 0.5 * COURANT**2 * self.bend(0, cell)
            self.u[1, cell[0], cell[1]] = self.u[0, cell[0], cell[1]] + change

    @sg.kernel
    def travel(self, t: sg.i32):
        """Compute the heights at step t + 1 from those at steps t and t - 1."""
        for cell in sg.grouped(self.start):
            i, j = cell[0], cell[1]
            change = COURANT**2 * self.bend(t, cell)
            self.u[t + 1, i, j] = 2.0 * self.u[t, i, j] - self.u[t - 1, i, j] + change

    @sg.kernel
    def compare(self):
        for t, k in sg.ndrange(self.steps + 1, self.gauges):
            miss = self.u[t, self.place[k][0], self.place[k][1]] - self.record[t, k]
            self.loss[None] += miss**2 / self.gauges

    def run(self) -> None:
        """Run all steps from the heights in `start`."""
        self.splash()
        self.leave()
        for t in range(1, self.steps):
            self.travel(t)

    def listen(self) -> None:
        """Store the heights of the last run as the records of the gauges."""
        place = self.place.to_numpy()
        self.record.from_numpy(np.ascontiguousarray(self.u.to_numpy()[:, place[:, 0], place[:, 1]]))


def drop(cells: int) -> np.ndarray:
    """Return the splash to be found: a hill and a hollow in the water."""
    x, y = np.meshgrid(*2 * [np.arange(cells) / (cells - 1)], indexing="ij")
    up = np.exp(-((x - 0.4) ** 2 + (y - 0.55) ** 2) / 0.01)
    return up - 0.6 * np.exp(-((x - 0.65) ** 2 + (y - 0.4) ** 2) / 0.015)


def build(cells: int, steps: int, gauges: int) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """Return the unknown first heights of all cells, at a first guess of 0, and a function that evaluates them.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknown, and returns the
    loss.
    """
    pool = Pool(cells, steps, gauges)
    pool.start.from_numpy(drop(cells))
    pool.run()
    pool.listen()
    pool.start.fill(0.0)

    def evaluate() -> float:
        with sg.ad.Tape(pool.loss):
            pool.run()
            pool.compare()
        return float(pool.loss[None])

    return (pool.start,), evaluate


def main(
    cells: int = 48,
    steps: int = 72,
    gauges: int = 64,
    iterations: int = 100,
    rate: float = RATE,
    arch: Any = None,
    report: bool = True,
) -> list[float]:
    """Find the first heights by gradient descent. Return the loss before each step."""
    common.start(arch)
    return common.minimize(*build(cells, steps, gauges), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
