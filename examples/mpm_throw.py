"""Throw an elastic block so that it bounces off the floor and hits a target, simulated by the material point method.

Method: the moving-least-squares material point method (Hu et al., 2018) with affine transfers (Jiang et al.,
2015). Particles carry position x, velocity v, velocity gradient C and deformation F; a grid exists only within
a time step.

    p2g          F' = (1 + dt C) F; each of the 3 x 3 nodes, at r from the particle and with the quadratic
                 B-spline weight w, gets the mass w m and the momentum w (m (v + C r) - dt V 4/dx² K r)
    grid_update  velocity = momentum / mass, with gravity; nodes in the floor hold what moves downward
    g2p          v' = sum of w u over the nodes, C' = 4/dx² sum of w u r^T, x' = x + dt v'

K is the Kirchhoff stress P F^T of the fixed-corotated solid, 2 mu (F - R) F^T + lambda (J - 1) J, with R the
rotation of the polar decomposition of F and J = det F. Kernels store the 2 x 2 matrices as separate scalars.

Fields hold the particles of every step, but the grid of one step only. So the backward pass is written by hand: it
goes through the steps in reverse, computes the grid of each step again from its particles, and calls the gradients
of the three kernels. Calling gradients by hand is allowed because no kernel overwrites what its own gradient reads:
momentum and velocity of the grid are two fields.

    python examples/mpm_throw.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import stackgrad as sg

TIME_STEP = 0.064
"""Seconds, for cells of 1 m: a wave of 8 m/s, the solid's fastest, crosses half a cell."""
GRAVITY = -9.8
DENSITY = 1.0
MU, LAMBDA = 25.0, 50.0 / 3.0
"""Lamé parameters of Young's modulus 60 and Poisson's ratio 0.2."""
WIDTH = 0.2
START = (0.22, 0.35)
SPIN = -3.0
"""Angular velocity of the block at first, rad/s."""
TARGET = (0.75, 0.5)
MARGIN = 3
"""Nodes this near to the border of the unit square are wall or floor."""
CHECK = {"side": 3, "cells": 16, "steps": 32, "iterations": 1}
"""What `stackgrad check` runs."""


@dataclass
class State:
    """Hold all fields: n particles, numbered row by row of a square lattice, and a grid of cells x cells nodes."""

    n: int
    cells: int
    steps: int
    dt: float
    dx: float
    x: sg.Field  # (steps + 1, n, 2); so is v
    v: sg.Field
    C: sg.Field  # (steps + 1, n, 4): the matrix by rows; so is F
    F: sg.Field
    mass: sg.Field  # (cells, cells)
    momentum: sg.Field  # (cells, cells, 2); so is velocity
    velocity: sg.Field


def make_state(side: int, cells: int, steps: int, fp: Any) -> State:
    """Return the fields of a block of side x side particles at rest in the unit square."""
    n = side * side
    x, v = (sg.field(fp, shape=(steps + 1, n, 2), needs_grad=True) for _ in range(2))
    C, F = (sg.field(fp, shape=(steps + 1, n, 4), needs_grad=True) for _ in range(2))
    mass = sg.field(fp, shape=(cells, cells), needs_grad=True)
    momentum, velocity = (sg.field(fp, shape=(cells, cells, 2), needs_grad=True) for _ in range(2))
    offsets = WIDTH * ((np.arange(side) + 0.5) / side - 0.5)
    content = np.zeros(x.shape)
    content[0, :, 0] = np.repeat(START[0] + offsets, side)
    content[0, :, 1] = np.tile(START[1] + offsets, side)
    x.from_numpy(content)
    content = np.zeros(F.shape)
    content[0] = (1.0, 0.0, 0.0, 1.0)
    F.from_numpy(content)
    return State(n, cells, steps, TIME_STEP / cells, 1.0 / cells, x, v, C, F, mass, momentum, velocity)


@sg.func
def spline(u):
    """Return the quadratic B-spline weight of a node at the distance u, in cells."""
    u = abs(u)
    return 0.75 - u * u if u < 0.5 else 0.5 * (1.5 - u) * (1.5 - u)


@sg.func
def locate(x, y, dx):
    """Return the lower left of the 3 x 3 nodes around a point, and the point's position relative to it, in cells."""
    i = int(x / dx - 0.5)
    j = int(y / dx - 0.5)
    return i, j, x / dx - i, y / dx - j


@sg.func
def product(a, b, c, d, e, f, g, h):
    """Return the entries of the matrix product (a b / c d) (e f / g h), where / separates the rows of a matrix."""
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


