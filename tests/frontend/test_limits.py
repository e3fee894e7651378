"""What would take minutes to compile is refused, at its line, with its size and what to write instead."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.frontend import limits

MANY = limits.ENTRIES + 1
HUGE = 10**7
BIG: list[float] = [0.5] * MANY


@pytest.fixture(autouse=True)
def on_the_reference() -> Any:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    yield
    sg.reset()


def zero(y: Any) -> None:
    v = sg.Vector.zero(sg.f64, MANY)  # here
    y[None] = v[0]


def one(y: Any) -> None:
    v = sg.Vector.one(sg.f64, HUGE)  # here
    y[None] = v[0]


def unit(y: Any) -> None:
    v = sg.Vector.unit(MANY, 2)  # here
    y[None] = v[0]


def matrix(y: Any) -> None:
    m = sg.Matrix.zero(sg.f64, 40, 40)  # here
    y[None] = m[0, 0]


def identity(y: Any) -> None:
    m = sg.Matrix.identity(sg.f64, 33)  # here
    y[None] = m[0, 0]


def diagonal(y: Any) -> None:
    m = sg.Matrix.diag(dim=33, val=1.5)  # here
    y[None] = m[0, 0]


def from_a_list(y: Any) -> None:
    v = sg.Vector(BIG)  # here
    y[None] = v[0]


def repeated(y: Any) -> None:
    v = sg.Vector([0.0] * MANY)  # here
    y[None] = v[0]


def comprehension(y: Any) -> None:
    v = sg.Vector([y[None] * k for k in range(MANY)])  # here
    y[None] = v[0]


def of_a_type(y: Any) -> None:
    v = sg.types.vector(2000, sg.f64)(0.0)  # here
    y[None] = v[0]


def outer_product(y: Any) -> None:
    v = sg.Vector.one(sg.f64, 64)
    y[None] = v.outer_product(v)[0, 0]  # here


TOO_LARGE = (
    zero,
    one,
    unit,
    matrix,
    identity,
    diagonal,
    from_a_list,
    repeated,
    comprehension,
    of_a_type,
    outer_product,
)


def static_loop(y: Any) -> None:
    for k in sg.static(range(HUGE)):  # here
        y[None] += k


def static_box(y: Any) -> None:
    for I in sg.static(sg.ndrange(1000, 1000)):  # here
        y[None] += I[0]


def endless(y: Any) -> None:
    for k in sg.static(itertools.count()):  # here
        y[None] += k


def comprehended(y: Any) -> None:
    y[None] = sum([k for k in range(HUGE)])  # here


def long_list(y: Any) -> None:
    items = [1.0, 2.0] * HUGE  # here
    y[None] = items[1]


TOO_MANY = (static_loop, static_box, endless, comprehended, long_list)


def refused(function: Callable[..., None], y: Any) -> Any:
    """The error of a kernel of one argument, at the line that is meant."""
    kernel = sg.kernel(_with_template(function))
    with pytest.raises(sg.KernelTypeError) as caught:
        kernel(y)
    assert "# here" in caught.value.diagnostics[0].span.text, caught.value
    return caught.value.diagnostics[0]


def _with_template(function: Callable[..., None]) -> Callable[..., None]:
    function.__annotations__ = {"y": sg.template()}
    return function


@pytest.mark.parametrize("function", TOO_LARGE)
def test_a_vector_or_matrix_that_is_too_large(function: Callable[..., None]) -> None:
    found = refused(function, sg.field(sg.f64, ()))
    assert "is too large: each entry is a variable of its own" in found.reason and f"{limits.ENTRIES}" in found.reason
    assert "field" in found.cure


@pytest.mark.parametrize("function", TOO_MANY)
def test_more_than_can_be_unrolled(function: Callable[..., None]) -> None:
    found = refused(function, sg.field(sg.f64, ()))
    assert "items are too many to unroll" in found.reason and "a loop that runs at launch" in found.cure


def test_loops_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATEMENTS", 2000)

    def nested(y: Any) -> None:
        for a in sg.static(range(1000)):  # here
            for b in sg.static(range(1000)):  # here
                y[None] += a * b

    found = refused(nested, sg.field(sg.f64, ()))
    assert "the kernel has grown to 2000 statements, and unrolls more here" in found.reason
    assert "a loop that runs at launch" in found.cure


def test_elements_and_arguments_of_large_types() -> None:
    x, y = sg.Vector.field(MANY, sg.f64, 2), sg.field(sg.f64, ())

    @sg.kernel
    def entry() -> None:
        y[None] = x[1][MANY - 1]

    @sg.kernel
    def whole() -> None:
        y[None] = x[1].sum()

    @sg.kernel
    def argument(v: sg.types.vector(MANY, sg.f64)) -> None:  # type: ignore[valid-type]
        y[None] = v[0]

    x.from_numpy(np.arange(2.0 * MANY).reshape(2, MANY))
    entry()
    assert y[None] == 2 * MANY - 1, "one entry of a large element is no vector"
    with pytest.raises(sg.KernelTypeError, match="is too large"):
        whole()
    argument(sg.Vector([2.5] * MANY))
    assert y[None] == 2.5


def test_what_is_just_allowed() -> None:
    y = sg.field(sg.f64, ())

    @sg.kernel
    def k() -> None:
        v = sg.Vector.one(sg.f64, limits.ENTRIES)
        y[None] = v[limits.ENTRIES - 1]
        for i in sg.static(range(1000)):
            y[None] += i

    k()
    assert y[None] == 1 + 999 * 500


def test_the_host_makes_vectors_of_any_size() -> None:
    assert sg.Vector.zero(sg.f64, 100_000).to_numpy().shape == (100_000,)
    assert sg.Matrix.identity(sg.f64, 200).trace() == 200.0
