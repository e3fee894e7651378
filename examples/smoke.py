"""Stir a puff of smoke, by the first velocities of an incompressible flow, so that it reaches a given place in time.

Stam's method ("Stable fluids", 1999) on a periodic square of n x n cells, without viscosity. One step carries the
velocity along itself, makes it free of divergence, and carries the smoke along it:

    advect     w(c) = v(c - dt v(c)),  by bilinear interpolation: semi-Lagrangian
    project    L p = div w by sweeps of Jacobi's iteration,  v' = w - grad p
    advect     s'(c) = s(c - dt v'(c))

div and grad are central differences over neighbors; L is the usual five-point Laplacian. The control of smoke by
derivatives of the simulation is that of Treuille, McNamara, Popovic, Stam ("Keyframe control of smoke simulations",
2003), with the first velocity of every cell as the unknown. Which four cells a value is interpolated from is decided
by floor, whose derivative is zero: the gradient goes through the weights.

    python examples/smoke.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

DT = 1.0
"""With velocities in cells a step."""
RATE = 0.03
SMALL = {"cells": 8, "steps": 3, "sweeps": 4, "iterations": 30}
CHECK = {"cells": 5, "steps": 2, "sweeps": 2, "iterations": 1}
"""What `stackgrad check` runs."""


@sg.data_oriented
class Box:
    """Hold velocity v and smoke s of every step, of shape (steps + 1, n, n), w, and the pressure after each sweep."""

    def __init__(self, cells: int, steps: int, sweeps: int) -> None:
        self.n, self.steps, self.sweeps = cells, steps, sweeps
        self.v = sg.Vector.field(2, sg.f64, shape=(steps + 1, cells, cells), needs_grad=True)
        self.w = sg.Vector.field(2, sg.f64, shape=(steps, cells, cells), needs_grad=True)
        self.p = sg.field(sg.f64, shape=(steps, sweeps + 1, cells, cells), needs_grad=True)
        self.s = sg.field(sg.f64, shape=(steps + 1, cells, cells), needs_grad=True)
        self.start = sg.Vector.field(2, sg.f64, shape=(cells, cells), needs_grad=True)
        self.wanted = sg.field(sg.f64, shape=(cells, cells))
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)

    @sg.func
    def cell(self, index):
        """Return the cell of the periodic square to which an index vector refers."""
        return index % self.n

    @sg.func
    def sample(self, values: sg.template(), t, place):
        """Return the values of step t at a position in units of cells, by bilinear interpolation."""
        corner = sg.floor(place)
        weight = place - corner
        low = self.cell(sg.cast(corner, sg.i32))
        high = self.cell(low + 1)
        left = sg.math.mix(values[t, low[0], low[1]], values[t, low[0], high[1]], weight[1])
        right = sg.math.mix(values[t, high[0], low[1]], values[t, high[0], high[1]], weight[1])
        return sg.math.mix(left, right, weight[0])

    @sg.kernel
    def stir(self):
        for i, j in self.start:
            self.v[0, i, j] = self.start[i, j]

    @sg.kernel
    def carry_velocity(self, t: sg.i32):
        for i, j in self.start:
            self.w[t, i, j] = self.sample(self.v, t, sg.Vector([i, j]) - DT * self.v[t, i, j])

    @sg.kernel
    def relax(self, t: sg.i32, k: sg.i32):
        """Run sweep k of Jacobi's iteration for the pressure at step t."""
        for i, j in self.start:
            high = self.cell(sg.Vector([i, j]) + 1)
            low = self.cell(sg.Vector([i, j]) + self.n - 1)
            across = self.w[t, high[0], j].x - self.w[t, low[0], j].x
            along = self.w[t, i, high[1]].y - self.w[t, i, low[1]].y
            total = self.p[t, k, high[0], j] + self.p[t, k, low[0], j]
            total += self.p[t, k, i, high[1]] + self.p[t, k, i, low[1]]
            self.p[t, k + 1, i, j] = 0.25 * (total - 0.5 * (across + along))

    @sg.kernel
    def project(self, t: sg.i32):
        for i, j in self.start:
            high = self.cell(sg.Vector([i, j]) + 1)
            low = self.cell(sg.Vector([i, j]) + self.n - 1)
            across = self.p[t, self.sweeps, high[0], j] - self.p[t, self.sweeps, low[0], j]
            along = self.p[t, self.sweeps, i, high[1]] - self.p[t, self.sweeps, i, low[1]]
            self.v[t + 1, i, j] = self.w[t, i, j] - 0.5 * sg.Vector([across, along])

    @sg.kernel
    def carry_smoke(self, t: sg.i32):
        for i, j in self.start:
            self.s[t + 1, i, j] = self.sample(self.s, t, sg.Vector([i, j]) - DT * self.v[t + 1, i, j])

    @sg.kernel
    def compare(self):
        for i, j in self.wanted:
            self.loss[None] += (self.s[self.steps, i, j] - self.wanted[i, j]) ** 2 / self.n**2


def puff(cells: int, at: tuple[float, float]) -> np.ndarray:
    """Return the density of a round puff of smoke at a position in the unit square."""
    x, y = np.meshgrid(*2 * [np.arange(cells) / cells], indexing="ij")
    return np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / 0.03)


def build(cells: int, steps: int, sweeps: int) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """Return the unknown first velocities of all cells at a first guess near 0, and a function that evaluates them.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknown, and returns the
    loss.
    """
    box = Box(cells, steps, sweeps)
    smoke = np.zeros((steps + 1, cells, cells))
    smoke[0] = puff(cells, (0.4, 0.4))
    box.s.from_numpy(smoke)
    box.wanted.from_numpy(puff(cells, (0.6, 0.5)))
    # At a velocity of 0 every place is on a corner, where interpolation has two slopes.
    box.start.from_numpy(np.random.default_rng(5).uniform(0.01, 0.05, (cells, cells, 2)))

    def evaluate() -> float:
        with sg.ad.Tape(box.loss):
            box.stir()
            for t in range(steps):
                box.carry_velocity(t)
                for k in range(sweeps):
                    box.relax(t, k)
                box.project(t)
                box.carry_smoke(t)
            box.compare()
        return float(box.loss[None])

    return (box.start,), evaluate


def main(
    cells: int = 32,
    steps: int = 10,
    sweeps: int = 12,
    iterations: int = 100,
    rate: float = RATE,
    arch: Any = None,
    report: bool = True,
) -> list[float]:
    """Optimize the first velocities. Return the mean squared difference from the wanted smoke before each step."""
    common.start(arch)
    return common.minimize(*build(cells, steps, sweeps), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
