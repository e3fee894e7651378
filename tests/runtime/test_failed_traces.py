"""A kernel that cannot be compiled, or has no gradient, says so again at once, and is tried again after a change."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler import driver
from stackgrad.launch import kernels

CALLS = 6


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch, fresh_runtime: None) -> list[str]:
    """What the compiler did: the functions that it traced, and the gradients and tangents that it made."""
    done: list[str] = []

    def note(owner: Any, name: str, text: Callable[..., str]) -> None:
        right = getattr(owner, name)

        def noted(*args: Any, **keywords: Any) -> Any:
            done.append(text(*args))
            return right(*args, **keywords)

        noted.__name__ = name
        monkeypatch.setattr(owner, name, noted)

    note(kernels, "trace_function", lambda function, *rest: function.__name__)
    note(driver, "prepare_reverse", lambda kernel, *rest: f"{kernel.name}.grad")
    note(driver, "prepare_tangent", lambda kernel, *rest: f"{kernel.name}.tangent")
    monkeypatch.setenv("STACKGRAD_CACHE", "0")
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    return done


class Thing:
    """An object that a kernel reads, and that lacks something."""

    def __init__(self) -> None:
        self.values = [1.0]

    def need(self) -> float:
        return float(self.missing)  # type: ignore[attr-defined]


def fields() -> tuple[Any, Any]:
    return sg.field(sg.f64, 3, needs_grad=True), Thing()


def unknown_name() -> tuple[Any, Callable[[], None]]:
    x, _ = fields()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = NUMBER  # noqa: F821

    return run, lambda: globals().__setitem__("NUMBER", 2.0)


def missing_attribute() -> tuple[Any, Callable[[], None]]:
    x, thing = fields()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = thing.missing

    return run, lambda: setattr(thing, "missing", 2.0)


def failing_expression() -> tuple[Any, Callable[[], None]]:
    x, thing = fields()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = sg.static(thing.need())

    return run, lambda: setattr(thing, "missing", 2.0)


def short_list() -> tuple[Any, Callable[[], None]]:
    x, thing = fields()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = thing.values[1]

    return run, lambda: thing.values.append(2.0)


def wrong_field() -> tuple[Any, Callable[[], None]]:
    x: Any = 3

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = 2.0

    def cure() -> None:
        nonlocal x
        x = sg.field(sg.f64, 3)

    return run, cure


def wrong_function() -> tuple[Any, Callable[[], None]]:
    x, _ = fields()

    def helper(v):  # type: ignore[no-untyped-def]
        return v.nothing

    def right(v):  # type: ignore[no-untyped-def]
        return v + 1.0

    @sg.kernel
    def run(a: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        x[0] = helper(a)

    def cure() -> None:
        nonlocal helper
        helper = right

    return lambda: run(1.0), cure


def wrong_template() -> tuple[Any, Callable[[], None]]:
    x, thing = fields()

    @sg.kernel
    def run(x: sg.template(), a: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = a.missing

    return lambda: run(x, thing), lambda: setattr(thing, "missing", 2.0)


FAILING = [unknown_name, missing_attribute, failing_expression, short_list, wrong_field, wrong_function, wrong_template]


def refused(call: Callable[[], Any]) -> Any:
    """Return the error that a call raises, which belongs to a kernel."""
    with pytest.raises(sg.StackgradError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("make", FAILING, ids=lambda make: make.__name__)
def test_a_failed_trace_is_tried_again_after_a_change(make: Any, worked: list[str]) -> None:
    globals().pop("NUMBER", None)
    call, cure = make()
    errors = [refused(call) for _ in range(CALLS)]
    assert worked == ["run"], "traced once"
    assert len(set(map(id, errors))) == CALLS
    assert {(type(e), str(e), tuple(e.diagnostics)) for e in errors} == {
        (type(errors[0]), str(errors[0]), tuple(errors[0].diagnostics))
    }
    lengths = [len(list(traceback.walk_tb(e.__traceback__))) for e in errors[1:]]
    assert len(set(lengths)) == 1 and all(e.__context__ is None for e in errors[1:])
    cure()
    for _ in range(3):
        call()
    assert worked == ["run"] * 2
    globals().pop("NUMBER", None)


def test_another_failure_after_a_change_is_the_new_one(worked: list[str]) -> None:
    x, values = sg.field(sg.f64, 3), [1.0]

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = values[2]

    first = refused(run)
    values.append("text")  # type: ignore[arg-type]
    again = [refused(run) for _ in range(3)]
    assert worked == ["run"] * 2
    assert first.diagnostics[0].span == again[0].diagnostics[0].span


def test_a_failed_trace_keeps_nothing_alive(worked: list[str]) -> None:
    @sg.kernel
    def run(x: sg.template(), a: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = a.missing + sg.static(a.need())

    for _ in range(3):
        x, thing = fields()
        for _ in range(3):
            refused(lambda x=x, thing=thing: run(x, thing))  # type: ignore[misc]
        dead = [weakref.ref(x), weakref.ref(thing)]
        del x, thing
        gc.collect()
        assert [ref() for ref in dead] == [None, None]
    assert worked == ["run"] * 3, "another object is another call"


def test_a_failed_trace_outlives_what_stood_for_its_arguments(worked: list[str]) -> None:
    @sg.kernel
    def run(x: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = missing  # type: ignore[name-defined]  # noqa: F821

    x, _ = fields()
    for _ in range(3):
        refused(lambda: run(x))
        gc.collect()
    assert worked == ["run"]


# ---- gradients -------------------------------------------------------------------------------------------------------


def _without_gradient() -> tuple[Any, Any, Any]:
    """Return a field, and kernels that write it: one whose gradient the compiler refuses, and one with a gradient."""
    x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))

    @sg.kernel
    def refuses():  # type: ignore[no-untyped-def]
        for i in x:
            y[i] = sg.sin(y[i]) * x[i]
            sg.atomic_max(y[0], y[1])

    @sg.kernel
    def works():  # type: ignore[no-untyped-def]
        for i in x:
            y[i] += 2.0 * x[i]

    return y, refuses, works


def test_a_refused_gradient_is_transformed_once(worked: list[str]) -> None:
    _, refuses, _ = _without_gradient()
    refuses()
    errors = [refused(refuses.grad) for _ in range(CALLS)]
    assert worked.count("refuses.grad") == 1
    assert len({str(e) for e in errors}) == 1 and {type(e) for e in errors} == {type(errors[0])}
    assert isinstance(errors[0], (sg.NotDifferentiable, sg.Unsupported))


def test_a_tape_that_skips_a_kernel_pays_once(worked: list[str]) -> None:
    y, refuses, works = _without_gradient()
    for _ in range(3):
        skipped = 0
        with sg.ad.Tape(y, seed=np.ones(3)):
            for _ in range(CALLS):
                works()
                try:
                    refuses()
                except (sg.NotDifferentiable, sg.Unsupported):
                    skipped += 1
        assert skipped == CALLS
    assert worked.count("refuses.grad") == 1 and worked.count("works.grad") == 1


def test_another_program_of_the_kernel_is_transformed_again(worked: list[str]) -> None:
    x, y, is_smooth = (*(sg.field(sg.f64, 3, needs_grad=True) for _ in range(2)), False)

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        for i in x:
            if sg.static(is_smooth):
                y[i] += x[i]
            else:
                v = sg.atomic_max(y[0], x[i])
                y[1] += v * v

    refused(run.grad)
    refused(run.grad)
    is_smooth = True
    y.grad.fill(1.0)
    run.grad()
    assert x.grad[0] == 1.0 and worked == ["run", "run.grad"] * 2


def test_kernels_without_active_values_leave_nothing_on_a_tape(worked: list[str]) -> None:
    x, count = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.i32, 3)
    loss = sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def counts():  # type: ignore[no-untyped-def]
        for i in x:
            count[i] = sg.cast(x[i], sg.i32)

    @sg.ad.no_grad
    @sg.kernel
    def constant():  # type: ignore[no-untyped-def]
        for i in x:
            count[i] = count[i] + sg.cast(x[i], sg.i32)

    @sg.kernel
    def sums():  # type: ignore[no-untyped-def]
        for i in x:
            loss[None] += x[i] * count[i]

    x.fill(2.0)
    for _ in range(3):
        with sg.ad.Tape(loss) as tape:
            for _ in range(CALLS):
                counts()
                constant()
            assert tape._log.events == []
            sums()
        assert x.grad[0] == 4.0
    assert worked.count("counts.grad") == 1 and "constant.grad" not in worked
