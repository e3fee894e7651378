"""Names and forms of the dialect that are tested nowhere else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def test_classes_of_memory() -> None:
    x, y = sg.field(sg.f64, 3), sg.ndarray(sg.f64, 3)
    v = sg.Vector.field(2, sg.f64, shape=3)
    assert isinstance(x, sg.Field) and isinstance(v, sg.Field) and isinstance(y, sg.Ndarray)
    assert not isinstance(y, sg.Field) and not isinstance(x, sg.Ndarray)


def test_tensors_of_vectors_and_matrices() -> None:
    for backend in (sg.Backend.FIELD, sg.Backend.NDARRAY):
        v, a = sg.Vector.tensor(2, sg.f64, (3,), backend=backend), sg.Matrix.tensor(2, 2, sg.f64, (3,), backend=backend)
        assert isinstance(v, sg.VectorTensor) and isinstance(a, sg.MatrixTensor)

        @sg.kernel
        def k(v: sg.Tensor, a: sg.Tensor):
            for i in v:
                a[i] = sg.Matrix([[i, 1.0], [0.0, 2.0]])
                v[i] = a[i] @ sg.Vector([1.0, 3.0])

        k(v, a)
        assert v.to_numpy().tolist() == [[i + 3.0, 6.0] for i in range(3)]


def test_levels_of_the_log(arch) -> None:
    for level in (sg.TRACE, sg.DEBUG, sg.INFO, sg.WARN, sg.ERROR, sg.CRITICAL):
        sg.init(arch=arch, log_level=level)


def test_static_assertions() -> None:
    x = sg.field(sg.f64, 3)

    @sg.kernel
    def holds():
        sg.static_assert(len(x.shape) == 1, "x has one axis")
        for i in x:
            x[i] = 1.0

    @sg.kernel
    def fails():
        sg.static_assert(x.dtype == sg.f32, "x is of f32")

    holds()
    assert x.to_numpy().all()
    with pytest.raises(sg.KernelSyntaxError, match="static assertion failed: x is of f32"):
        fails()


def test_functions_by_their_names() -> None:
    names = ["sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "abs", "floor", "ceil"]
    python = {"asin": np.arcsin, "acos": np.arccos}
    y = sg.field(sg.f64, len(names))
    functions = [getattr(sg, name) for name in names]

    @sg.kernel
    def k(v: sg.f64):
        for i in sg.static(range(len(functions))):
            y[i] = functions[i](v)

    k(0.3)
    expected = [python.get(name, getattr(np, name, None))(0.3) for name in names]
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-14)


def test_flags_of_a_frozen_dataclass() -> None:
    @dataclasses.dataclass(frozen=True)
    class Model:
        x: sg.Tensor
        is_linear: bool
        power: int

    @sg.kernel
    def k(m: sg.template()):
        for i in m.x:
            if sg.static(m.is_linear):
                m.x[i] = 2.0 * i
            else:
                m.x[i] = i ** sg.static(m.power)

    for linear, expected in ((True, [0, 2, 4]), (False, [0, 1, 8])):
        model = Model(sg.field(sg.f64, 3), linear, 3)
        k(model)
        assert model.x.to_numpy().tolist() == expected


def test_orders_of_axes() -> None:
    x, y = sg.field(sg.f64, (3, 4), order="ji"), sg.field(sg.f64, (3, 4), order="ij")

    @sg.kernel
    def k():
        for i, j in x:
            x[i, j] = 10 * i + j
            y[i, j] = x[i, j]

    k()
    assert x.to_numpy().tolist() == y.to_numpy().tolist() == [[10 * i + j for j in range(4)] for i in range(3)]
