"""Teach a soft walker to run: it consists of masses and of springs that act as muscles, and stands on the ground.

Masses of 1 kg obey a = sum of spring forces + gravity, with semi-implicit Euler steps. A spring from a mass
at p to one at q pulls it along q - p with the force

    STIFFNESS (|p - q| - l) + DAMPING (speed at which they part)
    l = rest length (1 + STRENGTH tanh(amplitude) sin(FREQUENCY time + phase)):

that is, a muscle with its own amplitude and phase changes the length l. A mass that would sink into the ground
sticks to it for that step, which a branch of the kernel decides. The loss is minus the distance that the center of
mass has moved; gradient descent finds the amplitudes and phases. Fields are indexed by time, so the tape saves
nothing.

    python examples/mass_spring_walker.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import stackgrad as sg

DT = 0.004
GRAVITY = -9.8
STIFFNESS = 3.0e3
DAMPING = 12.0
FREQUENCY = 10.0
STRENGTH = 0.12
CHECK = {"steps": 48, "iterations": 3}
"""What `stackgrad check` runs."""


def body() -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the body of the walker: positions (n, 2) in meters, and the springs as pairs of masses.

    The body is a row of three boxes on two legs.

    0 - 1 - 2 - 3
    | x | x | x |      every box has both diagonals
    4 - 5 - 6 - 7
    | x |   | x |
    8 - 9   10 - 11
    """
    points = np.array([(0.1 * k, height) for height in (0.2, 0.1, 0.0) for k in range(4)])
    springs = [(k, k + 1) for k in (0, 1, 2, 4, 5, 6, 8, 10)]
    springs += [(k, k + 4) for k in range(8)]
    springs += [(k, k + 5) for k in (0, 1, 2, 4, 6)] + [(k + 1, k + 4) for k in (0, 1, 2, 4, 6)]
    return points, springs


@dataclass
class Springs:
    """Hold the m springs of a body, listed for each mass.

    Those of mass i are the entries first[i] to first[i + 1] - 1 of `mass` and `number`. `first` has the shape (n + 1,).
    `mass` (2 m,) is the mass at the other end, `number` (2 m,) the number of the spring. `rest` (m,) has the rest
    length of each spring.
    """

    first: sg.Field
    mass: sg.Field
    number: sg.Field
    rest: sg.Field


def make_springs(points: np.ndarray, springs: list[tuple[int, int]]) -> Springs:
    """Return fields that hold the springs of a body."""
    rows: list[list[tuple[int, int]]] = [[] for _ in points]
    for s, (a, b) in enumerate(springs):
        rows[a].append((b, s))
        rows[b].append((a, s))
    ends = np.array([end for row in rows for end in row])
    integers = [np.cumsum([0] + [len(row) for row in rows]), ends[:, 0], ends[:, 1]]
    first, mass, number = (sg.field(sg.i32, shape=len(a)) for a in integers)
    made = Springs(first, mass, number, sg.field(sg.f64, shape=len(springs)))
    for field, values in zip((first, mass, number), integers):
        field.from_numpy(values)
    made.rest.from_numpy(np.array([np.linalg.norm(points[a] - points[b]) for a, b in springs]))
    return made


