"""Define kernels of the catalogue whose elements are overwritten, shared or gathered, and kernels of several tasks."""

from __future__ import annotations

import numpy as np
import stackgrad as sg

from .entry import Arrays, entry, gives_away


def _of_read_then_overwritten(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"] * 2 * a["x"], "y": np.zeros(4)}


@entry("a load that the kernel overwrites is not made again", "risk-ignored", gradient=_of_read_then_overwritten)
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


@entry(
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


@entry(
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


def _of_reduction(a: Arrays, s: Arrays) -> Arrays:
    return {"x": 2 * a["x"] * (s["y"] * a["w"]).sum(), "w": s["y"] * (a["x"] ** 2).sum(), "y": np.zeros(4)}


@entry(
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


@gives_away("tasks-forward")
def _two_tasks(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            z[i] = sg.sin(x[i])
        for i in range(4):
            y[i] = z[i] * z[i]

    return k


@gives_away("draws-of-grad-tasks")
def _draw_in_the_second_task(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            z[i] = 2.0 * x[i]
        for i in range(4):
            y[i] = x[i] * sg.random()

    return k


@gives_away("loads-merged-over-store")
def _load_after_store(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = y[i] + x[i]
            z[i] = 2.0 * y[i]

    return k


@gives_away("shared-element-plain-add")
def _shared_element(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[0] * w[i]

    return k


@gives_away("own-add-lost")
def _gathered(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[abs(c[i]) // 2] * 2.0

    return k


@gives_away("later-trips-harmless")
def _overwritten_in_a_later_trip(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for _ in range(1):
            for t in range(2):
                x[t * c[3]] = 0.5 * w[t]
                y[t] = x[0] * x[0]

    return k
