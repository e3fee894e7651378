"""`fill` inside kernels."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


def test_fields_of_every_kind_and_rank() -> None:
    x, y, scalar = sg.field(sg.f32, (3, 2)), sg.Vector.field(2, sg.f32, 3), sg.field(sg.i32, ())
    m = sg.Matrix.field(2, 2, sg.f64, 2, layout=sg.Layout.SOA)

    @sg.kernel
    def k(v: sg.f32):
        x.fill(v * 2)
        y.fill(sg.Vector([v, 1.0]))
        m.fill(v)
        scalar.fill(7)

    k(1.5)
    assert (x.to_numpy() == 3.0).all() and scalar[None] == 7
    assert y.to_numpy().tolist() == [[1.5, 1.0]] * 3 and (m.to_numpy() == 1.5).all()


def test_inside_a_loop_and_of_an_argument() -> None:
    x, counts = sg.field(sg.f64, 4), np.zeros(3)

    @sg.kernel
    def k(a: sg.types.ndarray(dtype=sg.f64, ndim=1)):
        for _ in range(1):
            x.fill(2.0)
            x[1] += 1.0
        a.fill(5)
        a[2] -= 1.0

    k(counts)
    assert x.to_numpy().tolist() == [2, 3, 2, 2] and counts.tolist() == [5, 5, 4]


def test_the_gradient_goes_to_the_value() -> None:
    a, x, loss = (sg.field(sg.f64, shape, needs_grad=True) for shape in ((), 3, ()))
    a[None] = 0.5

    @sg.kernel
    def k():
        x.fill(a[None] * a[None])
        for i in x:
            loss[None] += x[i] * (i + 1)

    with sg.ad.Tape(loss):
        k()
    assert loss[None] == pytest.approx(1.5) and a.grad[None] == pytest.approx(6.0)
