"""Test that the derivatives in the manual are those that the compiler computes, and those of the functions.

Each equation is evaluated at points of the operation's safe intervals. It is compared with the gradient of a kernel on
the reference, which follows from the rules of compiler/ad/rules.py, and with central differences of the values of the
same kernel, which are independent of these rules.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.frontend.functions import FUNCTIONS
from stackgrad.compiler.frontend.manual import MANUAL
from stackgrad.compiler.ir.ops import OPS

STATED = {name: entry.derivative for name, entry in MANUAL.items() if entry.derivative}
POINTS = 8
WITHIN = 1e-11
"""Relative difference of the equation and the gradient: both are a few roundings of f64 away from the derivative."""
DIFFERENCES = 2e-6
"""The same of central differences with a step of 1e-6, unless the function jumps or bends there."""

SPACE: dict[str, Any] = {
    **{name: function for name, function in FUNCTIONS.items() if function is not None},
    "trunc": math.trunc,
}
"""What the right sides of the equations may name."""

Points = Mapping[str, Sequence[float]]


def sides(equation: str) -> tuple[str, str]:
    """Return the left and the right side of an equation."""
    left, _, right = equation.partition(" = ")
    return left, right


def stated(equation: str, variable: str, point: Mapping[str, float]) -> float:
    """Return the derivative by one variable that an equation states at a point."""
    differentials = {f"d{name}": float(name == variable) for name in point}
    return float(eval(sides(equation)[1], {**SPACE, **differentials, **point}))


def variables(equation: str, names: Sequence[str]) -> list[str]:
    """Return the variables whose differentials an equation contains."""
    code = compile(sides(equation)[1], equation, "eval")
    return [name for name in names if f"d{name}" in code.co_names]


# ---- kernels: out = f(a, b), with c as a further number -------------------------------------------------------------

A, B, C, OUT = "a", "b", "c", "out"
Fields = Mapping[str, Any]
Make = Callable[[Any, Fields], Any]


def of_one(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(a[i])

    return k


def of_two(f: Any, at: Fields) -> Any:
    a, b, out = at[A], at[B], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(a[i], b[i])

    return k


def of_select(f: Any, at: Fields) -> Any:
    a, b, c, out = at[A], at[B], at[C], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(c[i] > 0.0, a[i], b[i])

    return k


def of_cast(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(a[i], sg.f64)

    return k


def of_bit_cast(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(f(a[i], sg.i64), sg.f64)

    return k


def of_frexp(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            m, e = f(a[i])
            out[i] = m

    return k


def of_range(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = f(a[i], 0.0, -1e4, 1e4)

    return k


def of_none(f: Any, at: Fields) -> Any:
    a, out = at[A], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = 0.0 * a[i] + f()

    return k


def of_atomic(f: Any, at: Fields) -> Any:
    a, b, out = at[A], at[B], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = a[i]
            f(out[i], b[i])

    return k


def of_swap(f: Any, at: Fields) -> Any:
    a, b, c, out = at[A], at[B], at[C], at[OUT]

    @sg.kernel
    def k():
        for i in a:
            out[i] = a[i]
            f(out[i], c[i], b[i])

    return k


ONE, TWO = ["x"], ["x", "y"]
FORMS: dict[str, tuple[Make, list[str]]] = {
    **dict.fromkeys((name for name in STATED if name not in OPS or OPS[name].arity == 1), (of_one, ONE)),
    **dict.fromkeys(("min", "max", "pow", "raw_div", "raw_mod"), (of_two, TWO)),
    "atan2": (of_two, ["y", "x"]),
    "select": (of_select, ["x", "y", "condition"]),
    "cast": (of_cast, ONE),
    "bit_cast": (of_bit_cast, ONE),
    "frexp": (of_frexp, ONE),
    "loop_unique": (of_one, ["val"]),
    "assume_in_range": (of_range, ["val"]),
    **dict.fromkeys(("random", "randn"), (of_none, ONE)),
    **dict.fromkeys((name for name in STATED if name.startswith("atomic_")), (of_atomic, ["x", "value"])),
    "atomic_cas": (of_swap, ["x", "new", "expected"]),
}
"""For each function the kernel, and the names that the manual gives to the numbers a, b and c in it."""
SMOOTH_ONLY = {"random", "randn", "bit_cast", "stop_grad"}
"""Functions whose values change although no derivative is taken: differences say nothing."""


def points(name: str) -> dict[str, list[float]]:
    """Return numbers a, b and c: random numbers of the safe intervals, then a pair of equal ones."""
    draw = random.Random(name)
    op = OPS.get(name)
    first, second = (*(op.safe if op is not None and name != "select" else ()), (-3.0, 3.0), (-3.0, 3.0))[:2]
    a = [draw.uniform(*first) for _ in range(POINTS)]
    b = [draw.uniform(*second) for _ in range(POINTS)]
    a[-1] = b[-1] = draw.uniform(max(first[0], second[0]), min(first[1], second[1]))
    c = [a[k] if k % 2 else -a[k] for k in range(POINTS)]
    return {A: a, B: b, C: c}


def run(name: str, given: Points) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the values of the kernel of a function, and its gradients by a and b, on the reference."""
    sg.init(arch=sg.reference, default_fp=sg.f64, random_seed=1)
    at = {key: sg.field(sg.f64, POINTS, needs_grad=True) for key in (A, B, C, OUT)}
    for key in (A, B, C):
        at[key].from_numpy(np.array(given[key]))
    kernel = FORMS[name][0](getattr(sg, name), at)
    kernel()
    values = at[OUT].to_numpy().copy()
    at[OUT].grad.fill(1.0)
    kernel.grad()
    return values, {key: at[key].grad.to_numpy() for key in (A, B)}


