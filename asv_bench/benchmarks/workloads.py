"""This module contains every kernel that a benchmark runs, by name, with its sizes. Existing ones never change.

A kernel or a size that changes gets a new name: results under the old name could no longer be compared. Values and
adjoints stay clear of subnormal numbers, on which processors are many times slower. Kernels use only what the dialect
has had from the beginning, so that old versions can be measured too. Inputs are drawn from fixed seeds. All workloads
are in single precision, unless they say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import stackgrad as sg


@dataclass(frozen=True)
class Program:
    """Represent a workload with allocated fields: its kernels, inputs, outputs, and functions that launch it.

    Attributes:
        kernels: the kernels that it launches.
        inputs: input fields with a gradient.
        outputs: output fields with a gradient.
        forward: makes one launch, or one pass of a program of many launches.
        reverse: seeds the gradients of the outputs with 1 and runs the gradient.
        bound: the trip count of the loop, if it is one number in a field.
        tape: returns the bytes that the tape saved in the last reverse pass, if there is a tape.
    """

    kernels: tuple[sg.Kernel, ...]
    inputs: tuple[sg.Field, ...]
    outputs: tuple[sg.Field, ...]
    forward: Callable[[], None]
    reverse: Callable[[], None]
    bound: sg.Field | None = None
    tape: Callable[[], int] | None = None


@dataclass(frozen=True)
class Workload:
    """Represent a workload before allocation: its name, its sizes, and the function that builds its program.

    Attributes:
        name: its name.
        make: function that returns the program for the numbers of one size.
        sizes: sizes by name; "small" is for tests and overheads.
    """

    name: str
    make: Callable[..., Any]
    sizes: Mapping[str, tuple[int, ...]]

    def build(self, size: str) -> Program:
        """Allocate the fields for the named size in the current runtime, and return the program."""
        return self.make(*self.sizes[size])


WORKLOADS: dict[str, Workload] = {}


Maker = Callable[..., Program]


def workload(small: tuple[int, ...], full: tuple[int, ...]) -> Callable[[Maker], Maker]:
    """Return a decorator that registers a function in WORKLOADS, under its name and with two named sizes."""

    def enter(make: Maker) -> Maker:
        WORKLOADS[make.__name__] = Workload(make.__name__, make, {"small": small, "full": full})
        return make

    return enter


def of_kernel(
    kernel: sg.Kernel,
    inputs: tuple[sg.Field, ...],
    outputs: tuple[sg.Field, ...],
    *args: Any,
    bound: sg.Field | None = None,
) -> Program:
    """Return a Program that launches one kernel and its gradient on the given arguments."""

    def reverse() -> None:
        for field in outputs:
            field.grad.fill(1)
        kernel.grad(*args)

    return Program((kernel,), inputs, outputs, lambda: kernel(*args), reverse, bound)


def real(shape: Any, values: np.ndarray | None = None) -> sg.Field:
    """Return an f32 field with a gradient, filled with `values` if they are given."""
    field = sg.field(sg.f32, shape, needs_grad=True)
    if values is not None:
        field.from_numpy(values.astype(np.float32))
    return field


def whole(values: np.ndarray) -> sg.Field:
    """Return a field of 32-bit integers that holds the given values."""
    field = sg.field(sg.i32, values.shape)
    field.from_numpy(values.astype(np.int32))
    return field


# -- launches ---------------------------------------------------------------------------------------------------


@workload(small=(), full=())
def empty() -> Program:
    """Return a program whose kernel is empty, which measures the cost of a launch. It has no gradient."""

    @sg.kernel
    def empty() -> None:
        pass

    return Program((empty,), (), (), empty, lambda: None)


@workload(small=(), full=())
def one_scalar() -> Program:
    """Return a program that computes y = a x, with the scalar argument a."""
    x, y = real(1, np.array([0.5])), real(1)

    @sg.kernel
    def scale(a: sg.f32) -> None:
        for i in range(1):
            y[i] = a * x[i]

    return of_kernel(scale, (x,), (y,), 2.0)


@workload(small=(4,), full=(4,))
def three_fields(n: int) -> Program:
    """Return a program that computes z = x y, element by element."""
    rng = np.random.default_rng(1)
    x, y, z = real(n, rng.uniform(-1, 1, n)), real(n, rng.uniform(-1, 1, n)), real(n)

    @sg.kernel
    def multiply() -> None:
        for i in range(n):
            z[i] = x[i] * y[i]

    return of_kernel(multiply, (x, y), (z,))


@workload(small=(4, 3), full=(4, 3))
def tiny_loop(n: int, trips: int) -> Program:
    """Return a program that runs the sine recurrence over a few elements.

    Its gradient has an adstack, whose depth is counted once and then known.
    """
    return sin_recurrence(n, trips)


# -- reverse mode through loops ---------------------------------------------------------------------------------


@workload(small=(64, 8), full=(1 << 17, 64))
def sin_recurrence(n: int, trips: int) -> Program:
    """Return a program that repeats v = 0.95 sin v + 0.01; the trip count is read from a field.

    The gradient saves one value per step.
    """
    x, y, bound = real(n, np.random.default_rng(2).uniform(-1, 1, n)), real(n), whole(np.array(trips))

    @sg.kernel
    def recurrence() -> None:
        for i in range(n):
            v = x[i]
            for _ in range(bound[None]):
                v = 0.95 * sg.sin(v) + 0.01
            y[i] = v

    return of_kernel(recurrence, (x,), (y,), bound=bound)


@workload(small=(96, 3, 4), full=(1 << 17, 9, 12))
def gated_nested(n: int, outer: int, inner: int) -> Program:
    """Return a program with two nested loops that only one of 13 elements executes; the others fail a gate.

    The loops carry three values from trip to trip.
    """
    rng = np.random.default_rng(3)
    x, y = real((n, 3), rng.uniform(-1, 1, (n, 3))), real(n)
    gate, rows, columns = whole(np.arange(n) % 13 == 5), whole(np.array(outer)), whole(rng.integers(1, inner + 1, n))

    @sg.kernel
    def gated() -> None:
        for i in range(n):
            if gate[i] == 1:
                a = x[i, 0]
                b = x[i, 1]
                c = x[i, 2]
                for j in range(rows[None]):
                    for _ in range(columns[i]):
                        t = a * b - 0.3 * c
                        c = 0.9 * c + 0.1 * sg.sin(a)
                        b = 0.9 * b + 0.05 * a * c
                        a = t
                    b = b + 0.01 * j
                y[i] = a + b * c

    return of_kernel(gated, (x,), (y,))


@workload(small=(48, 3), full=(1 << 16, 16))
def csr_gather(n: int, degree: int) -> Program:
    """Return a program that multiplies a sparse matrix by sin x; its rows have 0 to 2 * degree entries.

    It loads elements at indices from an array, and its gradient adds to such elements by atomics.
    """
    rng = np.random.default_rng(4)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 2 * degree + 1, n))])
    entries = int(starts[-1])
    x, y, a = real(n, rng.uniform(-1, 1, n)), real(n), real(entries, rng.uniform(-1, 1, entries))
    start, column = whole(starts), whole(rng.integers(0, n, entries))

    @sg.kernel
    def gather() -> None:
        for i in range(n):
            total = 0.0
            for k in range(start[i], start[i + 1]):
                total += a[k] * sg.sin(x[column[k]])
            y[i] = total

    return of_kernel(gather, (a, x), (y,))


@workload(small=(24,), full=(1024,))
def triangular(n: int) -> Program:
    """Return a program that computes y[i] from x[0..i] by a nonlinear recurrence.

    The gradient saves i values in row i.
    """
    x, y = real(n, np.random.default_rng(5).uniform(0.2, 0.9, n)), real(n)

    @sg.kernel
    def below() -> None:
        for i in range(n):
            v = x[i]
            for j in range(i):
                v = v + 0.002 * (1.0 - v * v) * x[j]
            y[i] = v

    return of_kernel(below, (x,), (y,))


@workload(small=(16, 20), full=(1 << 15, 64))
def ring_buffer(n: int, trips: int) -> Program:
    """Return a program whose loop keeps sixteen values in a local vector that is indexed by the step number.

    Each step reads three elements and overwrites one.
    """
    rng = np.random.default_rng(8)
    x, y, bound = real((n, 16), rng.uniform(0.1, 0.9, (n, 16))), real(n), whole(np.array(trips))

    @sg.kernel
    def ring() -> None:
        for i in range(n):
            m = sg.Vector([x[i, k] for k in range(16)])
            total = 0.0
            for j in range(bound[None]):
                m[j % 16] = 0.2 + sg.sin(m[(j + 5) % 16] * m[(j + 3) % 16])
                total += m[j % 16] * m[(j + 1) % 16] * m[(j + 2) % 16]
            y[i] = total

    return of_kernel(ring, (x,), (y,), bound=bound)


@workload(small=(16, 5, 3), full=(1 << 16, 16, 8))
def invariant_nested(n: int, outer: int, inner: int) -> Program:
    """Return a program in which an inner loop reads a value of an outer while loop. The gradient saves nothing."""
    rng = np.random.default_rng(9)
    x, y, a = real(n, rng.uniform(0.1, 0.9, n)), real(n), real(outer, rng.uniform(0.1, 0.9, outer))
    rows = whole(np.array(outer))

    @sg.kernel
    def invariant() -> None:
        for i in range(n):
            total = 0.0
            j = 0
            while j < rows[None]:
                p = sg.sin(a[j] * x[i])
                for k in range(inner):
                    total += p * p * (0.1 * k + 0.2)
                j += 1
            y[i] = total

    return of_kernel(invariant, (x, a), (y,))


# -- a program ---------------------------------------------------------------------------------------------------


@workload(small=(3, 6), full=(24, 64))
def walker(boxes: int, steps: int) -> Program:
    """Return a program that simulates, under a tape, a strip of masses and springs that falls onto the ground."""
    points, springs = _strip(boxes)
    n, m, shape = len(points), len(springs), (steps + 1, len(points))
    graph = tuple(whole(a) for a in _neighbors(n, springs))
    state = np.zeros((2, *shape))
    state[:, 0] = points.T
    px, py, vx, vy = real(shape, state[0]), real(shape, state[1]), real(shape), real(shape)
    muscle = real(m, np.random.default_rng(6).normal(0, 0.4, m))
    rest = real(m, np.array([math.dist(points[a], points[b]) for a, b in springs]))
    loss, used = real(()), [0]
    step = _step((px, py, vx, vy), (muscle, rest), graph)

    @sg.kernel
    def distance() -> None:
        for i in range(n):
            loss[None] -= (px[steps, i] - px[0, i]) / n

    def forward() -> None:
        for t in range(steps):
            step(t)
        distance()

    def reverse() -> None:
        with sg.ad.Tape(loss) as tape:
            forward()
        used[0] = tape.used_bytes

    return Program((step, distance), (muscle,), (loss,), forward, reverse, tape=lambda: used[0])


def _step(state: tuple[sg.Field, ...], springs: tuple[sg.Field, ...], graph: tuple[sg.Field, ...]) -> sg.Kernel:
    """Return the kernel that computes positions and speeds at time step t + 1 from those at time step t.

    The forces are those of damped springs, which act as muscles, and gravity; masses stop on the ground.
    """
    px, py, vx, vy = state
    muscle, rest = springs
    start, other, number = graph
    n = px.shape[1]

    @sg.kernel
    def step(t: sg.i32) -> None:
        for i in range(n):
            fx = 0.0
            fy = -9.8
            for k in range(start[i], start[i + 1]):
                j = other[k]
                s = number[k]
                dx = px[t, j] - px[t, i]
                dy = py[t, j] - py[t, i]
                now = sg.sqrt(dx * dx + dy * dy)
                target = rest[s] * (1.0 + 0.1 * sg.tanh(muscle[s]) * sg.sin(0.04 * t))
                along = ((vx[t, j] - vx[t, i]) * dx + (vy[t, j] - vy[t, i]) * dy) / now
                pull = (3000.0 * (now - target) + 12.0 * along) / now
                fx += pull * dx
                fy += pull * dy
            ground = py[t, i] + 0.004 * (vy[t, i] + 0.004 * fy) < 0.0
            vx[t + 1, i] = 0.0 if ground else vx[t, i] + 0.004 * fx
            vy[t + 1, i] = 0.0 if ground else vy[t, i] + 0.004 * fy
            px[t + 1, i] = px[t, i] + 0.004 * vx[t + 1, i]
            py[t + 1, i] = py[t, i] + 0.004 * vy[t + 1, i]

    return step


def _strip(boxes: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the positions (n, 2) of two lines of masses that are 0.1 apart, and the springs as pairs of masses."""
    row = boxes + 1
    points = np.array([(0.1 * k, 0.1 * level) for level in (0, 1) for k in range(row)])
    springs = [(k, row + k) for k in range(row)]
    for k in range(boxes):
        springs += [(k, k + 1), (row + k, row + k + 1), (k, row + k + 1), (k + 1, row + k)]
    return points, springs


def _neighbors(count: int, springs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (start of each mass's part, masses that springs join to it, number of the spring), as three arrays.

    These are row starts (count + 1), and for each end of each spring the mass at its other end and the spring's number.
    """
    rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for s, (a, b) in enumerate(springs):
        rows[a].append((b, s))
        rows[b].append((a, s))
    flat = [pair for row in rows for pair in row]
    starts = np.cumsum([0] + [len(row) for row in rows])
    return starts, np.array([mass for mass, _ in flat]), np.array([spring for _, spring in flat])