def motion(x: sg.Field, v: sg.Field, amplitude: sg.Field, phase: sg.Field, springs: Springs) -> sg.Kernel:
    """Return the kernel step(t), which computes x[t + 1] and v[t + 1], of shape (n, 2), from x[t] and v[t]."""
    n = x.shape[1]
    first, mass, number, rest = springs.first, springs.mass, springs.number, springs.rest

    @sg.kernel
    def step(t: sg.i32):
        for i in range(n):
            ax = 0.0
            ay = GRAVITY
            for k in range(first[i], first[i + 1]):
                j = mass[k]
                s = number[k]
                dx = x[t, j, 0] - x[t, i, 0]
                dy = x[t, j, 1] - x[t, i, 1]
                length = sg.sqrt(dx * dx + dy * dy)
                parting = ((v[t, j, 0] - v[t, i, 0]) * dx + (v[t, j, 1] - v[t, i, 1]) * dy) / length
                muscle = STRENGTH * sg.tanh(amplitude[s]) * sg.sin(FREQUENCY * t * DT + phase[s])
                pull = STIFFNESS * (length - rest[s] * (1.0 + muscle)) + DAMPING * parting
                ax += pull * dx / length
                ay += pull * dy / length
            vx = v[t, i, 0] + DT * ax
            vy = v[t, i, 1] + DT * ay
            if x[t, i, 1] + DT * vy < 0.0:
                vx = 0.0
                vy = 0.0
            v[t + 1, i, 0] = vx
            v[t + 1, i, 1] = vy
            x[t + 1, i, 0] = x[t, i, 0] + DT * vx
            x[t + 1, i, 1] = x[t, i, 1] + DT * vy

    return step


def build(steps: int) -> tuple[tuple[sg.Field, sg.Field], Callable[[], float]]:
    """Return the unknowns, amplitudes (m,) and phases (m,), at a first guess, and a function that evaluates them.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknowns, and returns the
    loss.
    """
    points, pairs = body()
    n, m = len(points), len(pairs)
    x, v = (sg.field(sg.f64, shape=(steps + 1, n, 2), needs_grad=True) for _ in range(2))
    amplitude, phase = (sg.field(sg.f64, shape=m, needs_grad=True) for _ in range(2))
    loss = sg.field(sg.f64, shape=(), needs_grad=True)
    x.from_numpy(np.concatenate([points[None], np.zeros((steps, n, 2))]))
    rng = np.random.default_rng(3)
    amplitude.from_numpy(rng.normal(0.0, 0.4, m))
    phase.from_numpy(rng.uniform(-math.pi, math.pi, m))
    step = motion(x, v, amplitude, phase, make_springs(points, pairs))

    @sg.kernel
    def distance():
        for i in range(n):
            loss[None] -= (x[steps, i, 0] - x[0, i, 0]) / n

    def evaluate() -> float:
        with sg.ad.Tape(loss):
            for t in range(steps):
                step(t)
            distance()
        return float(loss[None])

    return (amplitude, phase), evaluate


class Adam:
    """Optimize one field by the Adam method of Kingma and Ba.

    The ground makes gradients very large at some points and small at others, so the length of a step depends only on
    the ratio of the gradient's running mean to its running root mean square.
    """

    def __init__(self, field: sg.Field) -> None:
        self.field = field
        self.count = 0
        self.mean, self.square = np.zeros(field.shape), np.zeros(field.shape)

    def step(self, rate: float = 0.1, keep_mean: float = 0.9, keep_square: float = 0.99) -> None:
        """Move the contents of the field by one step against the gradient."""
        slope = self.field.grad.to_numpy()
        self.count += 1
        self.mean += (1.0 - keep_mean) * (slope - self.mean)
        self.square += (1.0 - keep_square) * (slope * slope - self.square)
        mean = self.mean / (1.0 - keep_mean**self.count)
        square = self.square / (1.0 - keep_square**self.count)
        self.field.from_numpy(self.field.to_numpy() - rate * mean / (np.sqrt(square) + 1e-12))


def main(steps: int = 256, iterations: int = 40, arch: Any = None, report: bool = True) -> list[float]:
    """Optimize the muscles by gradient descent. Return the loss at each iteration, in meters."""
    sg.init(arch=arch or sg.cpu, default_fp=sg.f64)
    unknowns, evaluate = build(steps)
    optimizers = [Adam(unknown) for unknown in unknowns]
    history = []
    for iteration in range(iterations):
        history.append(evaluate())
        for optimizer in optimizers:
            optimizer.step()
        if report and iteration % 5 == 0:
            print(f"iteration {iteration:3d}  moved {-history[-1]:+.3f} m")
    return history


if __name__ == "__main__":
    losses = main()
    print(f"moved {-losses[0]:+.3f} m at first, {-min(losses):+.3f} m after {len(losses)} iterations")
