"""Kernels on vectors and the same kernels written out in scalars by hand: same values, same gradients."""

from __future__ import annotations

import pytest
import stackgrad as sg
from vectors_support import matrices, real, twins, vectors

pytestmark = [
    pytest.mark.backends("reference", "cpu"),
    pytest.mark.parametrize("fp", [sg.f32, sg.f64], ids=["f32", "f64"]),
]


@pytest.fixture
def loss(backend, fp):
    backend.init(default_fp=fp)
    return sg.field(fp, shape=(), needs_grad=True)


def test_spring_and_drag(loss, fp):
    x, stiffness = vectors(2, 4, fp=fp), real(4, fp=fp)

    @sg.kernel
    def by_vectors():
        for i in x:
            p, v = x[i], sg.Vector.zero(fp, 2)
            for _ in range(6):
                v += 0.1 * (-stiffness[i] * p - 0.5 * v * v.norm(1e-3))
                p += 0.1 * v
            loss[None] += p.dot(v)

    @sg.kernel
    def by_scalars():
        for i in stiffness:
            p0, p1 = x[i][0], x[i][1]
            v0, v1 = sg.cast(0.0, fp), sg.cast(0.0, fp)
            for _ in range(6):
                length = sg.sqrt(v0 * v0 + v1 * v1 + 1e-3)
                a0 = 0.1 * (-stiffness[i] * p0 - 0.5 * v0 * length)
                a1 = 0.1 * (-stiffness[i] * p1 - 0.5 * v1 * length)
                v0 += a0
                v1 += a1
                p0 += 0.1 * v0
                p1 += 0.1 * v1
            loss[None] += p0 * v0 + p1 * v1

    twins(by_vectors, by_scalars, loss, [x, stiffness])


def test_matrix_power(loss, fp):
    m, n = matrices(2, 2, fp=fp), sg.field(sg.i32, shape=())
    n[None] = 5

    @sg.kernel
    def by_matrices():
        a = sg.Matrix.identity(fp, 2)
        t = 0
        while t < n[None]:
            a = a @ m[None]
            t += 1
        loss[None] += a.determinant() + a.trace()

    @sg.kernel
    def by_scalars():
        p, q, r, s = sg.cast(1.0, fp), sg.cast(0.0, fp), sg.cast(0.0, fp), sg.cast(1.0, fp)
        t = 0
        while t < n[None]:
            a, b, c, d = m[None][0, 0], m[None][0, 1], m[None][1, 0], m[None][1, 1]
            p, q, r, s = p * a + q * c, p * b + q * d, r * a + s * c, r * b + s * d
            t += 1
        loss[None] += p * s - q * r + (p + s)

    twins(by_matrices, by_scalars, loss, [m])


def test_dynamic_entry(loss, fp):
    x, y = real(8, fp=fp), vectors(3, fp=fp)

    @sg.kernel
    def by_vectors():
        for _ in range(1):
            v = y[None]
            for t in range(8):
                v[(t * 2) % 3] *= x[t]
            loss[None] += v.x + v.y * v.z

    @sg.kernel
    def by_scalars():
        for _ in range(1):
            a, b, c = y[None][0], y[None][1], y[None][2]
            for t in range(8):
                k = (t * 2) % 3
                if k == 0:
                    a *= x[t]
                elif k == 1:
                    b *= x[t]
                else:
                    c *= x[t]
            loss[None] += a + b * c

    twins(by_vectors, by_scalars, loss, [x, y])


def test_rotation_about_an_axis(loss, fp):
    axis, angle = vectors(3, fp=fp), real(5, fp=fp)

    @sg.kernel
    def by_vectors():
        for i in angle:
            k, v = axis[None].normalized(), sg.Vector([1.0, 2.0, 3.0], fp)
            c, s = sg.cos(angle[i]), sg.sin(angle[i])
            w = v * c + k.cross(v) * s + k * (k.dot(v) * (1.0 - c))
            loss[None] += w.x * w.y - w.z

    @sg.kernel
    def by_scalars():
        for i in angle:
            a, b, c = axis[None][0], axis[None][1], axis[None][2]
            length = sg.sqrt(a * a + b * b + c * c)
            kx, ky, kz = a / length, b / length, c / length
            co, si = sg.cos(angle[i]), sg.sin(angle[i])
            along = (kx * 1.0 + ky * 2.0 + kz * 3.0) * (1.0 - co)
            x = 1.0 * co + (ky * 3.0 - kz * 2.0) * si + kx * along
            y = 2.0 * co + (kz * 1.0 - kx * 3.0) * si + ky * along
            z = 3.0 * co + (kx * 2.0 - ky * 1.0) * si + kz * along
            loss[None] += x * y - z

    twins(by_vectors, by_scalars, loss, [axis, angle])


def test_network_cell(loss, fp):
    w, u, x = matrices(3, 3, fp=fp), matrices(3, 2, fp=fp), vectors(2, 6, fp=fp, low=-0.5, high=0.5)

    @sg.kernel
    def by_vectors():
        for _ in range(1):
            h = sg.Vector.zero(fp, 3)
            for t in range(6):
                h = sg.tanh(w[None] @ h + u[None] @ x[t])
            loss[None] += h.norm_sqr()

    @sg.kernel
    def by_scalars():
        for _ in range(1):
            a, b, c = sg.cast(0.0, fp), sg.cast(0.0, fp), sg.cast(0.0, fp)
            for t in range(6):
                p = w[None][0, 0] * a + w[None][0, 1] * b + w[None][0, 2] * c
                q = w[None][1, 0] * a + w[None][1, 1] * b + w[None][1, 2] * c
                r = w[None][2, 0] * a + w[None][2, 1] * b + w[None][2, 2] * c
                a = sg.tanh(p + (u[None][0, 0] * x[t][0] + u[None][0, 1] * x[t][1]))
                b = sg.tanh(q + (u[None][1, 0] * x[t][0] + u[None][1, 1] * x[t][1]))
                c = sg.tanh(r + (u[None][2, 0] * x[t][0] + u[None][2, 1] * x[t][1]))
            loss[None] += a * a + b * b + c * c

    twins(by_vectors, by_scalars, loss, [w, u, x])
