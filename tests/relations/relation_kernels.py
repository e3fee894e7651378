"""Kernels of every kind that relations change: all loops, branches, atomics, several tasks, vectors.

Every kernel is over fields x, w, y, z of four reals with gradients, an i32 field c of trips and the 0-d total s.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import stackgrad as sg

CONTENT = {
    "x": [0.5, -0.3, 0.8, 0.25],
    "w": [1.25, 0.75, -0.5, 0.4],
    "y": [0.1, 0.2, 0.3, 0.4],
    "z": [-0.4, -0.6, -0.2, 0.3],
    "c": [3, 1, 2, 0],
    "s": 0.75,
}
KERNELS: dict[str, Callable[[SimpleNamespace], sg.Kernel]] = {}


def fields(real: object) -> SimpleNamespace:
    """Return fields for the kernels, of which only the shapes matter."""
    reals = {name: sg.field(real, shape=(4,), needs_grad=True) for name in "xwyz"}
    return SimpleNamespace(**reals, s=sg.field(real, shape=(), needs_grad=True), c=sg.field(sg.i32, shape=(4,)))


def content(name: str, real: type) -> np.ndarray:
    return np.array(CONTENT[name], np.int32 if name == "c" else real)


def entered(maker):  # type: ignore[no-untyped-def]
    KERNELS[maker.__name__] = maker
    return maker


@entered
def straight(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in x:
            y[i] = sg.sin(x[i]) * w[i] + 0.25

    return k


@entered
def loop(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(c[i]):
                v = sg.sin(v) * w[j] + 0.125 * v
            y[i] = v

    return k


@entered
def descending(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in reversed(range(4)):
                v = v * w[j] + 0.5
            for j in range(3, -1, -2):
                v = sg.tanh(v) - w[j]
            y[i] = v

    return k


@entered
def nested(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(3):
                u = v * w[j]
                for _ in range(c[j]):
                    u = u * v + 0.25
                v += sg.sin(u)
            y[i] = v

    return k


@entered
def exits(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(4):
                if w[j] < 0.0:
                    continue
                for m in range(c[i]):
                    if v > 1.0:
                        break
                    v = v * 1.5 + w[m]
            while v < 2.0:
                v = v * v + 0.75
            y[i] = v

    return k


@entered
def branch(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(3):
                if c[j] > i:
                    v = v * w[j]
                else:
                    v = sg.exp(0.5 * v) - w[i]
            y[i] = v

    return k


@entered
def sums(f):
    x, w, s, y = f.x, f.w, f.s, f.y

    @sg.kernel
    def k():
        for i in x:
            for j in range(3):
                s[None] += x[i] * w[j]
            y[(i + 1) % 4] += sg.sin(x[i]) * w[0]

    return k


@entered
def extremes(f):
    x, w, z = f.x, f.w, f.z

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_max(z[i % 2], x[i] * w[i])

    return k


@entered
def tasks(f):
    x, w, y, z, c = f.x, f.w, f.y, f.z, f.c

    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] * w[i]
        for i in range(1, 4):
            v = y[i]
            for _ in range(c[i] + 1):
                v = v * v + y[i - 1]
            z[i] = v
        for i in x:
            y[i] = sg.sin(z[i]) * y[i]

    return k


@entered
def temporaries(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        total = 0.5 * x[0]
        scale = sg.sin(w[1])
        for i in x:
            total += x[i] * x[i]
        for i in y:
            y[i] = scale * total * w[i]

    return k


@entered
def overwriting(f):
    x, w = f.x, f.w

    @sg.kernel
    def k():
        for i in x:
            for j in range(3):
                x[i] = x[i] * x[i] + w[j]
        for i in x:
            w[i] = sg.sin(x[i]) * w[i]

    return k


@entered
def vectors(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in x:
            v = sg.Vector([x[i], w[i], 0.5])
            for j in range(3):
                v = sg.Vector([v[1] * v[2], v[0] + w[j], sg.sin(v[0])])
            y[i] = v.dot(sg.Vector([1.0, w[i], 2.0]))

    return k


@entered
def box(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i, j in sg.ndrange((1, 4), 3):
            y[i] += x[i] * w[j]

    return k


@entered
def drawn(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(3):
                v = v * sg.random() + 0.5
            y[i] = v

    return k
