"""Kernels that a program defines anew, equal to earlier ones, share traces and compiled code; changed ones do not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.launch import kernels, program, shared_traces
from stackgrad.runtime.session import RUNTIME

N = 3
FACTOR = 2.0


class Work:
    """What the compiler did: traces and lowerings, by name of the kernel."""

    def __init__(self) -> None:
        self.traces: list[str] = []
        self.lowerings: list[str] = []


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, fresh_runtime: None) -> Work:
    made, trace, lower = Work(), kernels.trace_function, program.cached_lowering

    def traced(function: Any, *args: Any, **keywords: Any) -> Any:
        made.traces.append(function.__name__)
        return trace(function, *args, **keywords)

    def lowered(prepare: Any, kernel: Any, *args: Any, **keywords: Any) -> Any:
        made.lowerings.append(prepare.__name__)
        return lower(prepare, kernel, *args, **keywords)

    monkeypatch.setattr(kernels, "trace_function", traced)
    monkeypatch.setattr(program, "cached_lowering", lowered)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    return made


def pair() -> tuple[Any, Any]:
    x, y = (sg.field(sg.f64, N, needs_grad=True) for _ in range(2))
    x.fill(3.0)
    return x, y


def scaled(x: Any, y: Any, factor: Any) -> Any:
    """A factory of kernels with a function of the closure, a global name, a scalar and a default."""

    @sg.func
    def times(v):  # type: ignore[no-untyped-def]
        return v * factor * FACTOR

    @sg.kernel
    def k(n: sg.i32 = N):  # type: ignore[no-untyped-def, valid-type]
        for i in range(n):
            y[i] = times(x[i])

    return k


def test_equal_kernels_are_traced_and_lowered_once(work: Work) -> None:
    x, y = pair()
    for _ in range(5):
        k = scaled(x, y, 5.0)
        x.grad.fill(0.0)
        y.fill(0.0)
        k()
        assert y.to_numpy().tolist() == [30.0] * N
        y.grad.fill(1.0)
        k.grad()
        assert x.grad.to_numpy().tolist() == [10.0] * N
        del k
        gc.collect()
    assert work.traces == ["k"] and work.lowerings == ["prepare_forward", "prepare_reverse"]


def test_a_step_that_defines_its_kernel_traces_it_once(work: Work) -> None:
    x, y = pair()

    def step() -> None:
        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            for i in x:
                y[i] += x[i]

        k()

    for _ in range(5):
        step()
    assert work.traces == ["k"] and y[0] == 15.0


def test_other_contents_of_the_closure_are_other_kernels(work: Work) -> None:
    (x, y), (_, z) = pair(), pair()
    values = (1.0, 1, True, -0.0, 0.0, 2.0)
    for count, factor in enumerate(values, 1):
        for _ in range(2):
            scaled(x, y, factor)()
            assert y[0] == 6.0 * factor and len(work.traces) == count
    scaled(x, z, 2.0)()
    assert z[0] == 12.0 and len(work.traces) == len(values) + 1


def test_other_defaults_and_annotations_are_other_kernels(work: Work) -> None:
    def make(kind: Any, start: Any, x: Any) -> Any:
        @sg.kernel
        def k(v: kind = start):  # type: ignore[no-untyped-def, valid-type]
            x[0] = v

        return k

    x, _ = pair()
    for kind, start, expected, count in ((sg.f64, 1.5, 1.5, 1), (sg.f64, 2.5, 2.5, 2), (sg.i32, 2, 2.0, 3)):
        for _ in range(2):
            make(kind, start, x)()
            assert x[0] == expected and len(work.traces) == count


def test_a_changed_global_is_noticed_by_every_kernel(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pair()
    first, second = scaled(x, y, 5.0), scaled(x, y, 5.0)
    for k in (first, second):
        k()
        assert y[0] == 30.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    for k in (first, second, scaled(x, y, 5.0)):
        y.fill(0.0)
        k()
        assert y[0] == 45.0
    assert work.traces == ["k", "k"]


def test_a_changed_cell_is_noticed_by_the_kernel_of_the_cell(work: Work) -> None:
    x, y = pair()

    def make() -> tuple[Any, Callable[[float], None]]:
        factor = 2.0

        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            for i in x:
                y[i] = x[i] * factor

        def change(value: float) -> None:
            nonlocal factor
            factor = value

        return k, change

    (first, _), (second, change) = make(), make()
    for k in (first, second):
        for _ in range(6):
            k()
    change(7.0)
    for k, expected in ((second, 21.0), (first, 6.0), (second, 21.0)):
        k()
        assert y[0] == expected
    assert work.traces == ["k", "k"]


class Options:
    def __init__(self, scale: float, fields: tuple[Any, Any]) -> None:
        self.scale, self.fields = scale, fields


def by_object(options: Any) -> Any:
    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        for i in options.fields[0]:
            options.fields[1][i] = options.fields[0][i] * options.scale

    return k


def test_objects_in_the_closure_are_compared_by_their_parts(work: Work) -> None:
    x, y = pair()
    options = Options(2.0, (x, y))
    first, second = by_object(options), by_object(Options(2.0, (x, y)))
    for k in (first, second):
        for _ in range(6):
            k()
    assert work.traces == ["k"] and y[0] == 6.0
    options.scale = 5.0
    first()
    assert y[0] == 15.0
    second()
    assert y[0] == 6.0
    by_object(options)()
    assert y[0] == 15.0 and work.traces == ["k", "k"]


@pytest.mark.parametrize("make", [lambda v: np.array([v]), lambda v: [v], lambda v: np.full(1000, v), lambda v: {0: v}])
def test_containers_in_the_closure_are_compared_by_content(make: Callable[[float], Any], work: Work) -> None:
    x, _ = pair()
    held = make(2.0)

    def define() -> Any:
        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            for i in x:
                x[i] = sg.static(held[0])

        return k

    for value in (2.0, 4.0):
        held[0] = value
        for _ in range(3):
            define()()
            assert x[0] == value


def test_a_struct_in_the_closure_is_compared_by_content(work: Work) -> None:
    x, _ = pair()
    held = sg.types.struct(a=sg.f64)(a=2.0)

    def define() -> Any:
        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            for i in x:
                x[i] = held.a

        return k

    for count, value in enumerate((2.0, 4.0), 1):
        held.a = value
        for _ in range(3):
            define()()
            assert x[0] == value and len(work.traces) == count


def test_arguments_select_the_trace(work: Work) -> None:
    x, y = pair()

    def make() -> Any:
        @sg.kernel
        def k(a: sg.types.ndarray(), b: sg.template()):  # type: ignore[no-untyped-def, valid-type]
            for i in a:
                a[i] = 2.0 * b.scale

        return k

    options, other = Options(2.0, (x, y)), Options(2.0, (x, y))
    array = np.zeros(N)
    for dtype, given, count in ((np.float64, options, 1), (np.float32, options, 2), (np.float32, other, 3)):
        for _ in range(3):
            array = np.zeros(N, dtype)
            make()(array, given)
            assert array.tolist() == [4.0] * N and len(work.traces) == count
    options.scale = 3.0
    array = np.zeros(N, np.float32)
    make()(array, options)
    assert array.tolist() == [6.0] * N and len(work.traces) == 4


def test_a_shared_trace_keeps_no_field_and_no_kernel_alive(work: Work) -> None:
    x, y = pair()
    k = scaled(x, y, 5.0)
    k()
    assert len(RUNTIME.traces) == 1
    died = [weakref.ref(one) for one in (x, y, k.__wrapped__)]
    del x, y, k
    gc.collect()
    assert [refer() for refer in died] == [None] * 3
    x, y = pair()
    scaled(x, y, 5.0)()
    assert y[0] == 30.0 and work.traces == ["k", "k"]
    assert len(RUNTIME.traces) == 1, "the trace whose fields have died has ended"


def test_the_number_of_shared_traces_is_bounded(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_traces, "_MOST", 4)
    x, y = pair()
    for factor in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 0.0):
        scaled(x, y, factor)()
        assert y[0] == 6.0 * factor and len(RUNTIME.traces) <= 4
    assert len(work.traces) == 7
    sg.init(arch=sg.cpu)
    assert not RUNTIME.traces


def test_equal_kernels_draw_their_own_numbers(work: Work) -> None:
    """The gradient of a kernel replays its own last launch, not that of an equal kernel."""
    x, y = pair()

    def make() -> Any:
        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            for i in x:
                y[i] = x[i] * sg.random(sg.f64)

        return k

    x.fill(1.0)
    first, second = make(), make()
    first()
    drawn = y.to_numpy()
    second()
    assert work.traces == ["k"] and (y.to_numpy() != drawn).all()
    y.grad.fill(1.0)
    first.grad()
    np.testing.assert_array_equal(x.grad.to_numpy(), drawn)


def test_a_kernel_of_a_module_leaves_no_trace_behind(work: Work) -> None:
    whole()
    assert work.traces == ["whole"] and not RUNTIME.traces


@sg.kernel
def whole():  # type: ignore[no-untyped-def]
    pass
