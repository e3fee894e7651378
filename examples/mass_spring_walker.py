"""A soft walker learns to run: masses, springs that act as muscles, and the ground as a branch.

Masses obey m a = sum of spring forces + gravity, with semi-implicit Euler steps. A spring between masses at p and q pulls
with k (|p - q| - l) along its direction; its rest length l is moved by a muscle, a sine wave with an amplitude and a
phase of its own. A mass that would sink into the ground sticks to it for that step. The loss is minus the distance that
the centre of mass has moved; gradient descent finds the amplitudes and phases.

    python examples/mass_spring_walker.py
"""
from __future__ import annotations

import math

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
    """Three boxes in a row with two legs: positions (n, 2) in metres, and the springs as pairs of masses."""
    tops = [(0.1 * k, 0.2) for k in range(4)]
    bottoms = [(0.1 * k, 0.1) for k in range(4)]
    feet = [(0.0, 0.0), (0.1, 0.0), (0.2, 0.0), (0.3, 0.0)]
    points = np.array(tops + bottoms + feet)
    springs = []
    for row in (0, 4):
        springs += [(row + k, row + k + 1) for k in range(3)]
    springs += [(k, k + 4) for k in range(4)] + [(k, k + 5) for k in range(3)] + [(k + 1, k + 4) for k in range(3)]
    for left in (0, 2):
        springs += [(4 + left, 8 + left), (5 + left, 9 + left), (4 + left, 9 + left), (5 + left, 8 + left),
                    (8 + left, 9 + left)]  # fmt: skip
    return points, springs


def neighbours(count: int, springs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row starts (count + 1), and for each end of each spring the mass at its other end and the spring's number."""
    rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for s, (a, b) in enumerate(springs):
        rows[a].append((b, s))
        rows[b].append((a, s))
    starts = np.cumsum([0] + [len(r) for r in rows])
    flat = [pair for row in rows for pair in row]
    return starts, np.array([m for m, _ in flat]), np.array([s for _, s in flat])


def main(steps: int = 256, iterations: int = 40, arch: object = None, report: bool = True) -> list[float]:
    """Optimise; the loss of each iteration, in metres."""
    sg.init(arch=arch or sg.cpu, default_fp=sg.f64)
    points, springs = body()
    n, m = len(points), len(springs)
    px, py, vx, vy = (sg.field(sg.f64, shape=(steps + 1, n), needs_grad=True) for _ in range(4))
    amplitude, phase = (sg.field(sg.f64, shape=m, needs_grad=True) for _ in range(2))
    rest = sg.field(sg.f64, shape=m)
    loss = sg.field(sg.f64, shape=(), needs_grad=True)
    starts, others, numbers = neighbours(n, springs)
    start, other, number = (sg.field(sg.i32, shape=len(a)) for a in (starts, others, numbers))
    for field, values in ((start, starts), (other, others), (number, numbers)):
        field.from_numpy(values.astype(np.int32))
    rest.from_numpy(np.array([np.linalg.norm(points[a] - points[b]) for a, b in springs]))

    @sg.kernel
    def step(t: sg.i32):
        for i in range(n):
            fx = 0.0
            fy = GRAVITY
            for k in range(start[i], start[i + 1]):
                j = other[k]
                s = number[k]
                dx = px[t, j] - px[t, i]
                dy = py[t, j] - py[t, i]
                length = sg.sqrt(dx * dx + dy * dy)
                muscle = STRENGTH * sg.tanh(amplitude[s]) * sg.sin(FREQUENCY * t * DT + phase[s])
                target = rest[s] * (1.0 + muscle)
                along = (vx[t, j] - vx[t, i]) * dx / length + (vy[t, j] - vy[t, i]) * dy / length
                pull = STIFFNESS * (length - target) + DAMPING * along
                fx += pull * dx / length
                fy += pull * dy / length
            u = vx[t, i] + DT * fx
            w = vy[t, i] + DT * fy
            if py[t, i] + DT * w < 0.0:
                u = 0.0
                w = 0.0
            vx[t + 1, i] = u
            vy[t + 1, i] = w
            px[t + 1, i] = px[t, i] + DT * u
            py[t + 1, i] = py[t, i] + DT * w

    @sg.kernel
    def distance():
        for i in range(n):
            loss[None] -= (px[steps, i] - px[0, i]) / n

    rng = np.random.default_rng(3)
    amplitude.from_numpy(rng.normal(0.0, 0.4, m))
    phase.from_numpy(rng.uniform(-math.pi, math.pi, m))
    first = {px: points[:, 0], py: points[:, 1]}
    for field, values in first.items():
        state = np.zeros((steps + 1, n))
        state[0] = values
        field.from_numpy(state)
    history = []
    for iteration in range(iterations):
        with sg.ad.Tape(loss):
            for t in range(steps):
                step(t)
            distance()
        history.append(float(loss[None]))
        for parameter in (amplitude, phase):
            slope = parameter.grad.to_numpy()
            parameter.from_numpy(parameter.to_numpy() - 0.3 * slope / (1e-9 + np.linalg.norm(slope)))
        if report and iteration % 5 == 0:
            print(f"iteration {iteration:3d}  moved {-history[-1]:+.3f} m")
    return history


if __name__ == "__main__":
    losses = main()
    print(f"moved {-losses[0]:+.3f} m at first, {-min(losses):+.3f} m after {len(losses)} iterations")
