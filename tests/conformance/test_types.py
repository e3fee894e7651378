"""Types as values: arguments of templates, types made inside kernels, arithmetic of integer vectors."""

from __future__ import annotations

import pytest
import stackgrad as sg


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


def test_types_are_templates() -> None:
    y = sg.field(sg.f64, 3)

    @sg.kernel
    def k(dt: sg.template()):
        y[0] = sg.cast(1.7, dt)
        v = sg.Vector.zero(dt, 2)
        v[1] = 2.6
        y[1] = v[1]
        y[2] = 1 if sg.static(dt == sg.i32) else 2

    k(sg.i32)
    assert y.to_numpy().tolist() == [1.0, 2.0, 1.0]
    k(sg.f64)
    assert y.to_numpy().tolist() == [1.7, 2.6, 2.0]


def test_types_made_in_kernels() -> None:
    y, n = sg.field(sg.f64, 3), 2

    @sg.kernel
    def k():
        m = sg.types.matrix(n, n, sg.f64)([[5, 6], [7, 8]])
        v = sg.types.vector(3, sg.i32)(1.9)
        s = sg.types.struct(a=sg.f64, b=sg.i32)(a=0.5, b=3)
        y[0], y[1], y[2] = m[1, 0], v.sum(), s.a * s.b

    k()
    assert y.to_numpy().tolist() == [7.0, 3.0, 1.5]


def test_division_of_integer_vectors_floors() -> None:
    y = sg.Vector.field(3, sg.i32, 2)

    @sg.kernel
    def k(a: sg.i32):
        v = sg.Vector([a, -a, 4])
        y[0] = v // 2
        y[1] = v % 3

    k(7)
    assert y.to_numpy().tolist() == [[3, -4, 2], [1, 2, 1]]


def test_extents_of_constant_vectors_are_static() -> None:
    y = sg.field(sg.f64, 4)

    @sg.func
    def last(v):
        return v[sg.static(v.n - 1)]

    @sg.kernel
    def k():
        x = sg.solve(sg.Matrix([[2.0, 1.0], [0.0, 4.0]]), sg.Vector([4.0, 8.0]))
        y[0], y[1], y[2], y[3] = x[0], x[1], last(sg.Vector([1.0, 2.0, 3.0])), last(x)

    k()
    assert y.to_numpy().tolist() == pytest.approx([1.0, 2.0, 3.0, 2.0])
