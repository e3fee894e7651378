"""More of `pitfall_kernels`: elements overwritten, atomics, reductions, local arrays."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from pitfall_kernels import Arrays, pitfall

# ---- overwritten elements -----------------------------------------------------------------------------------------


def _of_read_then_overwritten(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"] * 2 * a["x"], "y": np.zeros(4)}


@pitfall("a load that the kernel overwrites is not made again", "risk-ignored", gradient=_of_read_then_overwritten)
def _read_then_overwritten(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * x[i]
        for i in range(4):
            x[i] = 2.0

    return k


def _of_recurrence_in_memory(a: Arrays, s: Arrays) -> Arrays:
    w, v, g, gw = a["w"], [a["y"][0]], s["y"][0], np.zeros(4)
    for j in range(4):
        v.append(np.sin(v[-1]) * w[j])
    for j in (3, 2, 1, 0):
        gw[j] = g * np.sin(v[j])
        g = g * np.cos(v[j]) * w[j]
    return {"w": gw, "y": np.array([g, *s["y"][1:]])}


@pitfall(
    "under a tape, stores are repeated on a copy and loads from it are saved",
    "overwritten-load-recomputed",
    "store-not-repeated",
    gradient=_of_recurrence_in_memory,
)
def _recurrence_in_memory(f):
    w, y = f.w, f.y

    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for j in range(4):
            y[0] = sg.sin(y[0]) * w[j]

    return k


def _of_read_between(a: Arrays, s: Arrays) -> Arrays:
    g = s["z"] * np.cos(a["y"] * a["x"])
    return {"x": s["y"] + g * a["y"], "y": g * a["x"], "z": np.zeros(4)}


@pitfall(
    "a task starts from the state before that task",
    "earlier-tasks-not-repeated",
    "present-state-read",
    gradient=_of_read_between,
)
def _read_between_two_writes(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = y[i] * x[i]
        for i in range(4):
            z[i] = sg.sin(y[i])
        for i in range(4):
            y[i] = x[i]

    return k


# ---- atomics ------------------------------------------------------------------------------------------------------


def _of_old_value(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"], "y": s["y"] + s["z"] * 2 * a["y"], "z": np.zeros(4)}


@pitfall("the old value of an atomic carries a derivative", "old-value-without-adjoint", gradient=_of_old_value)
def _old_value(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            old = sg.atomic_add(y[i], x[i])
            z[i] = old * old

    return k


def _of_tie(a: Arrays, s: Arrays) -> Arrays:
    """All iterations win with one value, so that it does not matter which one takes the adjoint."""
    g = s["z"].copy()
    g[0] = 0.0
    return {"x": np.array([0.0, 0.0, s["z"][0], 0.0]), "z": g}


@pitfall("the adjoint of an extreme is taken once, also among ties", "extreme-taken-by-all", gradient=_of_tie)
def _tied_winners(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for _i in range(4):
            sg.atomic_max(z[0], x[2])

    return k


def _of_initial_value(a: Arrays, s: Arrays) -> Arrays:
    return {"x": np.zeros(4), "z": s["z"]}


@pitfall("an initial value that won keeps the adjoint", "extreme-zeroes-adjoint", gradient=_of_initial_value)
def _initial_value_won(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_min(z[1], x[i])

    return k


@pitfall(
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


@pitfall(
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


@pitfall("control on what an atomic returned is counted on a copy", "counted-on-old-content", gradient=_of_count)
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


# ---- reductions ---------------------------------------------------------------------------------------------------


def _of_reduction(a: Arrays, s: Arrays) -> Arrays:
    return {"x": 2 * a["x"] * (s["y"] * a["w"]).sum(), "w": s["y"] * (a["x"] ** 2).sum(), "y": np.zeros(4)}


@pitfall(
    "a local that a parallel loop reduces into lives in memory",
    "temporaries-constant",
    "prelude-missing",
    gradient=_of_reduction,
)
def _reduced_local(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        total = 0.0
        for i in range(4):
            total += x[i] * x[i]
        for i in range(4):
            y[i] = total * w[i]

    return k