@sg.func
def kirchhoff(a, b, c, d):
    """Return the Kirchhoff stress P F^T for the deformation F = (a b / c d), where / separates the rows of a matrix.

    In two dimensions the rotation is R = (cos -sin / sin cos) with cos : sin = a + d : c - b.
    """
    scale = 1.0 / sg.sqrt((a + d) * (a + d) + (c - b) * (c - b))
    cos = scale * (a + d)
    sin = scale * (c - b)
    k00, k01, k10, k11 = product(a - cos, b + sin, c - sin, d - cos, a, c, b, d)
    det = a * d - b * c
    pressure = LAMBDA * (det - 1.0) * det
    return 2.0 * MU * k00 + pressure, 2.0 * MU * k01, 2.0 * MU * k10, 2.0 * MU * k11 + pressure


def particles_to_grid(s: State) -> sg.Kernel:
    """Return the kernel p2g(t), which adds mass and momentum of the particles to an empty grid."""
    n, dt, dx = s.n, s.dt, s.dx
    x, v, C, F, mass, momentum = s.x, s.v, s.C, s.F, s.mass, s.momentum
    volume = WIDTH * WIDTH / n
    m = DENSITY * volume

    @sg.kernel
    def p2g(t: sg.i32):
        for p in range(n):
            bx, by, fx, fy = locate(x[t, p, 0], x[t, p, 1], dx)
            c00 = C[t, p, 0]
            c01 = C[t, p, 1]
            c10 = C[t, p, 2]
            c11 = C[t, p, 3]
            a, b, c, d = product(
                1.0 + dt * c00, dt * c01, dt * c10, 1.0 + dt * c11, F[t, p, 0], F[t, p, 1], F[t, p, 2], F[t, p, 3]
            )
            F[t + 1, p, 0] = a
            F[t + 1, p, 1] = b
            F[t + 1, p, 2] = c
            F[t + 1, p, 3] = d
            k00, k01, k10, k11 = kirchhoff(a, b, c, d)
            force = -dt * volume * 4.0 / (dx * dx)
            for i in range(3):
                for j in range(3):
                    w = spline(fx - i) * spline(fy - j)
                    rx = (i - fx) * dx
                    ry = (j - fy) * dx
                    px = m * (v[t, p, 0] + c00 * rx + c01 * ry) + force * (k00 * rx + k01 * ry)
                    py = m * (v[t, p, 1] + c10 * rx + c11 * ry) + force * (k10 * rx + k11 * ry)
                    mass[bx + i, by + j] += w * m
                    momentum[bx + i, by + j, 0] += w * px
                    momentum[bx + i, by + j, 1] += w * py

    return p2g


def grid_kernels(s: State) -> tuple[sg.Kernel, sg.Kernel]:
    """Return the kernels clear_grid(), which empties the grid, and grid_update(), which computes its velocities."""
    cells, dt, mass, momentum, velocity = s.cells, s.dt, s.mass, s.momentum, s.velocity

    @sg.kernel
    def clear_grid():
        for i, j in mass:
            mass[i, j] = 0.0
            for k in range(2):
                momentum[i, j, k] = 0.0
                velocity[i, j, k] = 0.0

    @sg.kernel
    def grid_update():
        for i, j in mass:
            if mass[i, j] > 0.0:
                ux = momentum[i, j, 0] / mass[i, j]
                uy = momentum[i, j, 1] / mass[i, j] + dt * GRAVITY
                if (i < MARGIN and ux < 0.0) or (i > cells - MARGIN and ux > 0.0):
                    ux = 0.0
                if j < MARGIN and uy < 0.0:
                    ux = 0.0
                    uy = 0.0
                if j > cells - MARGIN and uy > 0.0:
                    uy = 0.0
                velocity[i, j, 0] = ux
                velocity[i, j, 1] = uy

    return clear_grid, grid_update


