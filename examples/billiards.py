"""Aim a cue ball so that its collisions bring the last ball of a rack to a given place at a given time.

Balls of equal mass roll without friction. Two balls collide when their distance is twice the radius R. Let d be the
vector from one to the other, and w the relative velocity: the time tau of the impact is the smaller root of
d + tau w|^2 = 4 R^2. At the impact each ball gets an impulse along the line n between the centers (Newton:
"Philosophiae naturalis principia mathematica", 1687; the time of impact within a step as in Hu, Anderson, Li, Sun,
Carr, Ragan-Kelley, Durand: "DiffTaichi: differentiable programming for physical simulation", 2020):

    v_i <- v_i + (1 + E) / 2 (w . n) n,    x_i(t + dt) = x_i(t) + tau v_i + (dt - tau) v_i'

Without the time of impact the position of a ball after a step would not depend on when it was hit, and its derivative
would miss that part. The unknowns are the first position and the velocity of the cue ball. Branches decide which balls
collide; the gradient is that of the branches taken.

    python examples/billiards.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

DT = 0.02
RADIUS = 0.03
ELASTICITY = 0.95
GAP = 0.02
"""Between neighbors of the rack."""
RACK = (0.55, 0.5)
CUE = (0.15, 0.47)
SPEED = (1.0, 0.02)
GOAL = (0.9, 0.7)
RATE = 0.006
SMALL = {"rows": 2, "steps": 50, "iterations": 60}
CHECK = {"rows": 2, "steps": 6, "cue": (0.485, 0.485), "iterations": 1}
"""What `stackgrad check` runs: balls meet in the first steps."""


@sg.data_oriented
class Table:
    """Hold positions and velocities of the balls at each step, of shape (steps + 1, n). Ball 0 is the cue ball."""

    def __init__(self, rows: int, steps: int, cue: tuple[float, float]) -> None:
        self.n, self.steps = 1 + rows * (rows + 1) // 2, steps
        self.x = sg.Vector.field(2, sg.f64, shape=(steps + 1, self.n), needs_grad=True)
        self.v = sg.Vector.field(2, sg.f64, shape=(steps + 1, self.n), needs_grad=True)
        self.place = sg.Vector.field(2, sg.f64, shape=(), needs_grad=True)
        self.velocity = sg.Vector.field(2, sg.f64, shape=(), needs_grad=True)
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)
        self.place.from_numpy(np.array(cue))
        self.velocity.from_numpy(np.array(SPEED))
        apart = 2 * RADIUS + GAP
        content = np.zeros((steps + 1, self.n, 2))
        content[0, 1:] = [
            (RACK[0] + row * apart * np.cos(np.pi / 6), RACK[1] + (k - row / 2) * apart)
            for row in range(rows)
            for k in range(row + 1)
        ]
        self.x.from_numpy(content)

    @sg.func
    def meeting(self, d, w):
        """Return the time of impact of two balls at distance d with relative velocity w; DT if there is none."""
        tau = DT
        along = d.dot(w)
        root = along * along - w.norm_sqr() * (d.norm_sqr() - 4.0 * RADIUS * RADIUS)
        if along < 0.0 and root > 0.0:
            tau = (-along - sg.sqrt(root)) / w.norm_sqr()
        return tau

    @sg.kernel
    def strike(self):
        self.x[0, 0] = self.place[None]
        self.v[0, 0] = self.velocity[None]

    @sg.kernel
    def roll(self, t: sg.i32):
        for i in range(self.n):
            turned = sg.Vector([0.0, 0.0])  # change of velocity in this step
            missed = sg.Vector([0.0, 0.0])  # what the change has not moved, since it came late in the step
            for j in range(self.n):
                d = self.x[t, j] - self.x[t, i]
                w = self.v[t, j] - self.v[t, i]
                if i == j or d.dot(w) >= 0.0:
                    continue
                tau = self.meeting(d, w)
                if tau < DT:
                    n = (d + tau * w).normalized()
                    change = 0.5 * (1.0 + ELASTICITY) * w.dot(n) * n
                    turned += change
                    missed += tau * change
            self.v[t + 1, i] = self.v[t, i] + turned
            self.x[t + 1, i] = self.x[t, i] + DT * (self.v[t, i] + turned) - missed

    @sg.kernel
    def distance(self):
        away = self.x[self.steps, self.n - 1] - sg.Vector([GOAL[0], GOAL[1]])
        self.loss[None] += away.norm_sqr()


def build(rows: int, steps: int, cue: tuple[float, float] = CUE) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """Return the unknowns, position and velocity of the cue ball, at a first guess, and a function that evaluates them.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknowns, and returns the
    loss.
    """
    table = Table(rows, steps, cue)

    def evaluate() -> float:
        with sg.ad.Tape(table.loss):
            table.strike()
            for t in range(steps):
                table.roll(t)
            table.distance()
        return float(table.loss[None])

    return (table.place, table.velocity), evaluate


def main(
    rows: int = 3,
    steps: int = 50,
    cue: tuple[float, float] = CUE,
    iterations: int = 100,
    rate: float = RATE,
    arch: Any = None,
    report: bool = True,
) -> list[float]:
    """Aim the cue ball by gradient descent. Return the squared distance from the goal before each descent step."""
    common.start(arch)
    return common.minimize(*build(rows, steps, cue), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
