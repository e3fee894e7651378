"""Define kernels of the catalogue with atomics, and with uses of the values that these return."""

from __future__ import annotations

import numpy as np
import stackgrad as sg

from .entry import Arrays, entry, gives_away


def _of_old_value(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"], "y": s["y"] + s["z"] * 2 * a["y"], "z": np.zeros(4)}


@entry("the old value of an atomic carries a derivative", "old-value-without-adjoint", gradient=_of_old_value)
def _old_value(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            old = sg.atomic_add(y[i], x[i])
            z[i] = old * old

    return k


def _of_tie(a: Arrays, s: Arrays) -> Arrays:
    """A kernel in which all iterations win with one value, so that it does not matter which takes the adjoint."""
    g = s["z"].copy()
    g[0] = 0.0
    return {"x": np.array([0.0, 0.0, s["z"][0], 0.0]), "z": g}


@entry("the adjoint of an extreme is taken once, also among ties", "extreme-taken-by-all", gradient=_of_tie)
def _tied_winners(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for _i in range(4):
            sg.atomic_max(z[0], x[2])

    return k


def _of_initial_value(a: Arrays, s: Arrays) -> Arrays:
    return {"x": np.zeros(4), "z": s["z"]}


@entry(
    "an initial value that won keeps the adjoint",
    "extreme-zeroes-adjoint",
    others=("tangent-of-last-update",),
    gradient=_of_initial_value,
)
def _initial_value_won(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_min(z[1], x[i])

    return k


@entry(
    "the final value tells the winner only if nothing overwrites it",
    "extreme-stored-again",
    refused="is written again after this atomic max",
)
def _extreme_stored_again(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_max(z[0], x[i])
        for i in range(4):
            y[i] = z[0] * x[i]
        z[0] = 2.0

    return k


@entry(
    "what was read between two extremes had another winner",
    "extreme-read-between",
    refused="is read again after this atomic max",
)
def _extreme_read_between(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for i in range(4):
            sg.atomic_max(z[0], x[i] + 2.0 * i)
            y[i] = z[0] * z[0]

    return k


def _of_count(a: Arrays, s: Arrays) -> Arrays:
    v, g = a["x"][0], s["y"][0]
    old = int(a["c"][1])
    for step in range(4):
        for _ in range(old + 2 * step):
            g, v = g * 1.5 * np.cos(v), 1.5 * np.sin(v)
    return {"x": np.array([g, 0.0, 0.0, 0.0]), "y": np.array([0.0, *s["y"][1:]])}


@entry("control on what an atomic returned is counted on a copy", "counted-on-old-content", gradient=_of_count)
def _trips_returned_by_an_atomic(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        v = x[0]
        sg.loop_config(serialize=True)
        for _i in range(4):
            trips = sg.atomic_add(c[1], 2)
            for _ in range(trips):
                v = sg.sin(v) * 1.5
        y[0] = v

    return k


@gives_away("atomic-add-zeroes", "tangent-sum-lost")
def _atomic_add(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[0] += x[i]

    return k


@gives_away("tail-lanes-active")
def _sum_of_cosines(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[0] += sg.cos(x[i])

    return k


@gives_away("zero-is-neutral")
def _maximum_below_zero(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_max(z[0], x[i] - 1.0)

    return k
