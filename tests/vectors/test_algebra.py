"""Operators, element-wise functions, methods and properties, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg
from vectors_support import matrices, vectors, written

pytestmark = pytest.mark.backends("reference", "cpu")


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


def out(n):
    return sg.field(sg.f64, shape=n)


def test_operators_work_entry_by_entry(backend):
    y, x = sg.Vector.field(3, sg.f64, shape=12), vectors(3, 2)

    @sg.kernel
    def k():
        a, b = x[0], x[1]
        y[0] = a + b
        y[1] = a - 2
        y[2] = 2 * a * b
        y[3] = a / b
        y[4] = a**2 + 2**b
        y[5] = -a + (+b)
        y[6] = a // 0.3
        y[7] = a % 0.3
        y[8] = [1.0, 2.0, 3.0] * a
        c = (sg.cast(a * 10, sg.i32) & 3) | (sg.Vector([8, 16, 32]) >> 1)
        y[9] = c ^ 1
        y[10] = ~c << 1
        c += sg.i32(sg.Vector([1.5, 2.0, 3.5]))
        c *= 2
        y[11] = c

    a, b = x.to_numpy()
    c = (np.int32(a * 10) & 3) | np.array([4, 8, 16])
    expected = [
        a + b,
        a - 2,
        2 * a * b,
        a / b,
        a**2 + 2**b,
        b - a,
        a // 0.3,
        a % 0.3,
        np.array([1, 2, 3]) * a,
        c ^ 1,
        ~c << 1,
        (c + [1, 2, 3]) * 2,
    ]
    np.testing.assert_allclose(written(k, y), expected, rtol=1e-14)


def test_functions_work_entry_by_entry(backend):
    y, x = sg.Vector.field(2, sg.f64, shape=16), vectors(2, 2, low=0.1, high=0.9)

    @sg.kernel
    def k():
        a, b = x[0], x[1]
        y[0] = sg.sin(a) + sg.cos(a)
        y[1] = sg.tan(a)
        y[2] = sg.asin(a) + sg.acos(b)
        y[3] = sg.tanh(a)
        y[4] = sg.exp(a) - sg.log(b)
        y[5] = sg.sqrt(a) * sg.rsqrt(b)
        y[6] = sg.atan2(a, b)
        y[7] = sg.pow(a, b)
        y[8] = sg.max(a, b, 0.5)
        y[9] = min(a, b)
        y[10] = abs(-a)
        y[11] = sg.floor(a * 9) + sg.ceil(b * 9) + sg.round(a * 7)
        y[12] = sg.select(a > b, a, 0.0)
        y[13] = sg.raw_mod(a, 0.25) + sg.raw_div(b, 0.5)
        m, e = sg.frexp(a * 8)
        y[14] = m * 2.0**e
        y[15] = math.sin(a) + np.exp(b)

    a, b = x.to_numpy()
    expected = [
        np.sin(a) + np.cos(a),
        np.tan(a),
        np.arcsin(a) + np.arccos(b),
        np.tanh(a),
        np.exp(a) - np.log(b),
        np.sqrt(a / b),
        np.arctan2(a, b),
        a**b,
        np.maximum(np.maximum(a, b), 0.5),
        np.minimum(a, b),
        a,
        np.floor(a * 9) + np.ceil(b * 9) + np.rint(a * 7),
        np.where(a > b, a, 0),
        np.fmod(a, 0.25) + b / 0.5,
        a * 8,
        np.sin(a) + np.exp(b),
    ]
    np.testing.assert_allclose(written(k, y), expected, rtol=1e-13)


def test_comparisons_and_their_reductions(backend):
    y, x = out(9), sg.Vector.field(3, sg.i32, shape=2)
    x.from_numpy(np.array([[1, 5, 3], [1, 2, 9]], np.int32))

    @sg.kernel
    def k():
        a, b = x[0], x[1]
        y[0], y[1], y[2] = sg.cast(a == b, sg.i32)
        y[3] = 1.0 if (a <= b).all() else 0.0
        y[4] = 1.0 if (a > b).any() else 0.0
        y[5] = 1.0 if (a != b).any() and (a < 6).all() else 0.0
        y[6] = sg.cast(a > b, sg.i32).sum()
        y[7] = 1.0 if a.all() else 0.0
        y[8] = 1.0 if ((a == b) & (b == a)).any() else 0.0

    np.testing.assert_array_equal(written(k, y), [1, 0, 0, 0, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_square_matrices(backend, n):
    y, z, x = out(4), sg.Matrix.field(n, n, sg.f64, shape=3), matrices(n, n, 2)

    @sg.kernel
    def k():
        a, b = x[0], x[1]
        y[0] = a.determinant()
        y[1] = a.trace()
        y[2] = (a @ a.inverse()).trace()
        y[3] = b.transpose()[n - 1, 0]
        z[0] = a.inverse()
        z[1] = a @ b
        z[2] = a.transpose() @ b.transpose()

    a, b = x.to_numpy(keep_dims=True)
    np.testing.assert_allclose(written(k, y), [np.linalg.det(a), np.trace(a), n, b[0, n - 1]], rtol=1e-10)
    written(k, z)
    found = z.to_numpy(keep_dims=True)
    np.testing.assert_allclose(found, [np.linalg.inv(a), a @ b, a.T @ b.T], rtol=1e-9)


def test_products_of_other_shapes(backend):
    y, w = sg.Matrix.field(3, 3, sg.f64, shape=4), sg.Vector.field(3, sg.f64, shape=4)
    x, m = vectors(2, 2), matrices(3, 2)

    @sg.kernel
    def k():
        a, b, c = x[0], x[1], m[None]
        w[0] = c @ a
        w[1] = b @ c.transpose()
        w[2] = sg.Matrix.cols([a, b])[0, :].dot(a) * sg.Vector([1.0, 2.0, 3.0])
        w[3] = sg.Vector([a.cross(b), a.x, b.y]).cross(c @ a)
        y[0] = c @ c.transpose()
        y[1] = (c @ a).outer_product(c @ b)
        y[2] = c @ sg.Matrix.rows([a, b]) @ sg.Matrix([[1, 0, 0], [0, 1, 1]])
        y[3] = (c @ a) @ (c @ b).transpose()

    (a, b), c = x.to_numpy(), m.to_numpy()
    cross = a[0] * b[1] - a[1] * b[0]
    vector = np.array([cross, a[0], b[1]])
    expected = [c @ a, c @ b, np.array([a[0], b[0]]) @ a * np.array([1, 2, 3]), np.cross(vector, c @ a)]
    np.testing.assert_allclose(written(k, w), expected, rtol=1e-13)
    wide = c @ np.array([a, b]) @ np.array([[1, 0, 0], [0, 1, 1]])
    outer = np.outer(c @ a, c @ b)
    np.testing.assert_allclose(written(k, y), [c @ c.T, outer, wide, outer], rtol=1e-13)


def test_methods_of_vectors(backend):
    y, x = out(16), vectors(3, 2)

    @sg.kernel
    def k():
        a, b = x[0], x[1]
        y[0] = a.dot(b)
        y[1] = a.norm()
        y[2] = a.norm_sqr()
        y[3] = a.norm_inv()
        y[4] = a.norm(1e-3)
        y[5] = a.normalized(0.5).sum()
        y[6] = a.sum() + a.min() + a.max()
        y[7] = sg.Matrix.dot(a, b)
        y[8] = a.n + a.m + a.get_shape()[0]
        y[9] = a.entries[1]
        b.fill(2.0)
        y[10] = b.sum()
        y[11] = a.cast(sg.i32).sum() + a.x.cast(sg.i32)
        y[12] = max(*a) - min(a)
        y[13] = len(a)
        y[14] = sum(a) + sum([a.x, 2.0])
        y[15] = 1.0 if all(a > 0) and not any(a > 9) else 0.0

    a, b = x.to_numpy()
    s = a @ a
    whole = np.int32(a)
    expected = [
        a @ b,
        s**0.5,
        s,
        s**-0.5,
        (s + 1e-3) ** 0.5,
        (a / (s**0.5 + 0.5)).sum(),
        a.sum() + a.min() + a.max(),
        a @ b,
        7,
        a[1],
        6,
        whole.sum() + whole[0],
        np.ptp(a),
        3,
        a.sum() + a[0] + 2,
        1,
    ]
    np.testing.assert_allclose(written(k, y), expected, rtol=1e-13)


def test_element_types_follow_the_rules_of_scalars(backend):
    y, x = out(4), sg.Vector.field(2, sg.f32, shape=())
    x[None] = [0.1, 0.2]

    @sg.kernel
    def k():
        i = sg.Vector([7, 2])
        y[0], y[1] = i / 2
        y[2] = (i // 2).sum() + sg.sqrt(sg.Vector([4, 9])).sum()
        y[3] = (x[None] * sg.f32(3.0)).sum()

    expected = [3.5, 1, 4 + 5, np.float32(np.float32(0.1) * 3 + np.float32(0.2) * 3)]
    np.testing.assert_allclose(written(k, y), expected, rtol=1e-7)