def grid_to_particles(s: State) -> sg.Kernel:
    """Return the kernel g2p(t), which computes the particles of step t + 1 from the velocities of the grid."""
    n, dt, dx = s.n, s.dt, s.dx
    x, v, C, velocity = s.x, s.v, s.C, s.velocity

    @sg.kernel
    def g2p(t: sg.i32):
        for p in range(n):
            bx, by, fx, fy = locate(x[t, p, 0], x[t, p, 1], dx)
            vx = 0.0
            vy = 0.0
            c00 = 0.0
            c01 = 0.0
            c10 = 0.0
            c11 = 0.0
            for i in range(3):
                for j in range(3):
                    w = spline(fx - i) * spline(fy - j)
                    ux = w * velocity[bx + i, by + j, 0]
                    uy = w * velocity[bx + i, by + j, 1]
                    vx += ux
                    vy += uy
                    c00 += 4.0 / dx * ux * (i - fx)
                    c01 += 4.0 / dx * ux * (j - fy)
                    c10 += 4.0 / dx * uy * (i - fx)
                    c11 += 4.0 / dx * uy * (j - fy)
            x[t + 1, p, 0] = x[t, p, 0] + dt * vx
            x[t + 1, p, 1] = x[t, p, 1] + dt * vy
            v[t + 1, p, 0] = vx
            v[t + 1, p, 1] = vy
            C[t + 1, p, 0] = c00
            C[t + 1, p, 1] = c01
            C[t + 1, p, 2] = c10
            C[t + 1, p, 3] = c11

    return g2p


def throw_and_miss(s: State, throw: sg.Field, loss: sg.Field) -> tuple[sg.Kernel, sg.Kernel]:
    """Return the kernel that sets the spinning block in motion, and the kernel that computes the loss.

    The loss is the squared distance (m²) of the center of mass from the target at the end.
    """
    n, steps, x, v, C = s.n, s.steps, s.x, s.v, s.C

    @sg.kernel
    def launch():
        for p in range(n):
            v[0, p, 0] = throw[0] - SPIN * (x[0, p, 1] - START[1])
            v[0, p, 1] = throw[1] + SPIN * (x[0, p, 0] - START[0])
            C[0, p, 1] = -SPIN
            C[0, p, 2] = SPIN

    @sg.kernel
    def miss():
        mx = 0.0
        my = 0.0
        for p in range(n):
            mx += x[steps, p, 0] / n
            my += x[steps, p, 1] / n
        loss[None] = (mx - TARGET[0]) * (mx - TARGET[0]) + (my - TARGET[1]) * (my - TARGET[1])

    return launch, miss


def build(side: int, cells: int, steps: int, fp: Any) -> tuple[tuple[sg.Field], Callable[[], float]]:
    """Return the unknown velocity, a field of two numbers (m/s), at a first guess, and a function that evaluates it.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the unknown, and returns the
    loss.
    """
    s = make_state(side, cells, steps, fp)
    throw = sg.field(fp, shape=2, needs_grad=True)
    throw.from_numpy(np.array([1.0, -1.0]))
    loss = sg.field(fp, shape=(), needs_grad=True)
    p2g, g2p = particles_to_grid(s), grid_to_particles(s)
    clear_grid, grid_update = grid_kernels(s)
    launch, miss = throw_and_miss(s, throw, loss)

    def build_grid(t: int) -> None:
        clear_grid()
        p2g(t)
        grid_update()

    def evaluate() -> float:
        launch()
        for t in range(steps):
            build_grid(t)
            g2p(t)
        miss()
        for field in (s.x, s.v, s.C, s.F, throw):
            field.grad.fill(0.0)
        loss.grad.fill(1.0)
        miss.grad()
        for t in reversed(range(steps)):
            for field in (s.mass, s.momentum, s.velocity):
                field.grad.fill(0.0)
            build_grid(t)
            g2p.grad(t)
            grid_update.grad()
            p2g.grad(t)
        launch.grad()
        return float(loss[None])

    return (throw,), evaluate


def main(
    side: int = 40, cells: int = 64, steps: int = 512, iterations: int = 40, arch: Any = None, report: bool = True
) -> list[float]:
    """Optimize the throw by gradient descent. Return the distance from the target at each iteration, in meters."""
    sg.init(arch=arch or sg.cpu, default_fp=sg.f32)
    (throw,), evaluate = build(side, cells, steps, sg.f32)
    history = []
    for iteration in range(iterations):
        history.append(evaluate() ** 0.5)
        if report and iteration % 5 == 0:
            thrown = f"{throw[0]:+.3f} {throw[1]:+.3f} m/s"
            print(f"iteration {iteration:3d}  thrown with {thrown}  misses by {history[-1]:.4f} m")
        throw.from_numpy(throw.to_numpy() - 4.0 * throw.grad.to_numpy())
    return history


if __name__ == "__main__":
    losses = main()
    print(f"misses by {losses[0]:.4f} m at first, by {losses[-1]:.4f} m after {len(losses)} iterations")
