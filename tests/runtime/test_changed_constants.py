"""What a kernel took from Python objects may change between launches: the next launch sees it, in every direction."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from constants_support import HOW, SOURCES, Program, Step, programs, run
from hypothesis import HealthCheck, given, settings
from stackgrad.backends import registry
from stackgrad.launch import kernels

OPTIONS = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=["reference", "cpu", "vulkan"])
def arch(request: pytest.FixtureRequest, fresh_runtime: None) -> str:
    probe = registry.probe_all()[request.param]
    if not probe.available:
        pytest.skip(f"{request.param}: {probe.reason}; cure: {probe.cure}")
    sg.init(arch=request.param, default_fp=sg.f64)
    return str(request.param)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are traced, one for each time."""
    found: list[str] = []
    right = kernels.trace_function

    def noted(function: Any, *args: Any, **keywords: Any) -> Any:
        found.append(function.__name__)
        return right(function, *args, **keywords)

    monkeypatch.setattr(kernels, "trace_function", noted)
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("name", SOURCES)
def test_a_change_is_seen(arch: str, name: str) -> None:
    steps = [Step(0, value, how) for how in HOW for value in (2.0, 5.0)]
    assert run([name], steps, anew=True) == ""


@pytest.mark.rotating
@pytest.mark.parametrize("name", SOURCES)
def test_what_stays_is_traced_once_and_stands_ready(name: str, traced: list[str]) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    program = Program([name])
    for _ in range(8):
        program.kernel()
        program.kernel.grad()
    assert traced == ["run"]
    kernel = program.names["Made"].run
    for site in (kernel._forward, kernel._reverse):
        assert site.free.launched + (site.guarded.launched if site.guarded else 0) > 0
    program.change(0, 2.0)
    program.kernel()
    assert traced == ["run", "run"]


@pytest.mark.expensive
@settings(max_examples=25, **OPTIONS)
@given(programs())
def test_drawn_programs(program: tuple[list[str], list[Step]]) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    sources, steps = program
    assert run(sources, steps) == ""


# ---- kernels without an object ---------------------------------------------------------------------------------------

FACTOR = 2.0
WEIGHTS = np.array([2.0, 3.0])


