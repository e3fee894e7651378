"""Static expressions of numbers are not evaluated before each launch: what goes into them is compared instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import repeat
from stackgrad.compat.impl import get_runtime
from stackgrad.compiler.frontend.reads import is_arithmetic
from stackgrad.runtime.guards import EvaluationGuard


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f32)


def index(i: int, j: int, size: int) -> int:
    """Return the place of an entry in a packed triangle."""
    return i * size - i * (i - 1) // 2 + (j - i)


def other_index(i: int, j: int, size: int) -> int:
    """Return another place."""
    return i + j + size


def uses_a_name(i: int) -> int:
    """Return what a name outside decides."""
    return i + LIST[0]


def remembers(i: int, kept: list[int] = []) -> int:  # noqa: B006 - the default value is the point
    """Return a number that depends on earlier calls."""
    kept.append(i)
    return len(kept)


def makes_a_function(i: int) -> int:
    """Return what a function inside gives."""
    return (lambda: LIST[0] + i)()


def generates(i: int) -> Any:
    """Yield numbers."""
    yield i
    yield i + 1


LIST = [1]


@sg.func
def _packed(i: sg.template(), v):  # type: ignore[no-untyped-def, valid-type]
    return v + sg.static(index(i, 1, 3)) + (0.5 if sg.static(get_runtime().default_fp == sg.f32) else 0.25)


def _evaluated(kernel: Any) -> int:
    """Return the number of expressions that are evaluated before each launch."""
    (entry,) = kernel.cache().all
    return sum(isinstance(guard, EvaluationGuard) for guard in entry.special.guards)


def test_arithmetic_and_settings_need_no_evaluation() -> None:
    y = sg.field(sg.f32, ())

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        v = 0.0
        for i in sg.static(range(3)):
            v = _packed(i, v)
        for k, one in sg.static(enumerate((v, v))):
            y[None] += one * k

    repeat(run, 8)
    assert _evaluated(run) == 0 and run._forward.guarded is None
    y[None] = 0.0
    run()
    assert y[None] == sum(index(i, 1, 3) + 0.5 for i in range(3))


def test_another_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    y = sg.field(sg.f32, ())

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        y[None] = sg.static(index(2, 1, 3))

    repeat(run, 8)
    assert y[None] == index(2, 1, 3)
    monkeypatch.setitem(globals(), "index", other_index)
    run()
    assert y[None] == 6
    repeat(run, 8)
    monkeypatch.setattr(other_index, "__code__", (lambda i, j, size: i * j * size + 40).__code__)
    run()
    assert y[None] == 46


def test_other_settings_are_seen() -> None:
    for kind, wanted in ((sg.f32, 1.0), (sg.f64, 2.0), (sg.f32, 1.0)):
        sg.init(arch=sg.cpu, default_fp=kind)
        y = sg.field(sg.f64, ())

        @sg.kernel
        def run(y: sg.template()):  # type: ignore[no-untyped-def, valid-type]
            y[None] = 1.0 if sg.static(get_runtime().default_fp == sg.f32) else 2.0

        repeat(lambda: run(y), 8)  # noqa: B023 - called at once
        assert y[None] == wanted


def test_functions_that_read_more_are_evaluated_each_time() -> None:
    y = sg.field(sg.f32, ())

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        y[None] = sg.static(uses_a_name(2))

    try:
        for number in (1, 5, 1):
            LIST[0] = number
            repeat(run, 8)
            assert y[None] == 2 + number and _evaluated(run) == 1
    finally:
        LIST[0] = 1


def test_an_expression_that_is_inlined_often_is_evaluated_once() -> None:
    y = sg.field(sg.f32, ())

    @sg.func
    def inner(v):  # type: ignore[no-untyped-def]
        return v + sg.static(uses_a_name(2))

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        y[None] = inner(1.0) + inner(2.0) + inner(3.0)

    repeat(run, 8)
    assert y[None] == 6.0 + 3 * 3 and _evaluated(run) == 1


@pytest.mark.parametrize(
    "function, wanted",
    [
        (index, True),
        (lambda i: i if i > 2 else -i, True),
        (uses_a_name, False),
        (remembers, False),
        (makes_a_function, False),
        (generates, False),
        (lambda i: i.real, False),
        (math.sqrt, False),
        (np.sqrt, False),
        (len, False),
    ],
)
def test_functions_of_arithmetic(function: Callable[..., Any], wanted: bool) -> None:
    assert is_arithmetic(function) is wanted
