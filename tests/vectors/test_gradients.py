"""Gradients through vectors and matrices: every backend, both lowerings, JAX, dual numbers, in f32 and f64."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from vectors_support import content, matrices, real, vectors

pytestmark = pytest.mark.backends("cpu")

precisions = pytest.mark.parametrize("fp", [sg.f32, sg.f64], ids=["f32", "f64"])


def scalar(fp):
    return sg.field(fp, shape=(), needs_grad=True)


def count(n):
    made = sg.field(sg.i32, shape=())
    made[None] = n
    return made


@pytest.mark.expensive
@precisions
def test_vectors_carried_through_a_dynamic_loop(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    x, m, loss, n = vectors(3, 3, fp=fp), matrices(3, 3, fp=fp), scalar(fp), count(6)

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None] + i):
                v = sg.sin(m[None] @ v) + 0.25 * v.zxy * v
                v.xy -= 0.1 * v.yz
            loss[None] += v.dot(x[i])

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_quaternions_that_turn(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    q0, omega, loss, n = vectors(4, 2, fp=fp), vectors(3, 2, fp=fp), scalar(fp), count(5)

    @sg.func
    def product(p, q):
        v = p.x * q.yzw + q.x * p.yzw + p.yzw.cross(q.yzw)
        return sg.Vector([p.x * q.x - p.yzw.dot(q.yzw), v.x, v.y, v.z])

    @sg.kernel
    def k():
        for i in q0:
            q = q0[i].normalized()
            t = 0
            while t < n[None]:
                q = (q + 0.05 * product(q, sg.Vector([0.0, omega[i].x, omega[i].y, omega[i].z]))).normalized()
                t += 1
            loss[None] += q.x * q.y + 2.0 * q.z

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_ring_buffer(backend, gradcheck, fp):
    """Entries written and read at indices known at launch only, in a dynamic loop."""
    backend.init(default_fp=fp)
    x, loss, n = real(9, fp=fp), scalar(fp), count(9)

    @sg.kernel
    def k():
        for _ in range(1):
            ring = sg.Vector.zero(fp, 3)
            for t in range(n[None]):
                ring[t % 3] = x[t] * ring[(t + 1) % 3] + sg.sin(x[t])
                ring[(t + 2) % 3] *= 1.5
                loss[None] += ring[t % 3] * ring.sum()

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_matrix_recurrence_with_dynamic_rows(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    m, loss, n = matrices(3, 3, 2, fp=fp), scalar(fp), count(4)

    @sg.kernel
    def k():
        for i in m:
            a = sg.Matrix.identity(fp, 3)
            for t in range(n[None]):
                a = a @ m[i] * 0.5
                a[t % 3] = a[(t + 1) % 3, :] * a[t % 3, 0]
                a[:, t % 2] += sg.Vector([1.0, 0.5, 0.25])
            loss[None] += a.trace() + a.determinant()

    gradcheck(k)


@pytest.mark.rotating
@precisions
@pytest.mark.parametrize("size", [2, 3, 4])
def test_inverses(backend, gradcheck, fp, size):
    backend.init(default_fp=fp)
    m, x, loss = matrices(size, size, fp=fp), vectors(size, fp=fp), scalar(fp)
    m.from_numpy(content((size, size), fp, 5, -0.3, 0.3) + np.eye(size, dtype=fp.dtype))

    @sg.kernel
    def k():
        loss[None] += (m[None].inverse() @ x[None]).norm_sqr() + m[None].determinant()

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_norms(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    x, loss = vectors(3, 4, fp=fp), scalar(fp)

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            loss[None] += v.norm() * v.normalized().x + v.norm_inv(1e-2) + v.normalized(0.1).dot(v) + v.norm_sqr()

    gradcheck(k)


@precisions
def test_norm_of_zero_has_the_gradient_zero(backend, fp):
    backend.init(default_fp=fp)
    x, loss = sg.Vector.field(3, fp, shape=3, needs_grad=True), scalar(fp)
    x[1] = [3.0, 0.0, 4.0]

    @sg.kernel
    def k():
        for i in x:
            loss[None] += 2.0 * x[i].norm() + x[i].norm(1e-4)

    k()
    loss.grad[None] = 1.0
    k.grad()
    length = np.sqrt(25.0 + 1e-4)
    np.testing.assert_allclose(loss[None], 10.0 + length + 2 * 1e-2, rtol=1e-6)
    expected = np.array([3, 0, 4]) * (2 / 5.0 + 1 / length)
    np.testing.assert_allclose(x.grad.to_numpy(), [[0, 0, 0], expected, [0, 0, 0]], rtol=1e-5)


@pytest.mark.expensive
@precisions
def test_choices_and_branches(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    x, loss = vectors(3, 8, fp=fp, low=-1.0, high=2.0), scalar(fp)

    @sg.kernel
    def k():
        for i in x:
            v, w = x[i], x[7 - i]
            if v.x > w.x:
                v = sg.exp(w) * v
            elif v.y > 0.5:
                v.yz = w.xy
            u = v.cross(w) if w.z > 0.0 else sg.sin(v)
            u += sg.select(v > 0.25, v * w, 0.5)
            loss[None] += u.norm_sqr() + sg.max(u, v).sum() * sg.min(v.x, 0.3)

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_scattered_updates(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    x, total, m = vectors(2, 12, fp=fp), sg.Vector.field(2, fp, shape=3, needs_grad=True), matrices(2, 2, fp=fp)
    loss = scalar(fp)

    @sg.kernel
    def k():
        for i in x:
            total[i % 3] += m[None] @ x[i]
            total[(i + 1) % 3][i % 2] -= x[i].x * x[i].y
            total[i % 3].yx[i % 2] += x[i].x
        for i in total:
            loss[None] += total[i].norm_sqr()

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_elements_of_fields_at_dynamic_entries(backend, gradcheck, fp):
    backend.init(default_fp=fp)
    x, m, loss, n = vectors(4, 3, fp=fp), matrices(2, 3, fp=fp), scalar(fp), count(5)

    @sg.kernel
    def k():
        for i in x:
            for t in range(n[None]):
                loss[None] += x[i][t % 4] * m[None][t % 2, (t + i) % 3] * x[i].zw[t % 2]

    gradcheck(k)


@pytest.mark.expensive
@precisions
def test_particles_and_a_grid(backend, gradcheck, fp):
    """Weights in a list, unrolled loops over neighbors, scatter of vectors, gather of matrices."""
    backend.init(default_fp=fp)
    x, v, c = vectors(2, 2, fp=fp, low=1.0, high=3.0), vectors(2, 2, fp=fp), matrices(2, 2, 2, fp=fp)
    grid, mass = sg.Vector.field(2, fp, shape=(5, 5), needs_grad=True), sg.field(fp, shape=(5, 5), needs_grad=True)
    loss = scalar(fp)

    @sg.func
    def weights(p):
        base = sg.cast(p - 0.5, sg.i32)
        f = p - sg.cast(base, fp)
        return base, [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2]

    @sg.kernel
    def scatter():
        for p in x:
            base, w = weights(x[p])
            affine = c[p] + sg.Matrix.diag(dim=2, val=0.1)
            for i, j in sg.static(sg.ndrange(3, 3)):
                offset = sg.Vector([i, j])
                weight = w[i][0] * w[j][1]
                grid[base + offset] += weight * (v[p] + affine @ (sg.cast(base + offset, fp) - x[p]))
                mass[base + offset] += weight

    @sg.kernel
    def gather():
        for p in x:
            base, w = weights(x[p])
            moved, spin = sg.Vector.zero(fp, 2), sg.Matrix.zero(fp, 2, 2)
            for i, j in sg.static(sg.ndrange(3, 3)):
                offset = sg.Vector([i, j])
                flow = w[i].x * w[j].y * grid[base + offset] / (mass[base + offset] + 0.1)
                moved += flow
                spin += flow.outer_product(offset)
            loss[None] += moved.norm_sqr() + spin.determinant() + spin.trace()

    gradcheck(scatter)
    gradcheck(gather)
