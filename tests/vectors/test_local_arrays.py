"""Long local vectors and matrices indexed at launch: memory of the iteration instead of selects, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ir.nodes import LocalArray
from stackgrad.compiler.ir.walk import walk_kernel
from vectors_support import real

pytestmark = pytest.mark.backends("cpu")

precisions = pytest.mark.parametrize("fp", [sg.f32, sg.f64], ids=["f32", "f64"])


def arrays_of(kernel):
    return [s for s in walk_kernel(kernel.ir()) if isinstance(s, LocalArray)]


def counts(*values):
    made = sg.field(sg.i32, shape=len(values))
    made.from_numpy(np.array(values, np.int32))
    return made


@pytest.mark.expensive
@precisions
def test_a_ring_buffer(backend, gradcheck, fp):
    """Twelve entries, read and overwritten in a dynamic loop; lanes run 0, 1, 7 and 30 steps."""
    backend.init(default_fp=fp)
    x, y, n = real(4, 12, fp=fp), real(4, fp=fp), counts(0, 1, 7, 30)

    @sg.kernel
    def k():
        for i in y:
            w = sg.Vector([x[i, j] for j in range(12)])
            a = 0.0
            for j in range(n[i]):
                w[j % 12] = 0.5 * sg.sin(w[(j + 5) % 12]) + 0.4 * w[j % 12]
                a += w[j % 12] * w[(j + 1) % 12]
            y[i] = a + w.sum()

    assert len(arrays_of(k)) == 1
    gradcheck(k)
    k()
    for i, steps in enumerate([0, 1, 7, 30]):
        w, a = x.to_numpy()[i].astype(np.float64), 0.0
        for j in range(steps):
            w[j % 12] = 0.5 * np.sin(w[(j + 5) % 12]) + 0.4 * w[j % 12]
            a += w[j % 12] * w[(j + 1) % 12]
        np.testing.assert_allclose(y[i], a + w.sum(), rtol=1e3 * np.finfo(fp.dtype).eps)


@pytest.mark.expensive
@precisions
def test_a_triangular_factorization(backend, gradcheck, fp):
    """A = L L^T of a 4 x 4 matrix in place, with indices known at launch alone; the loss is the sum of log L[k, k]."""
    backend.init(default_fp=fp)
    a, loss, n = real(4, 4, fp=fp, low=0.0, high=0.3), real(1, fp=fp), counts(4)

    @sg.kernel
    def k():
        for i in loss:
            m = sg.Matrix([[a[p, q] * a[q, p] for q in range(4)] for p in range(4)])
            for p in range(n[0]):
                m[p, p] += 2.0
            total = 0.0
            for c in range(n[0]):
                for s in range(c):
                    m[c, c] -= m[c, s] * m[c, s]
                m[c, c] = sg.sqrt(m[c, c])
                for r in range(c + 1, n[0]):
                    for s in range(c):
                        m[r, c] -= m[r, s] * m[c, s]
                    m[r, c] = m[r, c] / m[c, c]
                total += sg.log(m[c, c])
            loss[i] = total

    assert len(arrays_of(k)) == 1
    gradcheck(k)
    k()
    full = a.to_numpy().astype(np.float64)
    want = 0.5 * np.log(np.linalg.det(full * full.T + 2.0 * np.eye(4)))
    np.testing.assert_allclose(loss[0], want, rtol=1e3 * np.finfo(fp.dtype).eps)


def test_indices_outside_mean_what_they_mean_for_short_vectors(backend):
    """Where checks are switched off: a read outside gives the first entry, a write outside changes nothing; on rows and
    columns of matrices too. Else an error.
    """
    backend.init(default_fp=sg.f64, bounds="off")
    out, at = sg.field(sg.f64, shape=(5, 4)), counts(-1, 0, 2, 10, 2**31 - 1)

    @sg.kernel
    def k():
        for i in at:
            v = sg.Vector([1.0 * j + 1.0 for j in range(10)])
            m = sg.Matrix([[10.0 * p + q for q in range(4)] for p in range(3)])
            j = at[i]
            out[i, 0] = v[j]
            v[j] = -7.0
            out[i, 1] = v.sum()
            out[i, 2] = m[j, 1]
            m[1, j] = 100.0
            out[i, 3] = m.sum()

    k()
    assert len(arrays_of(k)) == 2
    inside, entry = [False, True, True, False, False], [1.0, 1.0, 3.0, 1.0, 1.0]
    matrix = np.add.outer([0.0, 10.0, 20.0], np.arange(4.0))
    for i, (good, value) in enumerate(zip(inside, entry)):
        j = int(at[i])
        row = matrix[j, 1] if 0 <= j < 3 else matrix[0, 1]
        total = matrix.sum() + (100.0 - matrix[1, j] if 0 <= j < 4 else 0.0)
        want = [value, 55.0 - (7.0 + value if good else 0.0), row, total]
        np.testing.assert_array_equal(out.to_numpy()[i], want)


def test_short_ones_and_static_indices_stay_in_registers(backend):
    backend.init(default_fp=sg.f64)
    x, n = real(3), counts(5)
    last = 11

    @sg.kernel
    def k():
        for i in x:
            short = sg.Vector([x[i] * j for j in range(8)])
            long = sg.Vector([x[i] * j for j in range(12)])
            for j in sg.static(range(11)):
                long[j] = long[j + 1] + short[n[0]]
            x[i] = long.sum() + long[last]

    assert arrays_of(k) == []


@pytest.mark.expensive
@precisions
def test_arrays_of_integers_and_arrays_in_branches_of_loops(backend, gradcheck, fp):
    """A permutation carried in an array of integers decides which entries of a vector are combined."""
    backend.init(default_fp=fp)
    x, y, n = real(3, fp=fp), real(3, fp=fp), counts(2, 5, 9)

    @sg.kernel
    def k():
        for i in y:
            p = sg.Vector([(7 * j + 3) % 10 for j in range(10)])
            a = x[i]
            for j in range(n[i]):
                if j % 2 == 0:
                    w = sg.Vector([a * (0.1 * q + 0.2) for q in range(10)])
                    for q in range(j):
                        w[p[q]] = sg.sin(w[p[q]] * w[p[(q + 1) % 10]])
                        p[q % 10] = p[(q + 3) % 10]
                    a = 0.5 * a + w[p[j % 10]]
            y[i] = a

    assert len(arrays_of(k)) == 2
    gradcheck(k)
