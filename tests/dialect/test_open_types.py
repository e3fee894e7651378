# ruff: noqa: B007 - loops that only count
"""Types that leave something to the argument: vectors without a dtype, arrays whose last axes form an element."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


@sg.func
def spread(v: sg.types.vector(3)):
    return v[0] + v[1] * v[2]


@pytest.mark.parametrize("dtype", [sg.f32, sg.f64])
def test_a_parameter_takes_vectors_of_any_type(dtype) -> None:
    x, y = sg.Vector.field(3, dtype, shape=4, needs_grad=True), sg.field(dtype, 4, needs_grad=True)
    data = np.arange(12).reshape(4, 3).astype(dtype.dtype) / 4
    x.from_numpy(data)

    @sg.kernel
    def k():
        for i in x:
            y[i] = spread(x[i])

    for _ in range(2):
        x.grad.fill(0)
        y.grad.fill(1)
        k()
        k.grad()
        np.testing.assert_array_equal(y.to_numpy(), data[:, 0] + data[:, 1] * data[:, 2])
        np.testing.assert_array_equal(x.grad.to_numpy(), np.stack([np.ones(4), data[:, 2], data[:, 1]], 1))


def test_integers_stay_integers() -> None:
    y = sg.field(sg.i32, 2)

    @sg.kernel
    def k():
        for i in range(1):
            y[0] = spread(sg.Vector([7, 8, 9])) // 2  # of reals, 39.5
            w: sg.types.vector(2) = sg.Vector([5, 6])
            y[1] = w[0] // 2

    k()
    assert y.to_numpy().tolist() == [39, 2]


def test_values_and_memory_are_of_the_default_real_type() -> None:
    kind, square = sg.types.vector(3), sg.types.matrix(2, 2)
    assert kind(1, 2, 3).dtype == sg.f64 and square(1).shape == (2, 2)
    assert kind.field(4).dtype == sg.f64 and square.ndarray(2).dtype == sg.f64
    assert repr(kind) == "sg.types.vector(3)" and repr(square) == "sg.types.matrix(2, 2)"
    assert kind == sg.types.vector(3) and kind != sg.types.vector(3, sg.f64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_annotated_arrays_of_vectors_of_any_type(dtype) -> None:
    @sg.kernel
    def k(a: sg.types.ndarray(dtype=sg.types.vector(2)), out: sg.types.ndarray()):
        for i in a:
            out[i] = a[i].dot(a[i])

    data, out = np.arange(6).reshape(3, 2).astype(dtype), np.zeros(3, dtype)
    k(data, out)
    assert out.tolist() == [1, 13, 41]
    with pytest.raises(sg.KernelTypeError, match="does not hold a vector of 2"):
        k(np.zeros((3, 3), dtype), out)


def test_element_dim_of_external_arrays() -> None:
    @sg.kernel
    def rows(a: sg.types.ndarray(element_dim=1), out: sg.types.ndarray()):
        for i in a:
            out[i] = a[i].sum()

    @sg.kernel
    def traces(a: sg.types.ndarray(element_dim=2), out: sg.types.ndarray()):
        for i in a:
            out[i] = a[i].trace()

    out = np.zeros(2)
    for width in (3, 2, 5):
        data = np.arange(2.0 * width).reshape(2, width)
        rows(data, out)
        np.testing.assert_array_equal(out, data.sum(1))
    for size in (2, 3):
        data = np.arange(2.0 * size * size).reshape(2, size, size)
        traces(data, out)
        np.testing.assert_array_equal(out, np.trace(data, axis1=1, axis2=2))


def test_element_dim_of_fields_and_ndarrays() -> None:
    @sg.kernel
    def k(a: sg.types.ndarray(sg.f64, element_dim=1, field_dim=1), out: sg.types.ndarray()):
        for i in a:
            out[i] = a[i].sum()

    out = np.zeros(2)
    for made in (sg.Vector.field(3, sg.f64, shape=2), sg.Vector.ndarray(3, sg.f64, 2)):
        made.fill(1.5)
        k(made, out)
        assert out.tolist() == [4.5, 4.5]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: np.zeros(2), "an array with 0 axes is given where 1 is asked for"),
        (lambda: np.zeros(()), "has no elements of 1 axis"),
        (lambda: sg.field(sg.f64, 2), "elements are numbers, elements of 1 axis are asked for"),
        (lambda: sg.Matrix.field(2, 2, sg.f64, shape=2), "elements have 2 axes, elements of 1 axis are asked for"),
        (lambda: np.zeros((2, 3), np.float32), "an array of f32 is given where f64"),
    ],
)
def test_arguments_that_do_not_fit(make, reason: str) -> None:
    @sg.kernel
    def k(a: sg.types.ndarray(sg.f64, element_dim=1, field_dim=1), out: sg.types.ndarray()):
        for i in a:
            out[i] = a[i].sum()

    with pytest.raises(sg.KernelTypeError, match=reason):
        k(make(), np.zeros(2))


def test_unknown_element_dim() -> None:
    with pytest.raises(sg.FieldError, match="no elements of 3 axes"):
        sg.types.ndarray(element_dim=3)


# ---- shapes and notes at arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [np.array([2, 3]), np.array([2, 3], np.int32), (np.int64(2), np.uint8(3)), [2, 3]])
def test_numpy_integers_and_arrays_as_shapes(shape) -> None:
    assert sg.field(sg.f32, shape).shape == sg.ndarray(sg.f32, shape).shape == (2, 3)
    assert sg.Vector.field(2, sg.f32, shape=shape).shape == (2, 3)
    assert sg.field(sg.f32, np.int32(4)).shape == (4,)


@pytest.mark.parametrize("shape", [np.array([[2, 3]]), np.array([2.0]), np.array(["2"])])
def test_arrays_that_are_no_shapes(shape) -> None:
    with pytest.raises(sg.FieldError, match="is not a shape"):
        sg.field(sg.f32, shape)


def test_arrays_keep_attributes_of_users() -> None:
    made = [
        sg.field(sg.f32, 2, needs_grad=True),
        sg.ndarray(sg.f32, 2),
        sg.Vector.field(2, sg.f32, shape=2),
        sg.Vector.ndarray(2, sg.f32, 2),
        sg.Matrix.field(2, 2, sg.f32, shape=2),
        sg.Struct.field({"a": sg.f32}, shape=2),
    ]
    for array in made:
        array.note = ["kept"]
        assert array.note == ["kept"] and type(array).__name__
        with pytest.raises(AttributeError):
            _ = array.missing
    with pytest.raises(AttributeError):
        made[0].grad = made[1]


# ---- products and comparisons ---------------------------------------------------------------------------------------


def test_a_product_of_two_vectors_is_a_number() -> None:
    x, y = sg.Vector.field(3, sg.f64, shape=2, needs_grad=True), sg.field(sg.f64, 2, needs_grad=True)
    x.from_numpy(np.arange(6.0).reshape(2, 3))
    y.grad.fill(1)

    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] @ x[i]

    k()
    k.grad()
    assert y.to_numpy().tolist() == [5, 50]
    np.testing.assert_array_equal(x.grad.to_numpy(), 2 * np.arange(6.0).reshape(2, 3))


def test_a_vector_is_compared_with_each_row() -> None:
    m, v = sg.Matrix([[1, 2], [3, 4]]), sg.Vector([1, 5])
    assert (m == v).to_numpy().tolist() == [[True, False], [False, False]]
    assert (v > m).to_numpy().tolist() == [[False, True], [False, True]]
    with pytest.raises(sg.MatrixError, match="of shapes"):
        _ = m == sg.Vector([1, 2, 3])
    with pytest.raises(sg.MatrixError, match="of shapes"):
        _ = m + v
