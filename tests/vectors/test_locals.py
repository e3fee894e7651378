"""Local vectors and matrices: how they are made, read, written, selected."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from vectors_support import vectors, written

pytestmark = pytest.mark.backends("reference", "cpu")

WEIGHTS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
OFFSET = np.array([10, 20, 30])
vec2 = sg.types.vector(2, sg.f64)


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


def out(n):
    return sg.field(sg.f64, shape=n)


def test_constructors_of_vectors(backend):
    y, vec3 = out(16), sg.types.vector(3, sg.f64)

    @sg.kernel
    def k():
        a = sg.Vector([1.0, 2.0, 3.0])
        b = sg.Vector([1, 2.5], sg.f64)
        c = vec3(vec2(b), 9.0)
        d = vec3(4.0) + sg.Vector.unit(3, 1) + sg.Vector.one(sg.f64, 3)
        e = sg.Vector([i * i for i in range(4)])
        y[0], y[1], y[2] = a
        y[3], y[4] = b[0], b[1]
        y[5], y[6], y[7] = c
        y[8], y[9], y[10] = d
        y[11], y[12], y[13], y[14] = e
        y[15] = sg.Vector.zero(sg.f64, 3).sum()

    expected = [1, 2, 3, 1, 2.5, 1, 2.5, 9, 5, 6, 5, 0, 1, 4, 9, 0]
    np.testing.assert_array_equal(written(k, y), expected)


def test_constructors_of_matrices(backend):
    y, mat2 = sg.Matrix.field(2, 2, sg.f64, shape=8), sg.types.matrix(2, 2, sg.f64)

    @sg.kernel
    def k():
        y[0] = sg.Matrix([[1.0, 2.0], [3.0, 4.0]])
        y[1] = sg.Matrix.rows([sg.Vector([1, 2]), [3, 4]])
        y[2] = sg.Matrix.cols([sg.Vector([1, 2]), [3, 4]])
        y[3] = sg.Matrix.identity(sg.f64, 2) + sg.Matrix.one(sg.f64, 2, 2)
        y[4] = sg.Matrix.diag(2, 7.0) + sg.Matrix.zero(sg.f64, 2, 2)
        y[5] = mat2(1, 2, 3, 4)
        y[6] = mat2([1, 2], [3, 4])
        y[7] = sg.Matrix([[10 * i + j for j in range(2)] for i in range(2)])

    m = [[1, 2], [3, 4]]
    expected = [m, m, np.transpose(m), [[2, 1], [1, 2]], [[7, 0], [0, 7]], m, m, [[0, 1], [10, 11]]]
    np.testing.assert_array_equal(written(k, y), expected)


def test_types_of_sg_math(backend):
    y = out(3)

    @sg.kernel
    def k():
        v = sg.math.vec3(1, 2, 3)
        m = sg.math.mat3([1, 2, 3], [4, 5, 6], [7, 8, 10])
        i = sg.math.ivec2(7, 2)
        y[0] = (m @ v).dot(v)
        y[1] = i.x // i.y
        y[2] = sg.math.uvec4(3).sum()

    m, v = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]]), np.array([1, 2, 3])
    np.testing.assert_array_equal(written(k, y), [v @ m @ v, 3, 12])


def test_swizzles_and_slices(backend):
    y = out(15)

    @sg.kernel
    def k():
        v = sg.Vector([1.0, 2.0, 3.0, 4.0])
        v.xw = v.wx
        v.gb = sg.Vector([20.0, 30.0])
        v.p += 0.5
        w = v[1:4]
        w[:2] = v[2:]
        y[0], y[1], y[2], y[3] = v
        y[4], y[5], y[6] = w
        y[7], y[8], y[9] = v.xxz
        y[10], y[11] = v[::2]
        m = sg.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        m[1, :] = m[0, :] * 2
        m[:, 0] = [7.0, 8.0]
        m[0][1] = 9.0
        y[12] = m[0].sum()
        y[13] = m[1, 0:2].sum()
        y[14] = m[:, 2].sum()

    expected = [4, 20, 30.5, 1, 30.5, 1, 1, 4, 4, 30.5, 4, 30.5, 7 + 9 + 3, 8 + 4, 3 + 6]
    np.testing.assert_array_equal(written(k, y), expected)


def test_indices_known_at_launch_only(backend):
    y, at = out(13), sg.field(sg.i32, shape=2)
    at.from_numpy(np.array([2, 1], np.int32))

    @sg.kernel
    def k():
        i, j = at[0], at[1]
        v = sg.Vector([1.0, 2.0, 3.0])
        m = sg.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
        y[0] = v[i]
        y[1] = m[i, j] + m[j, 0] + m[0, i]
        v[i] += 10.0
        v[j] = v[i]
        y[2], y[3], y[4] = v
        m[i, j] = 80.0
        m[j] = m[i]
        m[:, i] *= 2
        y[5], y[6], y[7] = m[1]
        y[8], y[9], y[10] = m[i]
        y[11] = WEIGHTS[j, i] + OFFSET[j]
        m[i][j] = 0.5
        m[i, :][j] += 1.0
        y[12] = m[i][j] + m[i, j]

    expected = [3, 8 + 4 + 3, 1, 13, 13, 7, 80, 18, 7, 80, 18, 6 + 20, 3]
    np.testing.assert_array_equal(written(k, y), expected)


def test_a_local_keeps_the_type_of_its_first_value(backend):
    y = out(4)

    @sg.kernel
    def k():
        v = sg.Vector([1, 2])
        v = sg.Vector([7, 9]) // 2
        w = sg.Vector([1.0, 2.0])
        w = v
        w /= 4
        y[0], y[1] = v
        y[2], y[3] = w

    np.testing.assert_array_equal(written(k, y), [3, 4, 0.75, 1])


def test_annotated_locals_and_walrus(backend):
    y = out(5)

    @sg.kernel
    def k():
        v: vec2 = sg.Vector([1, 2])
        v /= 4
        y[0] = (w := v + 1.0).sum()
        w[0] = 0.0
        y[1], y[2] = w
        y[3], y[4] = v

    np.testing.assert_array_equal(written(k, y), [2.75, 0, 1.5, 0.25, 0.5])


def test_swap_and_tuples_of_vectors(backend):
    y = out(4)

    @sg.kernel
    def k():
        a, b = sg.Vector([1.0, 2.0]), sg.Vector([3.0, 4.0])
        n = 3
        while n > 0:
            a, b = b, a
            n -= 1
        a, b[0] = a + b, a[0]
        y[0], y[1], y[2], y[3] = *a, *b

    np.testing.assert_array_equal(written(k, y), [4, 6, 3, 2])


def test_choices(backend):
    y, at = out(8), sg.field(sg.i32, shape=())
    at[None] = 1

    @sg.kernel
    def k():
        a, b = sg.Vector([4.0, 9.0]), sg.Vector([3.0, 4.0])
        c = a if at[None] > 0 else b
        d = sg.sqrt(a) if at[None] > 1 else sg.exp(b)
        e = 0.0 if at[None] > 0 else b
        f = sg.select(a > 5.0, a, b)
        y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7] = *c, *d, *e, *f

    np.testing.assert_allclose(written(k, y), [4, 9, np.exp(3), np.exp(4), 0, 0, 3, 9], rtol=1e-14)


def test_sequences(backend):
    y, at = out(11), sg.field(sg.i32, shape=())
    at[None] = 1

    @sg.func
    def pair(a):
        return a, [a + 1.0, 2.0]

    @sg.kernel
    def k():
        v, i = sg.Vector([1.0, 2.0]), at[None]
        w = [v * 2, v + 1, (v, 7)]
        w[0][1] = 9.0
        w[1] = w[0].yx
        s = [1.0, 2, i]
        s[0] += s[2] + 0.5
        p = pair(v)
        q = [[1, 2], [3, 4]]
        y[0], y[1], y[2], y[3] = *w[0], *w[1]
        y[4] = w[2][0].sum() + w[2][1]
        y[5] = s[0] + len(s)
        y[6] = p[1][0].sum() + p[1][1]
        y[7] = q[i][0] + s[i]
        w, r = [v, v, (v, 1)], w
        y[8] = w[0].sum() + r[0].sum()
        for k in sg.static(range(2)):
            y[9 + k] = w[k][k]

    np.testing.assert_array_equal(written(k, y), [2, 9, 9, 2, 10, 2.5 + 3, 5 + 2, 3 + 2, 3 + 11, 1, 2])


def test_constants_of_the_host(backend):
    y, host = out(5), sg.Vector([1.0, 2.0, 3.0])
    table = (2.0, 4.0, 8.0)

    @sg.kernel
    def k():
        y[0], y[1] = WEIGHTS @ host
        y[2] = (host * OFFSET).sum()
        i = 0
        while i < 3:
            y[3] = table[i]
            i += 1
        y[4] = len(host) + WEIGHTS.shape[1]

    np.testing.assert_array_equal(written(k, y), [14, 32, 140, 8, 6])


def test_carried_through_loops_and_branches(backend):
    y, x = out(3), vectors(3, 5)

    @sg.kernel
    def k():
        total, biggest, n = sg.Vector.zero(sg.f64, 3), sg.Vector([0.0, 0.0, 0.0]), 0
        while n < 5:
            v = x[n]
            if v[0] > biggest[0]:
                biggest = v
            elif v[0] > 0.75:
                biggest[1] = 0.0
            total += v
            n += 1
        y[0], y[1], y[2] = total * biggest.x

    values, biggest = x.to_numpy(), np.zeros(3)
    for v in values:
        if v[0] > biggest[0]:
            biggest = v.copy()
    np.testing.assert_allclose(written(k, y), values.sum(axis=0) * biggest[0], rtol=1e-14)


def test_out_of_range_in_debug_mode(backend):
    backend.init(default_fp=sg.f64, debug=True)
    y, at = sg.field(sg.f64, shape=1), sg.field(sg.i32, shape=())
    at[None] = 3

    @sg.kernel
    def k():
        v = sg.Vector([1.0, 2.0, 3.0])
        y[0] = v[at[None]]

    with pytest.raises(sg.KernelAssertionError, match="the index of `v` is outside 0 to 2"):
        k()
        sg.sync()
