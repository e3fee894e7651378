"""One small kernel for each mutant that its gradient, values or adstacks give away; more in `memory_witnesses`.

Every kernel is over f64 fields x, w, y, z of four elements with gradients and an i32 field c, and runs once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import stackgrad as sg

CONTENT = {
    "x": np.array([0.5, -0.3, 0.8, 0.25]),
    "w": np.array([1.25, 0.75, -0.5, 0.4]),
    "y": np.array([0.1, 0.2, 0.3, 0.4]),
    "z": np.array([-0.4, -0.6, -0.2, 0.3]),
    "c": np.array([3, -1, 2, 0], np.int32),
}

WITNESSES: dict[str, Callable[[SimpleNamespace], sg.Kernel]] = {}
"""Makers of kernels, by the name of the mutant. Some mutants share one."""


def fields() -> SimpleNamespace:
    """Fields for the kernels; only their shapes count, what is launched are copies of CONTENT."""
    reals = {name: sg.field(sg.f64, shape=(4,), needs_grad=True) for name in "xwyz"}
    return SimpleNamespace(**reals, c=sg.field(sg.i32, shape=(4,)))


def witness(*names: str):  # type: ignore[no-untyped-def]
    """Enter a maker under the names of the mutants it gives away."""

    def enter(maker):  # type: ignore[no-untyped-def]
        WITNESSES.update(dict.fromkeys(names, maker))
        return maker

    return enter


@witness("outer-adjoint-lost", "overwritten-after-block")
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


@witness("store-keeps-adjoint", "adjoints-rounded", "tangent-store-lost")
def _store(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * w[i]

    return k


@witness("constant-store-keeps-adjoint", "tangent-survives-constant")
def _constant_store(f):
    y = f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = 3.0

    return k


@witness(
    "local-keeps-adjoint",
    "for-misses-first",
    "variable-reread",
    "last-iteration-read",
    "expression-one-short",
    "slot-adjoint-not-zeroed",
    "tangent-local-stale",
    "gate-of-other-slab",
    "slots-overlap",
    "wrong-coefficient",
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


@witness("adjoints-outlive-iterations")
def _branch_inside_a_loop(f):
    x, w, y, c = f.x, f.w, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(3):
                a = v * w[j]
                if c[i] > j:
                    v += a * a
            y[i] = v

    return k


@witness("shared-element-plain-add")
def _shared_element(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[0] * w[i]

    return k


@witness("atomic-add-zeroes", "tangent-sum-lost")
def _atomic_add(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[0] += x[i]

    return k


@witness("extreme-taken-by-all", "extreme-zeroes-adjoint", "tangent-of-last-update")
def _atomic_max(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_max(z[0], x[i])

    return k


@witness("rest-inside-loop")
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


@witness("siblings-forward", "offsets-confused")
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


@witness("bounds-for-trips")
def _early_exit(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for j in range(5):
                if j >= c[i]:
                    break
                v = v * v + x[i]
            y[i] = v

    return k


@witness("count-one-short", "while-one-trip-short")
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


@witness("negative-step-forward")
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


@witness("tasks-forward")
def _two_tasks(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            z[i] = sg.sin(x[i])
        for i in range(4):
            y[i] = z[i] * z[i]

    return k


@witness("continue-leaves")
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


@witness("condition-reread")
def _branch_that_changes_its_condition(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            if v > 0.0:
                v = -2.0 * v * v
            y[i] = v

    return k


@witness("push-missing-in-arm", "push-in-first-arm", "guard-ignored")
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


@witness("risk-ignored")
def _overwritten_later(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * x[i]
        for i in range(4):
            x[i] = 2.0

    return k


@witness("prelude-missing")
def _value_crosses_tasks(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        s = w[0] * w[1]
        for i in range(4):
            y[i] = x[i] * s * s

    return k


@witness("sub-without-sign", "max-loser-takes", "tanh-of-operand", "tangent-of-loser")
def _operations(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = sg.tanh(x[i] - w[i]) * max(x[i], 0.5 * w[i])

    return k


@witness("loads-merged-over-store")
def _load_after_store(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = y[i] + x[i]
            z[i] = 2.0 * y[i]

    return k


@witness("set-before-loop-dropped")
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


@witness("unsigned-compared-signed")
def _unsigned_comparison(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            if sg.cast(c[i], sg.u32) < sg.cast(7, sg.u32):
                y[i] = x[i]

    return k


@witness("division-truncates")
def _floor_division(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[i] * ((c[i] - 2) // 2)

    return k
