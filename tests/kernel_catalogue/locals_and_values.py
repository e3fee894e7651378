"""Define kernels of the catalogue for adjoints of values and locals, for operations, and for temporaries of tasks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import stackgrad as sg
from stackgrad.compiler.ir.parser import parse_kernel

from .entry import Arrays, entry, gives_away


def _of_value_before_loop(a: Arrays, s: Arrays) -> Arrays:
    v, w, taken = np.sin(a["x"]), a["w"], np.array([1.0, 0.0, 1.0, 0.0])
    return {
        "x": s["y"] * 2 * v * np.cos(a["x"]) * (taken * w**2).sum(),
        "w": taken * 2 * w * (s["y"] * v**2).sum(),
        "y": np.zeros(4),
    }


@entry(
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


@gives_away("outer-adjoint-lost", "overwritten-after-block")
def _value_from_before_a_loop(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            a = sg.sin(x[i])
            s = 2.0 * a
            for j in range(3):
                s += a * w[j]
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


@entry("a declaration drops the adjoint", "declaration-keeps-adjoint", gradient=_of_declared)
def _declared_and_not_stored(f):
    return SimpleNamespace(ir=lambda: parse_kernel(DECLARED))


def _of_recurrence(a: Arrays, s: Arrays) -> Arrays:
    v, g = a["x"], s["y"]
    for _ in range(3):
        g, v = g * 1.5 * np.cos(v), 1.5 * np.sin(v)
    return {"x": g, "y": np.zeros(4)}


@entry(
    "a set ends the life of the version before it",
    "local-keeps-adjoint",
    others=(
        "for-misses-first",
        "variable-reread",
        "last-iteration-read",
        "expression-one-short",
        "slot-adjoint-not-zeroed",
        "tangent-local-stale",
        "gate-of-other-slab",
        "slots-overlap",
        "wrong-coefficient",
    ),
    gradient=_of_recurrence,
)
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


@entry(
    "a store zeroes the adjoint of the element, one of a constant too",
    "store-keeps-adjoint",
    "constant-store-keeps-adjoint",
    others=("adjoints-rounded", "tangent-store-lost", "tangent-survives-constant"),
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


def _of_previous_value(a: Arrays, s: Arrays) -> Arrays:
    v = [a["x"]]
    for _ in range(3):
        v.append(np.sin(v[-1]))
    g = s["y"]
    for k in (2, 1, 0):
        g = g * np.cos(v[k]) + 2 * v[k] * s["y"]
    return {"x": g, "y": np.zeros(4)}


@entry(
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


def _of_swap(a: Arrays, s: Arrays) -> Arrays:
    x, w = a["x"], a["w"]
    return {"x": s["y"] * (w**2 + 2 * x * w**3), "w": s["y"] * (2 * x * w + 3 * x**2 * w**2), "y": np.zeros(4)}


@entry("a swap moves values, not names", "variable-reread", gradient=_of_swap)
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


@gives_away("rest-inside-loop")
def _statements_before_a_loop(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            u = v * w[i]
            for _ in range(3):
                u = u * v
            y[i] = u

    return k


@gives_away("set-before-loop-dropped")
def _set_before_a_loop(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            s = 0.0
            for _ in range(3):
                s += v
                v = v * 2.0
            y[i] = s

    return k


@gives_away("siblings-forward", "offsets-confused")
def _two_loops(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for _ in range(3):
                v = sg.sin(v) * 1.5
            for _ in range(2):
                v = v * v + x[i]
            y[i] = v

    return k


@gives_away("sub-without-sign", "max-loser-takes", "tanh-of-operand", "tangent-of-loser")
def _operations(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = sg.tanh(x[i] - w[i]) * max(x[i], 0.5 * w[i])

    return k


@gives_away("unsigned-compared-signed")
def _unsigned_comparison(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            if sg.cast(c[i], sg.u32) < sg.cast(7, sg.u32):
                y[i] = x[i]

    return k


@gives_away("division-truncates")
def _floor_division(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * ((c[i] - 2) // 2)

    return k


@gives_away("sum-kept-in-half", exact=False)
def _value_in_half_precision(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            h = sg.cast(x[i], sg.f16)
            a = h - sg.stop_grad(h)  # 0 however it is rounded
            s = 0.0
            for _ in range(3):
                s += a * 1.000244140625  # a slope that half precision takes for 1, and that f32 holds
            y[i] = s

    return k
