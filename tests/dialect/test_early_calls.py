"""Calls as programs of early Taichi write them: `v(0)` is an entry, `x[i].atomic_add(value)` an atomic addition."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")

ATOMICS = {"add": lambda old, value: old + value, "sub": lambda old, value: old - value, "min": min, "max": max}


@pytest.fixture
def kernel_of(arch: str, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that makes a kernel, whose first argument is the field y, of the text of its body."""

    def make(body: str, more: str = "n: int = 0") -> Any:
        file = tmp_path / "program.py"
        head = (
            f"import stackgrad as sg\n\n\n@sg.kernel\ndef kernel(y: sg.template(), {more}):\n    for _ in range(1):\n"
        )
        file.write_text(head + indent(body, " " * 8) + "\n")
        spec = spec_from_file_location("program", file)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return make


def test_an_entry_is_read_by_a_call() -> None:
    x, y = sg.Vector.field(2, sg.f32, 2, needs_grad=True), sg.field(sg.f32, 6, needs_grad=True)
    x.from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))

    @sg.func
    def twice(v):
        return 2 * v

    @sg.kernel
    def k(n: int):
        for _ in range(1):
            w = [x[0], twice(x[1])]
            m = sg.Matrix([[1.0, 2.0], [3.0, 4.0]])
            y[0] = w[0](0) * w[1](1)
            y[1] = x[1](n)
            y[2] = m(1, n) + m(1)
            y[3] = (w[0].transpose() @ w[1])(0)
            y[4] = twice(x[0])(n - 1)

    k(1)
    assert y.to_numpy().tolist() == [8.0, 4.0, 7.0, 22.0, 2.0, 0.0]
    y.grad.fill(1.0)
    k.grad(1)
    assert x.grad.to_numpy().tolist() == [[8.0 + 6.0 + 2.0, 8.0], [2.0, 2.0 + 1.0 + 4.0]]


@pytest.mark.parametrize("bad", ["v(2)", "v()", "v(0, 1)", "v(k=0)", "v(0.5)", "v(*[0])", "v(0)(0)"])
def test_a_call_that_names_no_entry_is_an_error(bad: str, kernel_of: Any) -> None:
    kernel = kernel_of(f"v = sg.Vector([1.0, 2.0])\ny[0] = {bad}")
    with pytest.raises((sg.KernelTypeError, sg.KernelIndexError, sg.KernelSyntaxError), match="cure: "):
        kernel(sg.field(sg.f32, 1))


def test_an_entry_outside_ends_the_launch() -> None:
    x, y = sg.Vector.field(2, sg.f32, 2), sg.field(sg.f32, 1)

    @sg.kernel
    def k(n: int):
        for _ in range(1):
            y[0] = x[0](n)

    for n in (-1, 2):
        with pytest.raises(sg.OutOfBounds, match=f"index {n} is outside"):
            k(n)
            sg.sync()


@pytest.mark.parametrize("name", ATOMICS)
def test_an_element_has_atomics_as_methods(name: str, kernel_of: Any) -> None:
    x, v = sg.field(sg.i32, 3), sg.Vector.field(2, sg.i32, 3)
    x.from_numpy(np.array([5, 6, 7], np.int32))
    v.from_numpy(np.array([[1, 9], [2, 8], [3, 7]], np.int32))
    kernel = kernel_of(
        f"y[0].atomic_{name}(6)\nold = y[1].atomic_{name}(4)\ny[2] = old\nv[1].atomic_add(sg.Vector([4, 4]))\n"
        f"v[2][1].atomic_{name}(5)",
        more="v: sg.template()",
    )
    kernel(x, v)
    of = ATOMICS[name]
    assert x.to_numpy().tolist() == [of(5, 6), of(6, 4), 6]
    assert v.to_numpy().tolist() == [[1, 9], [6, 12], [3, of(7, 5)]]


def test_many_iterations_add_by_a_method_and_the_sum_has_a_gradient() -> None:
    x, total = sg.Vector.field(2, sg.f64, 100, needs_grad=True), sg.Vector.field(2, sg.f64, (), needs_grad=True)
    x.from_numpy(np.arange(200.0).reshape(100, 2))

    @sg.kernel
    def k():
        for i in x:
            total[None].atomic_add(x[i] * x[i])

    k()
    assert total.to_numpy().tolist() == (np.arange(200.0).reshape(100, 2) ** 2).sum(axis=0).tolist()
    total.grad[None] = [1.0, 3.0]
    k.grad()
    assert np.array_equal(x.grad.to_numpy(), 2 * x.to_numpy() * [1.0, 3.0])


def test_a_local_is_changed_by_a_method_in_a_loop_and_a_branch() -> None:
    y = sg.field(sg.i32, 2)

    @sg.kernel
    def k(n: int):
        for _ in range(1):
            total, v = 0, sg.Vector([0, 0])
            for i in range(n):
                total.atomic_add(i)
                if i > 2:
                    v.atomic_max(i)
            y[0], y[1] = total, v[1]

    k(5)
    assert y.to_numpy().tolist() == [10, 4]


def test_an_index_is_evaluated_once() -> None:
    x, count = sg.field(sg.i32, 4), sg.field(sg.i32, ())

    @sg.func
    def position():
        return sg.atomic_add(count[None], 1)

    @sg.kernel
    def k():
        for _ in range(1):
            x[position()].atomic_add(5)

    k()
    assert (x.to_numpy().tolist(), count[None]) == ([5, 0, 0, 0], 1)


def test_a_method_of_a_struct_keeps_its_meaning() -> None:
    @sg.dataclass
    class Counter:
        value: sg.i32

        @sg.func
        def atomic_add(self, by):
            return self.value + 100 * by

    counters, y = Counter.field(shape=2), sg.field(sg.i32, 1)
    counters[1].value = 7

    @sg.kernel
    def k():
        for _ in range(1):
            y[0] = counters[1].atomic_add(2)

    k()
    assert (y[0], counters[1].value) == (207, 7)


@pytest.mark.parametrize("bad", ["n.atomic_add(1)", "y.atomic_add(1)", "(y[0] + 1).atomic_add(1)", "sg.atomic_add(1)"])
def test_what_is_no_place_has_no_atomics(bad: str, kernel_of: Any) -> None:
    kernel = kernel_of(bad, more="n: int")
    with pytest.raises((sg.KernelTypeError, sg.KernelSyntaxError, sg.KernelNameError), match="cure: "):
        kernel(sg.field(sg.i32, 1), 1)
