"""Small kernels on which known mistakes of reverse mode show, each with its gradient in closed form.

All are over f64 fields x, w, y, z of four elements with gradients and an i32 field c. A gradient is a function of the
content before the launch and the cotangents of the content after it, which are zero but for y and z; arrays that it
leaves out keep their cotangents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import stackgrad as sg
from stackgrad.compiler.ir.parser import parse_kernel

Arrays = dict[str, np.ndarray]
CONTENT: Arrays = {
    "x": np.array([0.5, -0.3, 0.8, 0.25]),
    "w": np.array([1.25, 0.75, -0.5, 0.4]),
    "y": np.array([0.1, 0.2, 0.3, 0.4]),
    "z": np.array([-0.4, -0.6, -0.2, 0.3]),
    "c": np.array([3, -1, 2, 0], np.int32),
}


@dataclass(frozen=True)
class Pitfall:
    """shape, rule: the row of the table. gradient: in closed form; None where only dual numbers judge. mutants: those
    that break the rule here. refused: there is no gradient, and a mutant gives one.
    """

    name: str
    rule: str
    make: Callable[[SimpleNamespace], Any]
    gradient: Callable[[Arrays, Arrays], Arrays] | None
    mutants: tuple[str, ...]
    refused: str = ""


PITFALLS: dict[str, Pitfall] = {}


def pitfall(rule: str, *mutants: str, refused: str = "", gradient: Any = None):  # type: ignore[no-untyped-def]
    """Enter a maker under its name."""

    def enter(make):  # type: ignore[no-untyped-def]
        name = make.__name__.lstrip("_")
        PITFALLS[name] = Pitfall(name, rule, make, gradient, mutants, refused)
        return make

    return enter


# ---- adjoints are zeroed where their value is defined -------------------------------------------------------------


def _of_value_before_loop(a: Arrays, s: Arrays) -> Arrays:
    v, w, taken = np.sin(a["x"]), a["w"], np.array([1.0, 0.0, 1.0, 0.0])
    return {
        "x": s["y"] * 2 * v * np.cos(a["x"]) * (taken * w**2).sum(),
        "w": taken * 2 * w * (s["y"] * v**2).sum(),
        "y": np.zeros(4),
    }


@pitfall(
    "adjoints are zeroed once for each execution of the defining block",
    "outer-adjoint-lost",
    "adjoints-outlive-iterations",
    gradient=_of_value_before_loop,
)
def _value_before_loop(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            a = sg.sin(x[i])
            s = 0.0
            for j in range(3):
                b = a * w[j]
                if c[j] > 0:
                    s += b * b
            y[i] = s

    return k


DECLARED = """
kernel k(x: f64[1] grad, w: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: i32 = const 3
    %5: i32 = const 0
    local s: f64
    for %6: i32 in %5 .. %4 {
      local v: f64
      for %7: i32 in %5 .. %4 {
        %8: f64 = get v
        %9: f64 = load w[%7]
        %10: f64 = mul %8, %9
        %11: f64 = add %10, %3
        set v, %11
      }
      %12: f64 = get v
      %13: f64 = get s
      %14: f64 = add %13, %12
      set s, %14
    }
    %15: f64 = get s
    store y[%2], %15
  }
}
"""


def _of_declared(a: Arrays, s: Arrays) -> Arrays:
    x, w, g = a["x"], a["w"], 3 * s["y"]
    return {
        "x": g * (w[1] * w[2] + w[2] + 1),
        "w": np.array([0, (g * x * w[2]).sum(), (g * x * (w[1] + 1)).sum(), 0]),
        "y": np.zeros(4),
    }


@pitfall("a declaration drops the adjoint", "declaration-keeps-adjoint", gradient=_of_declared)
def _declared_and_not_stored(f):
    return SimpleNamespace(ir=lambda: parse_kernel(DECLARED))


def _of_recurrence(a: Arrays, s: Arrays) -> Arrays:
    v, g = a["x"], s["y"]
    for _ in range(3):
        g, v = g * 1.5 * np.cos(v), 1.5 * np.sin(v)
    return {"x": g, "y": np.zeros(4)}


@pitfall("a set ends the life of the version before it", "local-keeps-adjoint", gradient=_of_recurrence)
def _recurrence(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for _ in range(3):
                v = sg.sin(v) * 1.5
            y[i] = v

    return k


def _of_stores(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"] * a["w"], "w": s["y"] * a["x"], "y": np.zeros(4), "z": np.zeros(4)}


@pitfall(
    "a store zeroes the adjoint of the element, one of a constant too",
    "store-keeps-adjoint",
    "constant-store-keeps-adjoint",
    gradient=_of_stores,
)
def _stores(f):
    x, w, y, z = f.x, f.w, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * w[i]
            z[i] = 3.0

    return k


# ---- the reverse sweep reads no mutable local ---------------------------------------------------------------------


def _of_previous_value(a: Arrays, s: Arrays) -> Arrays:
    v = [a["x"]]
    for _ in range(3):
        v.append(np.sin(v[-1]))
    g = s["y"]
    for k in (2, 1, 0):
        g = g * np.cos(v[k]) + 2 * v[k] * s["y"]
    return {"x": g, "y": np.zeros(4)}


@pitfall(
    "the reverse sweep reads no mutable local", "variable-reread", "last-iteration-read", gradient=_of_previous_value
)
def _previous_value(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            s = 0.0
            for _ in range(3):
                q = v
                v = sg.sin(v)
                s += q * q
            y[i] = s + v

    return k


def _of_changed_condition(a: Arrays, s: Arrays) -> Arrays:
    return {"x": s["y"] * np.where(a["x"] > 0, -4 * a["x"], 1.0), "y": np.zeros(4)}


@pitfall("a branch is reversed on the condition that it took", "condition-reread", gradient=_of_changed_condition)
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


def _of_swap(a: Arrays, s: Arrays) -> Arrays:
    x, w = a["x"], a["w"]
    return {"x": s["y"] * (w**2 + 2 * x * w**3), "w": s["y"] * (2 * x * w + 3 * x**2 * w**2), "y": np.zeros(4)}


@pitfall("a swap moves values, not names", "variable-reread", gradient=_of_swap)
def _swap(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            a, b = x[i], w[i]
            for _ in range(3):
                a, b = b, a * b
            y[i] = a + b

    return k


# ---- control flow -------------------------------------------------------------------------------------------------


def _of_break(a: Arrays, s: Arrays) -> Arrays:
    x, w, t = a["x"], a["w"], np.maximum(a["c"], 0)
    return {"x": s["y"] * w**t, "w": s["y"] * t * x * w ** np.maximum(t - 1, 0), "y": np.zeros(4)}


@pitfall("a loop that breaks is reversed for as many trips as it made", "bounds-for-trips", gradient=_of_break)
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


@pitfall("exits in the condition of a while are lowered too", "condition-falls-through", gradient=_of_early_return)
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


@pitfall("passes mark occurrences, not nodes", "nodes-marked", gradient=_of_equal_stores)
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
