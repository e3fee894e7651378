"""Fields of vectors, matrices and structs in kernels: elements, entries, updates, loops, gradients, layouts."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.capture import capture
from stackgrad.compiler.ir.printer import print_kernel
from vectors_support import matrices, vectors, written

pytestmark = pytest.mark.backends("reference", "cpu")

Particle = sg.types.struct(pos=sg.types.vector(2, sg.f64), mass=sg.f64, spin=sg.types.matrix(2, 2, sg.f64))


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


def layouts():
    return pytest.mark.parametrize("layout", [sg.Layout.AOS, sg.Layout.SOA], ids=["aos", "soa"])


@layouts()
def test_entries_of_elements(backend, layout):
    x = sg.Vector.field(3, sg.f64, shape=(2, 4), layout=layout)
    m = sg.Matrix.field(2, 3, sg.f64, shape=4, layout=layout)
    x.from_numpy(np.arange(24.0).reshape(2, 4, 3))
    m.from_numpy(np.arange(24.0).reshape(4, 2, 3))

    @sg.kernel
    def k():
        for i, j in x:
            x[i, j][0] += 100 * i
            x[i, j].y -= 10 * j
            x[i, j].zx = x[i, j].xz
        for i in m:
            for j in range(2):
                m[i][j, 0] = m[i][1 - j, 2] + i
            m[i][1, :] += x[0, i]

    before, start = x.to_numpy(), m.to_numpy()
    k()
    i, j = np.indices((2, 4))
    first = before + np.stack([100 * i, -10 * j, 0 * i], axis=-1)
    expected = first[..., [2, 1, 0]]
    np.testing.assert_array_equal(x.to_numpy(), expected)
    for i in range(4):
        for j in range(2):
            start[i, j, 0] = start[i, 1 - j, 2] + i
        start[i, 1] += expected[0, i]
    np.testing.assert_array_equal(m.to_numpy(), start)


def test_only_what_is_named_is_loaded(backend):
    x, y, s = vectors(3, 4), sg.field(sg.f64, shape=4), Particle.field(shape=4)

    @sg.kernel
    def k():
        for i in y:
            y[i] = x[i].y * s[i].mass

    with capture() as made:
        k()
    kernel = made.launches[0].kernel
    assert print_kernel(kernel).count("load") == 2
    assert set(kernel.array_types()) == {"x", "y", "s.mass"}


def test_atomic_updates(backend):
    total, entry = sg.Vector.field(3, sg.f64, shape=()), sg.Matrix.field(2, 2, sg.f64, shape=2)
    x = vectors(3, 64)

    @sg.kernel
    def k():
        for i in x:
            total[None] += x[i] * 2
            sg.atomic_add(entry[i % 2], sg.Matrix([[x[i].x, 1.0], [0.0, 0.0]]))
            entry[i % 2][1, 0] -= x[i][2]
            sg.atomic_max(entry[0][1, 1], x[i].y)
            total[None].zy[i % 2] += 1.0

    k()
    values = x.to_numpy()
    np.testing.assert_allclose(total.to_numpy(), 2 * values.sum(axis=0) + [0, 32, 32], rtol=1e-13)
    even, odd = values[::2], values[1::2]
    expected = [[[v[:, 0].sum(), 32], [-v[:, 2].sum(), 0]] for v in (even, odd)]
    expected[0][1][1] = values[:, 1].max()
    np.testing.assert_allclose(entry.to_numpy(), expected, rtol=1e-13)


def test_one_number_fills_an_element(backend):
    x = vectors(3, 2)

    @sg.kernel
    def k():
        x[0] = 4.0
        x[1] *= 2
        x[1].xy = 0

    third = x.to_numpy()[1, 2]
    k()
    np.testing.assert_array_equal(x.to_numpy(), [[4, 4, 4], [0, 0, 2 * third]])


def test_shapes_and_constants_of_fields(backend):
    x, y = matrices(2, 3, 5, 7), sg.field(sg.f64, shape=5)

    @sg.kernel
    def k():
        y[0] = x.shape[0] * 10 + x.shape[1]
        y[1] = x.n * 10 + x.m
        for i, j in sg.ndrange(*x.shape):
            sg.atomic_add(y[2], x[i, j][0, 0])

    found = written(k, y)
    assert list(found[:2]) == [57, 23]
    np.testing.assert_allclose(found[2] + 77, x.to_numpy()[..., 0, 0].sum())


def test_gradients_as_fields(backend):
    x, loss = vectors(2, 3), sg.field(sg.f64, shape=(), needs_grad=True)
    s = Particle.field(shape=3, needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            x.grad[i] = x[i] * 2
            x.grad[i][0] += 1.0
            s.grad[i].pos.y = 5.0

    k()
    np.testing.assert_allclose(x.grad.to_numpy(), x.to_numpy() * 2 + [1, 0])
    np.testing.assert_array_equal(s.grad.pos.to_numpy(), [[0, 5]] * 3)
    assert loss[None] == 0


def test_struct_fields(backend):
    s = Particle.field(shape=4)

    @sg.kernel
    def k():
        for i in s:
            s[i].pos = [i, 2 * i]
            s[i].mass = 3.0
            s[i].spin[0, 1] = 7.0
            s[i].pos.x += 0.5
            s[i].pos[1] -= s[i].mass
        s[3] = s[2]
        p = s[1]
        p.pos *= 2
        p.spin = p.spin.transpose()
        s[0] = p

    k()
    expected = np.array([[3, -2], [1.5, -1], [2.5, 1], [2.5, 1]])
    np.testing.assert_array_equal(s.pos.to_numpy(), expected)
    np.testing.assert_array_equal(s.mass.to_numpy(), [3] * 4)
    np.testing.assert_array_equal(s.spin.to_numpy()[:, 0, 1], [0, 7, 7, 7])
    np.testing.assert_array_equal(s.spin.to_numpy()[:, 1, 0], [7, 0, 0, 0])


def test_member_fields(backend):
    s = Particle.field(shape=3)

    @sg.kernel
    def k():
        for i in s.mass:
            s.mass[i] = i + 1
            s.pos[i] = s.mass[i] * sg.Vector([1.0, -1.0])

    k()
    np.testing.assert_array_equal(s.pos.to_numpy(), [[1, -1], [2, -2], [3, -3]])


def test_index_vectors(backend):
    x, y = vectors(2, 3, 4), sg.field(sg.f64, shape=(3, 4))

    @sg.kernel
    def k():
        for i, j in y:
            p = sg.Vector([i, j])
            q = (p + sg.Vector([1, 1])) % sg.Vector([3, 4])
            y[p] = x[q].x

    found = written(k, y)
    np.testing.assert_array_equal(found, np.roll(x.to_numpy()[..., 0], (-1, -1), (0, 1)))
