"""Define kernels of the catalogue with branches, loops and exits."""

from __future__ import annotations

import numpy as np
import stackgrad as sg

from .entry import Arrays, entry, gives_away


def _of_changed_condition(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"] * np.where(a["x"] > 0, -4 * a["x"], 1.0), "y": np.zeros(4)}


@entry("a branch is reversed on the condition that it took", "condition-reread", gradient=_of_changed_condition)
def _branch_writes_its_condition(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            if v > 0.0:
                v = -2.0 * v * v
            y[i] = v

    return k


def _of_break(a: Arrays, s: Arrays) -> Arrays:
    x, w, t = a["x"], a["w"], np.maximum(a["c"], 0)
    return {"x": s["y"] * w**t, "w": s["y"] * t * x * w ** np.maximum(t - 1, 0), "y": np.zeros(4)}


@entry("a loop that breaks is reversed for as many trips as it made", "bounds-for-trips", gradient=_of_break)
def _break(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(5):
                if j >= c[i]:
                    break
                v = v * w[i]
            y[i] = v

    return k


def _of_early_return(a: Arrays, s: Arrays) -> Arrays:
    v, g = a["x"].copy(), s["y"].copy()
    while (v > 0.4).any():
        again = v > 0.4
        g, v = np.where(again, g * 0.75 * np.cos(v), g), np.where(again, 0.75 * np.sin(v), v)
    return {"x": g, "y": np.zeros(4)}


@entry("exits in the condition of a while are lowered too", "condition-falls-through", gradient=_of_early_return)
def _condition_returns_early(f):
    x, y = f.x, f.y

    @sg.func
    def goes_on(v):
        if v > 0.4:
            return 1
        return 0

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            while goes_on(v) == 1:
                v = 0.75 * sg.sin(v)
            y[i] = v

    return k


def _of_equal_stores(a: Arrays, s: Arrays) -> Arrays:
    return {"x": np.where((a["c"] > 1) | (a["c"] < 0), s["y"], 0.0), "y": np.zeros(4)}


@entry("passes mark occurrences, not nodes", "nodes-marked", gradient=_of_equal_stores)
def _equal_stores(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v, u = 0.5, x[i]
            if c[i] > 1:
                v = u
            if c[i] < 0:
                v = u
            y[i] = v

    return k


@gives_away("count-one-short", "while-one-trip-short")
def _while(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            j = 0
            while j < c[i]:
                v = sg.sin(v) * 1.5
                j += 1
            y[i] = v

    return k


@gives_away("negative-step-forward")
def _negative_step(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(3, 0, -1):
                v = v * w[j] + sg.sin(v)
            y[i] = v

    return k


@gives_away("continue-leaves")
def _continue(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(4):
                if c[j] < 0:
                    continue
                v = v * w[j] + x[i]
            y[i] = v

    return k


@gives_away("push-missing-in-arm", "push-in-first-arm", "guard-ignored")
def _two_arms(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(4):
                if c[j] > 0:
                    v = sg.sin(v) * 1.5
                else:
                    v = sg.cos(v * v)
            y[i] = v

    return k


@gives_away("mask-not-restored", "lane-across", "sizes-outlive-content")
def _as_often_as_data_say(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for _ in range(c[i]):
                v = sg.sin(v) * 1.5
            y[i] = v

    return k


@gives_away("wrong-extent")
def _loop_over_an_array(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in y:
            y[i] = y[i] + 2.0 * x[i]

    return k
