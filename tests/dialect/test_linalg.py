"""Decompositions and systems of small matrices: residuals, orders and signs, gradients, singular matrices."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from gradients import check_function, check_gradient, field_of, launcher

pytestmark = pytest.mark.usefixtures("arch")
RNG = np.random.default_rng(11)
A3 = np.array([[2.0, -0.5, 0.3], [0.1, 1.5, 0.7], [-0.4, 0.2, 1.1]])
SINGULAR = np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 2.0])


def each(f, arguments, *shapes):
    """An argument and what f(argument) gives, one after another, by one kernel."""
    x, o = field_of(arguments[0]), [field_of(np.zeros(shape)) for shape in shapes]
    k = launcher(f, [x], o)
    for a in arguments:
        x.from_numpy(np.asarray(a, float)[None])
        k()
        yield np.asarray(a, float), *(field.to_numpy()[0] for field in o)


def matrices(n: int, count: int = 6) -> list[np.ndarray]:
    """Random matrices, some of them badly conditioned, reflecting, diagonal, singular or zero."""
    made = [RNG.normal(size=(n, n)) * 10.0**k for k in range(-2, count - 2)]
    return [*made, np.diag(np.arange(1.0, n + 1)), np.eye(n), -np.eye(n), SINGULAR[:n, :n], np.zeros((n, n))]


# ---- svd ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_svd(n) -> None:
    for a, u, s, v in each(sg.svd, matrices(n), (n, n), (n, n), (n, n)):
        size = max(np.abs(a).max(), 1e-300)
        np.testing.assert_allclose(u @ s @ v.T, a, atol=1e-14 * n * size)
        np.testing.assert_allclose(u.T @ u, np.eye(n), atol=1e-13)
        np.testing.assert_allclose(v.T @ v, np.eye(n), atol=1e-13)
        np.testing.assert_allclose(np.diag(s), np.linalg.svd(a)[1], atol=1e-14 * n * size)
        assert (s - np.diag(np.diag(s)) == 0).all()


@sg.func
def singular_values(a):
    _u, s, _v = sg.svd(a)
    return sg.Vector([s[i, i] for i in sg.static(range(a.n))])


@sg.func
def low_rank(a):
    u, s, v = sg.svd(a)
    return s[0, 0] * u[:, 0].outer_product(v[:, 0])


@pytest.mark.rotating
@pytest.mark.parametrize("n", [2, 3])
def test_gradient_of_svd(n) -> None:
    a = A3[:n, :n]
    u, s, vt = np.linalg.svd(a)
    check_function(singular_values, [a], s, gradient=1e-6)
    check_function(low_rank, [a], s[0] * np.outer(u[:, 0], vt[0]), gradient=1e-6)
    diagonal = np.diag(np.arange(3.0, 3.0 - n, -1))
    check_function(low_rank, [diagonal], 3.0 * np.outer(np.eye(n)[0], np.eye(n)[0]), gradient=1e-6)


# ---- symmetric eigenvalues ------------------------------------------------------------------------------------------


def symmetric(n: int) -> np.ndarray:
    a = np.random.default_rng(n).normal(size=(n, n))
    return a + a.T + np.diag(np.arange(n))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_sym_eig(n) -> None:
    cases = [symmetric(n), np.diag(np.arange(1.0, n + 1)), np.eye(n), np.zeros((n, n))]
    for a, w, q in each(sg.sym_eig, cases, (n,), (n, n)):
        order = w[::-1] if n == 2 else w
        np.testing.assert_allclose(order, np.linalg.eigvalsh(a), atol=1e-13 * n)
        np.testing.assert_allclose(q @ np.diag(w) @ q.T, a, atol=1e-13 * n)
        np.testing.assert_allclose(q.T @ q, np.eye(n), atol=1e-13)


@sg.func
def of_symmetric(b):
    a = b + b.transpose()
    w, q = sg.sym_eig(a)
    return (w[0] * w[0] * w[1]) * q[:, 0].outer_product(q[:, 0])


@pytest.mark.parametrize("n", [2, 3])
def test_gradient_of_sym_eig(n) -> None:
    b = A3[:n, :n]
    w, q = np.linalg.eigh(b + b.T)
    if n == 2:
        w, q = w[::-1], q[:, ::-1]
    check_function(of_symmetric, [b], w[0] ** 2 * w[1] * np.outer(q[:, 0], q[:, 0]), gradient=1e-6)


@sg.func
def projected(b):
    return sg.make_spd(b + b.transpose())


@pytest.mark.rotating
@pytest.mark.parametrize("n", [2, 3, 4])
def test_make_spd(n) -> None:
    b = symmetric(n) / 2 - 0.6 * np.eye(n)
    w, q = np.linalg.eigh(2 * b)
    check_function(projected, [b], q @ np.diag(np.maximum(w, 0)) @ q.T, gradient=1e-5)


@pytest.mark.rotating
@pytest.mark.parametrize("arch", ["reference"], indirect=True)
def test_sym_eig_of_twelve_rows() -> None:
    for a, w, q in each(sg.sym_eig, [symmetric(12)], (12,), (12, 12)):
        np.testing.assert_allclose(w, np.linalg.eigvalsh(a), atol=1e-12)
        np.testing.assert_allclose(q @ np.diag(w) @ q.T, a, atol=1e-12)


# ---- polar ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_polar_decompose(n) -> None:
    for a, r, s in each(sg.polar_decompose, matrices(n), (n, n), (n, n)):
        size = max(np.abs(a).max(), 1e-300)
        np.testing.assert_allclose(r @ s, a, atol=1e-13 * size)
        np.testing.assert_allclose(r.T @ r, np.eye(n), atol=1e-13)
        np.testing.assert_allclose(s, s.T, atol=1e-15 * size)
        assert np.linalg.eigvalsh(s).min() >= -1e-13 * size
        if abs(np.linalg.det(a)) > 1e-12:
            assert np.linalg.det(r) * np.linalg.det(a) > 0


@pytest.mark.parametrize("n", [2, 3])
def test_gradient_of_polar_decompose(n) -> None:
    """Where singular values coincide, too: at the identity and at rotations."""
    c, s = np.cos(0.4), np.sin(0.4)
    rotation = np.eye(n)
    rotation[:2, :2] = [[c, -s], [s, c]]
    mirrored = A3[:n, :n] @ np.diag([-1, 1, 1][:n])
    o, x = [field_of(np.zeros((n, n))), field_of(np.zeros((n, n)))], field_of(np.eye(n))
    k = launcher(sg.polar_decompose, [x], o)
    for a in (A3[:n, :n], np.eye(n), rotation, mirrored):
        x.from_numpy(a[None])
        check_gradient(k, [x], o, 1e-6)


# ---- general eigenvalues, systems -----------------------------------------------------------------------------------


def test_eig() -> None:
    cases = [
        [[2.0, 1.0], [0.5, -1.0]],
        [[0.3, -2.0], [1.0, 0.7]],
        [[1.0, 5.0], [0.0, 2.0]],
        [[1.0, 0.0], [5.0, 2.0]],
        [[3.0, 0.0], [0.0, 3.0]],
    ]
    for a, w, v in each(sg.eig, cases, (2, 2), (4, 2)):
        vectors = v[::2] + 1j * v[1::2]
        for i in range(2):
            np.testing.assert_allclose(a @ vectors[:, i], complex(*w[i]) * vectors[:, i], atol=1e-14)
            assert np.linalg.norm(vectors[:, i]) == pytest.approx(1.0)
        assert np.linalg.matrix_rank(vectors) == 2
        key = sorted(np.linalg.eigvals(a).astype(complex), key=lambda z: (-z.real, -z.imag))
        np.testing.assert_allclose([complex(*row) for row in w], key, atol=1e-14)


def test_gradient_of_eig() -> None:
    for a in ([[2.0, 1.0], [0.5, -1.0]], [[0.3, -2.0], [1.0, 0.7]]):
        o, x = [field_of(np.zeros((2, 2))), field_of(np.zeros((4, 2)))], field_of(a)
        check_gradient(launcher(sg.eig, [x], o), [x], o, 1e-6)


@pytest.mark.parametrize("n", [2, 3])
def test_solve(n) -> None:
    for a in (A3[:n, :n], np.eye(n)[::-1] + 1e-9 * A3[:n, :n], RNG.normal(size=(n, n))):
        b = np.arange(1.0, n + 1)
        check_function(sg.solve, [a, b], np.linalg.solve(a, b), rtol=1e-11, gradient=1e-5)


def test_outer() -> None:
    x, y = np.array([1.0, -2.0, 0.5]), np.array([3.0, 0.25])
    check_function(sg.outer, [x, y], np.outer(x, y))


def test_a_type_to_compute_in() -> None:
    x, s = sg.Matrix.field(2, 2, sg.f32, shape=(1,)), sg.Matrix.field(2, 2, sg.f64, shape=(1,))
    x.from_numpy(A3[None, :2, :2].astype(np.float32))

    @sg.kernel
    def k():
        for i in range(1):
            _u, sigma, _v = sg.svd(x[i], sg.f64)
            s[i] = sigma

    k()
    expected = np.linalg.svd(A3[:2, :2].astype(np.float32).astype(float))[1]
    np.testing.assert_allclose(np.diag(s.to_numpy()[0]), expected, rtol=1e-14)


def test_shapes_that_do_not_fit() -> None:
    x = field_of(np.zeros((4, 4)))
    for f, text in ((sg.svd, "svd takes square matrices of 2 or 3 rows"), (sg.eig, "eig takes matrices of 2 rows")):
        with pytest.raises(sg.KernelSyntaxError, match=text):
            launcher(f, [x], [field_of(np.zeros((4, 4))), field_of(np.zeros((4, 4))), field_of(np.zeros((4, 4)))])()


def test_on_the_host() -> None:
    a = sg.Matrix(A3.tolist())
    u, s, v = (m.to_numpy() for m in sg.svd(a))
    np.testing.assert_allclose(u @ s @ v.T, A3, atol=1e-14)
    r, p = (m.to_numpy() for m in sg.polar_decompose(a))
    np.testing.assert_allclose(r @ p, A3, atol=1e-14)
    np.testing.assert_allclose(sg.solve(a, sg.Vector([1.0, 2.0, 3.0])).to_numpy(), np.linalg.solve(A3, [1, 2, 3]))
