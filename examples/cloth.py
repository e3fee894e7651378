"""Throw a cloth over a ball so that its middle comes to a given place: masses and springs in three dimensions.

The model of Provot ("Deformation constraints in a mass-spring model to describe rigid cloth behavior", 1995): a
lattice of n x n masses with springs to the eight neighbors at distance one (structure and shear) and the four at
distance two (flexion). Mass p feels from each neighbor q at the distance d = |x_q - x_p|, with r the direction,

    STIFFNESS (d - rest length) r + DAMPING (r . (v_q - v_p)) r

gravity and the drag of the air, and moves by semi-implicit Euler steps. A mass inside the ball loses the component of
its velocity that points into the ball, and is moved back to the surface. The unknowns are the velocity at which the
whole cloth is thrown, one vector, and the pull on each of its four corners, one vector each.

    python examples/cloth.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

DT = 0.01
STIFFNESS, DAMPING, DRAG = 400.0, 1.0, 0.2
GRAVITY = -9.8
WIDTH = 1.0
BALL, RADIUS = (0.5, 0.5, 0.0), 0.4
HEIGHT = 0.55
"""Of the cloth at first, and so a little above the ball."""
GOAL = (0.75, 0.58, 0.31)
"""A place at the surface of the ball: the cloth cannot be told to pass through it."""
NEIGHBORS = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if 0 < i * i + j * j <= 2 or i * i + j * j == 4]
RATE = 0.03
SMALL = {"n": 5, "steps": 30, "iterations": 30}
CHECK = {"n": 3, "steps": 3, "height": 0.39, "iterations": 1}
"""What `stackgrad check` runs: the middle of the cloth begins inside the ball."""


@sg.data_oriented
class Cloth:
    """Hold positions and velocities of the masses at each step, of shape (steps + 1, n, n)."""

    def __init__(self, n: int, steps: int, height: float) -> None:
        self.n, self.steps, self.cell = n, steps, WIDTH / (n - 1)
        self.x = sg.Vector.field(3, sg.f64, shape=(steps + 1, n, n), needs_grad=True)
        self.v = sg.Vector.field(3, sg.f64, shape=(steps + 1, n, n), needs_grad=True)
        self.throw = sg.Vector.field(3, sg.f64, shape=(), needs_grad=True)
        self.pull = sg.Vector.field(3, sg.f64, shape=(2, 2), needs_grad=True)
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)
        self.step = sg.Vector.field(2, sg.i32, shape=len(NEIGHBORS))
        self.step.from_numpy(np.array(NEIGHBORS, dtype=np.int32))
        i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        content = np.zeros((steps + 1, n, n, 3))
        content[0] = np.stack([i * self.cell, j * self.cell, np.full((n, n), height)], axis=2)
        self.x.from_numpy(content)

    @sg.func
    def spring(self, t, i, j, k, l):
        """Return the acceleration of mass (i, j) at step t by its spring to mass (k, l)."""
        rest = self.cell * sg.sqrt(float((i - k) ** 2 + (j - l) ** 2))
        d = self.x[t, k, l] - self.x[t, i, j]
        r = d.normalized()
        parting = r.dot(self.v[t, k, l] - self.v[t, i, j])
        return (STIFFNESS * (d.norm() - rest) + DAMPING * parting) * r

    @sg.kernel
    def begin(self):
        for i, j in sg.ndrange(self.n, self.n):
            self.v[0, i, j] = self.throw[None]

    @sg.kernel
    def move(self, t: sg.i32):
        for i, j in sg.ndrange(self.n, self.n):
            a = sg.Vector([0.0, 0.0, GRAVITY]) - DRAG * self.v[t, i, j]
            for s in range(len(NEIGHBORS)):
                k, l = i + self.step[s].x, j + self.step[s].y
                if 0 <= k < self.n and 0 <= l < self.n:
                    a += self.spring(t, i, j, k, l)
            if i % (self.n - 1) == 0 and j % (self.n - 1) == 0:
                a += self.pull[i // (self.n - 1), j // (self.n - 1)]
            v = self.v[t, i, j] + DT * a
            x = self.x[t, i, j] + DT * v
            out = x - sg.Vector([BALL[0], BALL[1], BALL[2]])
            if out.norm() < RADIUS:
                normal = out.normalized()
                v -= sg.min(v.dot(normal), 0.0) * normal
                x += (RADIUS - out.norm()) * normal
            self.v[t + 1, i, j] = v
            self.x[t + 1, i, j] = x

    @sg.kernel
    def compare(self):
        middle = self.x[self.steps, self.n // 2, self.n // 2]
        self.loss[None] += (middle - sg.Vector([GOAL[0], GOAL[1], GOAL[2]])).norm_sqr()


def build(n: int, steps: int, height: float = HEIGHT) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """Return the unknowns, throw and pulls, at a first guess of 0, and a function that evaluates them.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknowns, and returns the
    loss.
    """
    cloth = Cloth(n, steps, height)

    def evaluate() -> float:
        with sg.ad.Tape(cloth.loss):
            cloth.begin()
            for t in range(steps):
                cloth.move(t)
            cloth.compare()
        return float(cloth.loss[None])

    return (cloth.throw, cloth.pull), evaluate


def main(
    n: int = 13,
    steps: int = 60,
    height: float = HEIGHT,
    iterations: int = 60,
    rate: float = RATE,
    arch: Any = None,
    report: bool = True,
) -> list[float]:
    """Find the best throw by gradient descent. Return the squared distance from the goal before each descent step."""
    common.start(arch)
    return common.minimize(*build(n, steps, height), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
