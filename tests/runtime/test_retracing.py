"""Kernels are traced again when something that they read has changed, and never because an object was made anew."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import fresh_support
import numpy as np
import pytest
import stackgrad as sg
from fresh_support import COUNT, GIVEN, READ, Holder, Plain, defined, times
from stackgrad.launch import kernels

LAUNCHES = 10


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, fresh_runtime: None) -> list[str]:
    """Names of the functions that are traced, one for each time."""
    found: list[str] = []
    right = kernels.trace_function

    def noted(function: Any, *args: Any, **keywords: Any) -> Any:
        found.append(function.__name__)
        return right(function, *args, **keywords)

    monkeypatch.setattr(kernels, "trace_function", noted)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("name", READ)
def test_objects_that_are_made_anew_are_no_change(name: str, traced: list[str]) -> None:
    text, change = READ[name]
    holder = defined(text)["Made"]()
    for _ in range(LAUNCHES):
        holder.run()
    assert traced == ["run"] and holder.y[0] == 1.0
    change(holder)
    for _ in range(LAUNCHES):
        holder.run()
    assert traced == ["run"] * 2 and holder.y[0] == 2.0


@pytest.mark.rotating
@pytest.mark.parametrize("is_method", [True, False])
@pytest.mark.parametrize("name", GIVEN)
def test_equal_arguments_share_a_trace(name: str, is_method: bool, traced: list[str]) -> None:
    make, text = GIVEN[name]
    names, holder = defined(text, ", a: sg.template()", is_method), Holder()
    if is_method:
        holder = names["Made"]()
    launch = holder.run if is_method else lambda a: names["run"](holder.x, holder.y, a)
    for _ in range(LAUNCHES):
        launch(make(1.0))
    assert traced == ["run"] and holder.y[0] == 1.0
    for value in (2.0, 1.0, 2.0):
        launch(make(value))
        assert holder.y[0] == value
    assert len(traced) <= 2, "each value was traced once"


def test_gradients_of_kernels_with_new_arguments(traced: list[str]) -> None:
    holder = defined("a(1.0)", ", a: sg.template()")["Made"]()
    for value in (2.0, 2.0, 2.0, 5.0, 2.0):
        with sg.ad.Tape(holder.y, seed=np.ones(COUNT)):
            holder.run(times(value))
        assert holder.x.grad[0] == value
        sg.ad.clear_all_gradients()
        holder.y.grad.fill(1.0)
        holder.run.grad(times(value))
        assert holder.x.grad[0] == value
    assert traced == ["run"] * 2


def test_what_a_new_argument_reads_elsewhere_is_noticed(traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    holder = defined("a.value * a.shared", ", a: sg.template()")["Made"]()
    for shared in (1.0, 1.0, 4.0, 4.0):
        monkeypatch.setattr(Plain, "shared", shared)
        holder.run(Plain(2.0))
        assert holder.y[0] == 2.0 * shared
    assert traced == ["run"] * 2
    holder = defined("a(1.0)", ", a: sg.template()")["Made"]()
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setattr(fresh_support, "number", number, raising=False)
        holder.run(fresh_support.of_module())
        assert holder.y[0] == number
    assert traced == ["run"] * 4


def test_an_argument_that_changes_after_it_was_served_as_an_equal_one(traced: list[str]) -> None:
    holder = defined("a.value", ", a: sg.template()")["Made"]()
    first, second = Plain(1.0), Plain(1.0)
    for _ in range(40):
        holder.run(first)
        holder.run(second)
    assert holder.y[0] == 1.0
    second.value = 3.0
    holder.run(second)
    assert holder.y[0] == 3.0
    holder.run(first)
    assert holder.y[0] == 1.0
    for _ in range(40):
        holder.run(second)
    second.value = 5.0
    holder.run(second)
    assert holder.y[0] == 5.0


def test_arguments_die_although_their_trace_serves_equal_ones(traced: list[str]) -> None:
    holder = defined("a(1.0) + b.give()", ", a: sg.template(), b: sg.template()")["Made"]()
    function, thing = times(2.0), Plain(1.0)
    for _ in range(5):
        holder.run(function, thing)
    dead = [weakref.ref(function), weakref.ref(thing)]
    del function, thing
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    holder.run(times(2.0), Plain(1.0))
    assert traced == ["run"] and holder.y[0] == 3.0


@pytest.mark.parametrize(
    "name", ["lambda", "closure in a list", "object, property", "method of an object that is made"]
)
def test_the_holder_dies_although_new_objects_refer_to_it(name: str, traced: list[str]) -> None:
    holder = defined(READ[name][0])["Made"]()
    for _ in range(5):
        holder.run()
    dead, kernel = weakref.ref(holder), holder.run.__func__
    del holder
    gc.collect()
    assert dead() is None and kernel.programs == ()


def test_a_bound_method_of_a_holder_ends_with_it(traced: list[str]) -> None:
    names = defined("sg.static(a())", ", a: sg.template()", is_method=False)
    for value in (1.0, 2.0, 3.0):
        holder = Holder()
        holder.number = value
        for _ in range(4):
            names["run"](holder.x, holder.y, holder.method)
        assert holder.y[0] == value
        dead = weakref.ref(holder)
        del holder
        gc.collect()
        assert dead() is None
    assert traced == ["run"] * 3


@sg.data_oriented
class Simulator:
    """The pattern of simulators with objects of their own, stencils from methods, and numbers from properties."""

    def __init__(self) -> None:
        self.dim, self.weight = 2, 0.5
        self.grid = sg.field(sg.f64, (4, 4), needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.bodies = [Plain(1.0), Plain(2.0)]

    def stencil(self) -> Any:
        return sg.ndrange(*((2,) * self.dim))

    @property
    def shape(self) -> tuple[int, ...]:
        return (4,) * self.dim

    @sg.func
    def force(self, body: sg.template(), v):  # type: ignore[no-untyped-def, valid-type]
        return v * body.give() * self.weight

    @sg.kernel
    def substep(self, rule: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for I in sg.grouped(sg.ndrange(*self.shape)):
            for offset in sg.static(sg.grouped(self.stencil())):
                for k in sg.static(range(len(self.bodies))):
                    self.loss[None] += rule(self.force(self.bodies[k], self.grid[I])) * (offset[0] + 1)


def test_the_pattern_of_simulators(traced: list[str]) -> None:
    simulator = Simulator()
    simulator.grid.fill(1.0)
    for _ in range(LAUNCHES):
        simulator.loss[None] = 0.0
        simulator.substep(times(1.0))
    assert traced == ["substep"] and simulator.loss[None] == 16 * 3.0 * 0.5 * 6
    simulator.bodies[1].value = 4.0
    simulator.loss[None] = 0.0
    simulator.substep(times(1.0))
    assert traced == ["substep"] * 2 and simulator.loss[None] == 16 * 5.0 * 0.5 * 6


def _struct() -> tuple[Any, Any]:
    held = sg.types.struct(a=sg.f64)(a=1.0)
    return lambda: (lambda own: lambda: own.a)(held), lambda value: setattr(held, "a", value)


def _large_dictionary() -> tuple[Any, Any]:
    held = {"a": 1.0} | dict.fromkeys(range(300), 0)
    return lambda: (lambda own: lambda: own["a"])(held), lambda value: held.update(a=value)


@pytest.mark.parametrize("make", [_struct, _large_dictionary])
def test_equal_functions_see_changes_of_what_they_share(make: Any, traced: list[str]) -> None:
    """What the closure of an argument contains may change between two calls."""
    x, (given, change) = sg.field(sg.f64, COUNT), make()

    @sg.kernel
    def run(f: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            x[i] = f()

    for value in (1.0, 2.0):
        change(value)
        for _ in range(3):
            run(given())
            assert x[0] == value