@pytest.fixture
def factor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the factor of the module."""
    yield lambda value: monkeypatch.setitem(globals(), "FACTOR", value)


def scalar(value: float = 0.0) -> Any:
    made = sg.field(sg.f64, (), needs_grad=True)
    made[None] = value
    return made


def test_names_of_a_module(arch: str, factor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = scalar(1.5), scalar()

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] = x[None] * FACTOR + WEIGHTS[0]

    for value in (2.0, 2.0, 2.0, 2.0, 3.0, np.float64(0.5), 4, 2.0):
        factor(value)
        monkeypatch.setitem(globals(), "WEIGHTS", np.array([value, 0.0]))
        k()
        assert y[None] == 1.5 * value + value
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        k.grad()
        assert x.grad[None] == value


def test_cells_of_closures(arch: str) -> None:
    x, y, factor, weights = scalar(1.5), scalar(), 2.0, [1.0, 1.0]

    def scaled(v):  # type: ignore[no-untyped-def]
        return v * factor

    function = sg.func(scaled)

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] = function(x[None]) + weights[1] + factor

    def check(value: float) -> None:
        for _ in range(5):
            k()
            assert y[None] == value

    check(3.0 + 1.0 + 2.0)
    factor = 4.0
    check(6.0 + 1.0 + 4.0)
    weights[1] = 0.5
    check(6.0 + 0.5 + 4.0)

    def shifted(v):  # type: ignore[no-untyped-def]
        return v + factor

    function = sg.func(shifted)
    check(5.5 + 0.5 + 4.0)
    other, x = x, scalar(8.0)
    check(12.0 + 0.5 + 4.0)
    x = other
    check(5.5 + 0.5 + 4.0)


def test_numbers_that_differ_in_type_or_sign_alone(arch: str) -> None:
    x, y, value = scalar(1.0), scalar(), 0

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        if sg.static(isinstance(value, int)):
            y[None] = 5.0
        else:
            y[None] = 1.0 / (x[None] * value)

    seen = []
    for value in (0, 0.0, -0.0, False, 0):  # noqa: B007 (the kernel reads it)
        k()
        seen.append(y[None])
    assert seen == [5.0, np.inf, -np.inf, 5.0, 5.0]


def test_a_gradient_by_hand_is_taken_with_what_is_true_now(arch: str) -> None:
    x, y, factor = scalar(1.0), scalar(), 2.0

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] += x[None] * factor

    with sg.ad.Tape(y):
        k()
        factor = 3.0
        k()
        factor = 100.0
    assert (y[None], x.grad[None]) == (5.0, 5.0), "a tape goes back through what was launched"
    y.grad[None], x.grad[None] = 1.0, 0.0
    k.grad()
    assert x.grad[None] == 100.0


def test_an_error_of_the_new_trace_is_located(arch: str) -> None:
    y, values = scalar(), [1.0, 2.0]

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] = values[1]

    k()
    values.pop()
    with pytest.raises(sg.KernelTypeError, match=r"cannot be indexed so") as caught:
        k()
    assert "values[1]" in str(caught.value) and "test_changed_constants.py:" in str(caught.value)
    values.append(5.0)
    k()
    assert y[None] == 5.0


@pytest.mark.parametrize("make", [lambda: np.random.rand, lambda: random.random, lambda: itertools.count().__next__])
def test_numbers_that_nothing_repeats_are_refused(make: Any) -> None:
    y, draw = scalar(), make()

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] = sg.static(draw())

    with pytest.raises(sg.KernelTypeError, match="gives something else each time it is evaluated") as caught:
        k()
    assert "test_changed_constants.py:" in str(caught.value) and "draw()" in str(caught.value)
    assert "outside of the kernel" in caught.value.diagnostics[0].cure


def test_objects_die_although_lambdas_were_evaluated(arch: str) -> None:
    program = Program(["lambda", "callable", "object that is made", "list of objects"])
    for _ in range(5):
        program.kernel()
    dead = [weakref.ref(program.holder), weakref.ref(program.holder.inner), weakref.ref(program.holder.x)]
    kernel = program.names["Made"].run
    del program
    for _ in range(2):
        gc.collect()
    assert [ref() for ref in dead] == [None] * 3 and kernel.programs == ()


# ---- what machine code sees ------------------------------------------------------------------------------------------


def _native(kernel: Any) -> int:
    return int(kernel._forward.free.launched)


def test_names_are_compared_in_machine_code(factor: Any) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    x, y = scalar(1.0), scalar()

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[None] = x[None] * FACTOR

    for _ in range(6):
        k()
    before = _native(k)
    k()
    assert _native(k) == before + 1 and k._forward.guarded is None
    factor(7.0)
    k()
    assert y[None] == 7.0 and _native(k) == 0
    for _ in range(6):
        k()
    assert _native(k) > 0
    factor(float("7.0"))
    for _ in range(40):
        k()
    assert y[None] == 7.0 and _native(k) > 0, "an equal number in another place"


def test_a_table_of_names_that_is_replaced_or_loses_one() -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    program = Program(["name"])
    x, y = program.holder.x.to_numpy(), program.holder.y

    def check(value: float) -> None:
        for _ in range(8):
            y.fill(0.0)
            program.kernel()
            np.testing.assert_array_equal(y.to_numpy(), x * (2.0 * value))

    check(1.0)
    program.names.update({f"other{k}": k for k in range(500)})
    check(1.0)
    program.names["number"] = 4.0
    check(4.0)
    del program.names["number"]
    program.names["number"] = 6.0
    check(6.0)
    for k in range(500):
        del program.names[f"other{k}"]
    program.names["number"] = 8.0
    check(8.0)
    del program.names["number"]
    with pytest.raises(sg.KernelNameError, match="the name `number` is not known"):
        program.kernel()