def values_at(name: str, given: Points, key: str, step: float) -> np.ndarray:
    """Return the values of the kernel after adding `step` to the number `key`."""
    return run(name, {**given, key: [x + step for x in given[key]]})[0]


@pytest.mark.parametrize("name", sorted(STATED))
def test_equations_are_what_the_rules_give(name: str) -> None:
    given = points(name)
    gradients = run(name, given)[1]
    for key, variable in zip((A, B), FORMS[name][1]):
        for k in range(POINTS):
            point = dict(zip(FORMS[name][1], (given[A][k], given[B][k], given[C][k])))
            if "condition" in point:
                point["condition"] = point["condition"] > 0.0
            wanted = stated(STATED[name], variable, point)
            assert gradients[key][k] == pytest.approx(wanted, rel=WITHIN, abs=0.0), (variable, point)


@pytest.mark.parametrize("name", sorted(STATED.keys() - SMOOTH_ONLY))
def test_equations_are_those_of_the_functions(name: str) -> None:
    """The last point, with equal numbers, is left out: there the function may bend."""
    given, step = points(name), 1e-6
    for key, variable in zip((A, B), FORMS[name][1]):
        if name == "atomic_cas" and key == A:
            continue  # the comparison with the number expected fails as soon as x moves
        high, low = values_at(name, given, key, step), values_at(name, given, key, -step)
        for k in range(POINTS - 1):
            point = dict(zip(FORMS[name][1], (given[A][k], given[B][k], given[C][k])))
            if "condition" in point:
                point["condition"] = point["condition"] > 0.0
            slope, wanted = (high[k] - low[k]) / (2 * step), stated(STATED[name], variable, point)
            scale = max(1.0, abs(float(high[k])) * 1e-3)
            assert slope == pytest.approx(wanted, rel=DIFFERENCES, abs=DIFFERENCES * scale), (variable, point)


def test_every_differentiable_function_has_an_equation() -> None:
    derived = {name for name in MANUAL if name in VJP and any(rule is not None for rule in VJP[name])}
    assert len(derived) > 15
    assert derived - STATED.keys() == set()
    flat = {name for name in MANUAL if name in OPS and OPS[name].kind == "flat"}
    assert {sides(STATED[name])[1] for name in flat} == {"0"}


def test_equations_name_what_they_are_about() -> None:
    for name, equation in STATED.items():
        left = sides(equation)[0]
        parameters = list(MANUAL[name].signature.parameters)
        if not name.startswith("atomic_"):
            assert left.startswith(f"d {name}("), equation
        known = parameters if name not in ("min", "max") else TWO
        assert set(variables(equation, FORMS[name][1])) <= set(known), equation


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sin", "d sin(x) = sin(x) * dx"),
        ("cos", "d cos(x) = sin(x) * dx"),
        ("min", "d min(x, y) = dx if x <= y else dy"),
        ("pow", "d pow(x, y) = y * pow(x, y - 1) * dx"),
        ("floor", "d floor(x) = dx"),
        ("atomic_sub", "d x = dx + dvalue"),
    ],
)
def test_wrong_equations_are_noticed(name: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATED, name, wrong)
    with pytest.raises(AssertionError):
        test_equations_are_what_the_rules_give(name)
