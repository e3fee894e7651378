# ruff: noqa: F821, F841, RET504 - globals are those of the fixture `outside`, and locals named like them the point
"""Locals that are named like what a kernel could capture: fields, views, functions, numbers of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("outside")
V = np.array([0.3, 0.4, 0.5])


factor = 5.0


@sg.func
def twice(a):
    return 2.0 * a


# ---- every form of assignment, with value and slope of the sum over x -----------------------------------------------

FORMS: list[Any] = []


def form(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enter a kernel that adds value(x[i]) to the loss for each i."""

    def enter(function: Any) -> Any:
        FORMS.append(pytest.param(function, value, slope, id=function.__name__))
        return function

    return enter


@form(lambda x: 4 * x**2, lambda x: 8 * x)
def plain():
    for i in x:
        act = 0.0
        act += x[i] * 2.0
        loss[None] += act * act


@form(lambda x: x**2, lambda x: 2 * x)
def annotated():
    for i in x:
        act: sg.f64 = x[i]
        loss[None] += act * act


@form(lambda x: 2 * x, lambda x: 2 + 0 * x)
def unpacked():
    for i in x:
        act, (part, pair) = x[i], (2.0, 1.0)
        loss[None] += act * part * pair


@form(lambda x: 6 * x**3, lambda x: 18 * x**2)
def several_targets():
    for i in x:
        act = pair = x[i]
        pair *= 6.0
        loss[None] += act * act * pair


@form(lambda x: 5 * x**2, lambda x: 10 * x)
def vector():
    for i in x:
        pair = sg.Vector([x[i], 0.0])
        pair.y = 2.0 * x[i]
        loss[None] += pair.norm_sqr()


@form(lambda x: 3 * x, lambda x: 3 + 0 * x)
def index_of_a_serial_loop():
    for i in x:
        for act in range(3):
            loss[None] += x[i] * act


@form(lambda x: x**2, lambda x: 2 * x)
def index_of_the_task():
    for act in x:
        loss[None] += x[act] ** 2


@form(lambda x: x**2, lambda x: 2 * x)
def index_vector():
    for part in sg.grouped(x):
        loss[None] += x[part] ** 2


@form(lambda x: 3 * x, lambda x: 3 + 0 * x)
def index_of_an_unrolled_loop():
    for i in x:
        for act, part in sg.static(enumerate((1.0, 1.0, 1.0))):
            loss[None] += x[i] * act * part


@form(lambda x: 9 * x**2, lambda x: 18 * x)
def walrus():
    for i in x:
        loss[None] += (act := 3.0 * x[i]) * act


@form(lambda x: 33 * x, lambda x: 33 + 0 * x)
def comprehension():
    """Its index is a name of its own, so that the field keeps its name around it."""
    for i in x:
        made = [x[i] * act for act in range(3)]
        loss[None] += 11.0 * (made[1] + made[2]) + 0.0 * act[i]


@form(lambda x: x**2, lambda x: 2 * x)
def view():
    for i in range(3):
        act = sg.BufferView(x, 0, 3)
        loss[None] += act[i] ** 2


@form(lambda x: 7 * x, lambda x: 7 + 0 * x)
def static_value():
    for i in x:
        act = sg.static(7.0)
        loss[None] += act * x[i]


@form(lambda x: 2 * x, lambda x: 2 + 0 * x)
def function_and_number():
    for i in x:
        twice, factor = x[i], 2.0
        loss[None] += twice * factor


@form(lambda x: x**8, lambda x: 8 * x**7)
def carried_through_a_loop():
    for i in x:
        act, part = x[i], 0
        while part < 3:
            act = act * act
            part += 1
        loss[None] += act


@form(lambda x: np.where(x > 0.35, 3 * x, x), lambda x: np.where(x > 0.35, 3.0, 1.0))
def changed_in_a_branch():
    for i in x:
        act = x[i]
        if x[i] > 0.35:
            act = 3.0 * x[i]
        loss[None] += act


@form(lambda x: 0.5 * x, lambda x: 0.5 + 0 * x)
def above_the_loop():
    act = 0.5
    for i in x:
        loss[None] += act * x[i]


@sg.func
def inner(a):
    act = a * a
    return act


@sg.func
def reader(i):
    return act[i]


@form(lambda x: 20 * x**3, lambda x: 40 * x**2)
def in_functions():
    """Each function has locals of its own: the kernel's `act` is neither that of `inner` nor what `reader` reads."""
    for i in x:
        act = 2.0
        loss[None] += act * inner(x[i]) * reader(i)


@pytest.mark.parametrize(("function", "value", "slope"), FORMS)
def test_is_a_local(function: Any, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> None:
    """Value, gradient and tangent of every form; the field of that name stays as it is."""
    k = sg.kernel(function)
    with sg.ad.Tape(loss):
        k()
    assert loss[None] == pytest.approx(value(V).sum())
    np.testing.assert_allclose(x.grad.to_numpy(), slope(V), rtol=1e-12)
    loss[None] = 0.0
    with sg.ad.FwdMode(loss, x, seed=[1.0, -2.0, 0.5]):
        k()
    assert loss.dual[None] == pytest.approx(slope(V) @ [1.0, -2.0, 0.5])
    assert act.to_numpy().tolist() == (10 * V).tolist()


def test_arrays_keep_their_names() -> None:
    """Messages name an array as the program does, whatever locals came before it; and a local likewise."""

    @sg.kernel
    def carried():
        act = 0.0
        for i in x:
            act = reader(i + 3) + act
            y[i] = act

    with (
        pytest.warns(sg.KernelWarning, match="the loop stores to `act`, which is declared outside"),
        pytest.raises(sg.OutOfBounds, match=r"\bact\b"),
    ):
        carried()
        sg.sync()
    assert [p.name for p in carried.ir().params] == ["x", "act", "y"]


def test_parameters_are_not_assigned() -> None:
    @sg.kernel
    def assigned(act: sg.template()):
        act = 3.0
        loss[None] += act

    @sg.kernel
    def updated(act: sg.types.ndarray(sg.f64, 1)):
        act += 3.0

    @sg.func
    def of_function(act):
        act = 3.0
        return act

    @sg.kernel
    def calls():
        loss[None] += of_function(x)

    with pytest.raises(sg.KernelSyntaxError, match="`act` is a parameter and cannot be assigned"):
        assigned(x)
    with pytest.raises(sg.KernelTypeError, match="the field `act` cannot be assigned as a whole"):
        updated(sg.ndarray(sg.f64, 3))
    with pytest.raises(sg.KernelSyntaxError, match="`act` is a parameter and cannot be assigned"):
        calls()


def test_a_global_that_is_hidden_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    k = sg.kernel(plain)
    k()
    traced = k.program()
    monkeypatch.setitem(globals(), "act", "something else")
    k()
    assert k.program() is traced
