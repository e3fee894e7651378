"""Kernels on every kind of host data, on both executors: values and gradients are those of the formula.

The gradient of sum over i of w_i |M_i a_i + c|^2 is known in closed form for each of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

ROWS, N, M = 5, 3, 2
RNG = np.random.default_rng(7)
MATRICES, VECTORS, WEIGHTS = RNG.normal(size=(ROWS, N, M)), RNG.normal(size=(ROWS, M)), RNG.normal(size=ROWS)
SHIFT = [0.5, -1.0, 2.0]
Y = np.einsum("knm,km->kn", MATRICES, VECTORS) + SHIFT
LOSS = (WEIGHTS * (Y**2).sum(1)).sum()
GRADIENTS = {
    "m": 2 * np.einsum("k,kn,km->knm", WEIGHTS, Y, VECTORS),
    "a": 2 * np.einsum("k,kn,knm->km", WEIGHTS, Y, MATRICES),
    "w": (Y**2).sum(1),
}


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param


def fields(layout: sg.Layout) -> tuple[Any, Any, Any]:
    return (
        sg.Matrix.field(N, M, float, ROWS, needs_grad=True, layout=layout),
        sg.Vector.field(M, float, ROWS, needs_grad=True, layout=layout),
        sg.field(float, ROWS, needs_grad=True),
    )


def placed() -> tuple[Any, Any, Any]:
    made = sg.Matrix.field(N, M, float), sg.Vector.field(M, float, layout=sg.Layout.SOA), sg.field(float)
    block = sg.root.dense(sg.i, ROWS)
    block.place(*made)
    sg.root.lazy_grad()
    return made


def members() -> tuple[Any, Any, Any]:
    kind = sg.types.struct(m=sg.types.matrix(N, M, float), a=sg.types.vector(M, float), w=float)
    s = kind.field(shape=ROWS, needs_grad=True)
    return s.m, s.a, s.w


def ndarrays() -> tuple[Any, Any, Any]:
    return (
        sg.Matrix.ndarray(N, M, float, ROWS, needs_grad=True),
        sg.Vector.ndarray(M, float, ROWS, needs_grad=True),
        sg.ndarray(float, ROWS, needs_grad=True),
    )


def shared() -> tuple[Any, Any, Any]:
    m, a, _ = fields(sg.Layout.AOS)
    return m, a, sg.from_dlpack(np.zeros(ROWS), needs_grad=True)


KINDS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "AOS": lambda: fields(sg.Layout.AOS),
    "SOA": lambda: fields(sg.Layout.SOA),
    "placed": placed,
    "members": members,
    "ndarrays": ndarrays,
    "shared": shared,
}


@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient(kind: str) -> None:
    m, a, w = KINDS[kind]()
    loss, shift = sg.field(float, (), needs_grad=True), sg.Vector(SHIFT)

    @sg.kernel
    def total(m: sg.Tensor, a: sg.Tensor, w: sg.Tensor) -> None:
        for i in range(ROWS):
            y = m[i] @ a[i] + shift
            loss[None] += w[i] * y.norm_sqr()

    for tensor, content in ((m, MATRICES), (a, VECTORS), (w, WEIGHTS)):
        tensor.from_numpy(content)
    with sg.ad.Tape(loss):
        total(m, a, w)
    assert np.isclose(loss[None], LOSS)
    for name, tensor in (("m", m), ("a", a), ("w", w)):
        np.testing.assert_allclose(tensor.grad.to_numpy(), GRADIENTS[name], rtol=1e-12, err_msg=name)


def test_elements_of_structs_are_read_and_written() -> None:
    kind = sg.types.struct(x=sg.types.vector(2, float), v=sg.types.vector(2, float), m=float)
    s = kind.field(shape=3, needs_grad=True)

    @sg.kernel
    def step() -> None:
        for i in s:
            s[i].x += s[i].v * s[i].m

    s.fill({"x": [1, 2], "v": [3, 4], "m": 2})
    step()
    assert s.x.to_numpy().tolist() == [[7.0, 10.0]] * 3
    s.grad.x.fill(1)
    step.grad()
    assert s.grad[1].to_dict() == {"x": [1.0, 1.0], "v": [2.0, 2.0], "m": 7.0}


def test_host_structs_are_constants() -> None:
    Box = sg.types.struct(low=sg.types.vector(2, float), high=float)
    box, out = Box([1, 2], 5), sg.Vector.field(2, float, ())

    @sg.kernel
    def place() -> None:
        out[None] = box.low * box.high

    place()
    assert out[None].entries == [5.0, 10.0]
