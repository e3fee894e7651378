"""Define `sym_eig`, `svd`, `polar_decompose`, `eig` and `solve` for small matrices inside of kernels.

Invariant: everything is written in the kernel language with fixed trip counts, so every executor computes the same and
reverse mode differentiates it. Matrices are square and small; `dt`, if given, is the type to compute in.

Eigenvectors of equal eigenvalues, and singular vectors of equal singular values, are not unique and have no derivative:
a rotation between two columns that are exactly orthogonal and of exactly equal length counts as constant.
`polar_decompose` is differentiable at such matrices.
"""

from __future__ import annotations

from typing import Any

from ..compiler.frontend.functions import EXPORTS, func
from ..compiler.frontend.refused_names import RefusedName
from ..data.values import Matrix as _Matrix
from ..data.values import Vector as _Vector

_FUNCTIONS: Any = EXPORTS
abs, cast, max, min, sqrt = (_FUNCTIONS[name] for name in ("abs", "cast", "max", "min", "sqrt"))  # noqa: A001
select, static, static_assert = (_FUNCTIONS[name] for name in ("select", "static", "static_assert"))
Matrix: Any = _Matrix
Vector: Any = _Vector

SparseMatrix, SparseMatrixBuilder = RefusedName("linalg.SparseMatrix"), RefusedName("linalg.SparseMatrixBuilder")
SparseSolver = RefusedName("linalg.SparseSolver")


@func
def outer(x: Any, y: Any) -> Any:
    """Return the matrix x·yᵀ of two vectors."""
    return x.outer_product(y)


_SWEEPS = 7
"""Number of sweeps of cyclic Jacobi rotations.

Convergence is quadratic: 3 rows need 5 sweeps in double precision, 12 rows need 7.
"""


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Return all index pairs (p, q) with p < q < n, which one sweep of Jacobi rotations visits."""
    return tuple((p, q) for p in range(n) for q in range(p + 1, n))


@func
def _typed(A: Any, dt: Any) -> Any:
    """Return A converted to `dt`, or to a real type if `dt` is None."""
    if static(dt is not None):
        return cast(A, dt)
    return A * 1.0


@func
def _tangent(offset: Any, difference: Any) -> Any:
    """Return the tangent of the angle of the smaller Jacobi rotation that zeroes an off-diagonal entry.

    For the entry b = `offset` and a difference d of diagonal entries it is 2b/(d ± √(d² + 4b²)). It is smooth in b
    where d is not 0, and it is 0 where both are 0.
    """
    root = sqrt(difference * difference + 4.0 * offset * offset)
    result = offset * 0.0
    if root > 0.0:
        result = 2.0 * offset / (difference + select(difference < 0.0, -root, root))
    return result


@func
def sym_eig(A: Any, dt: Any = None) -> Any:
    """Return the eigenvalues, of shape (n,), and the eigenvectors, as columns, of a symmetric matrix.

    A has 2 to 12 rows; only its upper triangle is read. Eigenvalues ascend, but descend for 2×2. `dt` is a type.
    """
    n = static(A.n)
    static_assert(A.n == A.m and 2 <= A.n <= 12, "sym_eig takes square matrices of 2 to 12 rows")
    S = _typed(A, dt)
    Q = S * 0.0
    for i in static(range(n)):
        Q[i, i] = 1.0
    for _ in range(static(1 if n == 2 else _SWEEPS)):
        for p, q in static(_pairs(n)):
            t = _tangent(S[p, q], S[q, q] - S[p, p])
            c = 1.0 / sqrt(1.0 + t * t)
            s = t * c
            S[p, p] = S[p, p] - t * S[p, q]
            S[q, q] = S[q, q] + t * S[p, q]
            S[p, q] = S[p, q] * 0.0
            for k in static([k for k in range(n) if k not in (p, q)]):
                a = S[min(k, p), max(k, p)]
                b = S[min(k, q), max(k, q)]
                S[min(k, p), max(k, p)] = c * a - s * b
                S[min(k, q), max(k, q)] = s * a + c * b
            for k in static(range(n)):
                x = Q[k, p]
                y = Q[k, q]
                Q[k, p] = c * x - s * y
                Q[k, q] = s * x + c * y
    values = Vector([S[i, i] for i in static(range(n))])
    for p, q in static(_pairs(n)):
        if (values[p] < values[q]) == static(n == 2):
            x = values[p]
            values[p] = values[q]
            values[q] = x
            for k in static(range(n)):
                y = Q[k, p]
                Q[k, p] = Q[k, q]
                Q[k, q] = y
    return values, Q


@func
def make_spd(A: Any, dt: Any = None) -> Any:
    """Return the positive semidefinite matrix nearest to a symmetric matrix of 2 to 12 rows."""
    values, Q = sym_eig(A, dt)
    scaled = Q * 1.0
    for i in static(range(A.n)):
        for k in static(range(A.n)):
            scaled[k, i] = Q[k, i] * max(values[i], 0.0)
    return scaled @ Q.transpose()


@func
def svd(A: Any, dt: Any = None) -> Any:
    """Return the singular value decomposition A = U·S·Vᵀ of a 2×2 or 3×3 matrix, as U, S and V.

    U and V are orthogonal; S is diagonal, descending and not negative.

    One-sided Jacobi rotations make the columns of A·V orthogonal; their lengths are the singular values. The last
    column of U completes the others, so that U is orthogonal for a singular A too. `dt` is the type to compute in.
    """
    n = static(A.n)
    static_assert(A.n == A.m and 2 <= A.n <= 3, "svd takes square matrices of 2 or 3 rows")
    B = _typed(A, dt)
    V = B * 0.0
    for i in static(range(n)):
        V[i, i] = 1.0
    for _ in range(static(1 if n == 2 else _SWEEPS)):
        for p, q in static(_pairs(n)):
            x = B[:, p]
            y = B[:, q]
            t = _tangent(x.dot(y), y.dot(y) - x.dot(x))
            c = 1.0 / sqrt(1.0 + t * t)
            s = t * c
            B[:, p] = c * x - s * y
            B[:, q] = s * x + c * y
            x = V[:, p]
            y = V[:, q]
            V[:, p] = c * x - s * y
            V[:, q] = s * x + c * y
    for p, q in static(_pairs(n)):
        x = B[:, p]
        y = B[:, q]
        if x.dot(x) < y.dot(y):
            B[:, p] = y
            B[:, q] = x
            z = V[:, p]
            V[:, p] = V[:, q]
            V[:, q] = z
    if static(n == 2):
        return _columns2(B, V)
    return _columns3(B, V)


@func
def _columns2(B: Any, V: Any) -> Any:
    """Return the singular value decomposition of a 2×2 matrix, given the orthogonal columns B = A·V.

    The first column of B is the longer one.
    """
    s0 = B[:, 0].norm()
    u0 = Vector([1.0, 0.0]) + B[:, 0] * 0.0
    if s0 > 0.0:
        u0 = B[:, 0] / s0
    u1 = Vector([-u0[1], u0[0]])
    s1 = u1.dot(B[:, 1])
    if s1 < 0.0:
        u1 = -u1
        s1 = -s1
    return Matrix.cols([u0, u1]), Matrix([[s0, 0.0], [0.0, s1]]), V


@func
def _columns3(B: Any, V: Any) -> Any:
    """Return the singular value decomposition of a 3×3 matrix, given the orthogonal columns B = A·V.

    The columns of B are in descending order of length.
    """
    s0 = B[:, 0].norm()
    u0 = Vector([1.0, 0.0, 0.0]) + B[:, 0] * 0.0
    if s0 > 0.0:
        u0 = B[:, 0] / s0
    s1 = B[:, 1].norm()
    u1 = _orthogonal(u0)
    if s1 > 1e-30 * s0:
        u1 = B[:, 1] / s1
    u2 = u0.cross(u1)
    s2 = u2.dot(B[:, 2])
    if s2 < 0.0:
        u2 = -u2
        s2 = -s2
    return Matrix.cols([u0, u1, u2]), Matrix([[s0, 0.0, 0.0], [0.0, s1, 0.0], [0.0, 0.0, s2]]), V


@func
def _orthogonal(u: Any) -> Any:
    """Return a unit vector that is orthogonal to a unit vector of three entries."""
    axis = Vector([1.0, 0.0, 0.0]) + u * 0.0
    if abs(u[0]) > 0.6:
        axis = Vector([0.0, 1.0, 0.0]) + u * 0.0
    made = u.cross(axis)
    return made / made.norm()


_NEWTON_STEPS = 12
"""Number of steps of Newton's iteration in `polar_decompose`."""


@func
def polar_decompose(A: Any, dt: Any = None) -> Any:
    """Return the polar decomposition A = R·S of a matrix of 2 or 3 rows.

    R has the sign of det A. Two rows have a closed form. Three rows take Newton's iteration R ← (γR + R⁻ᵀ/γ)/2, whose
    derivative exists for every regular A. A singular matrix of three rows is decomposed by `svd`.

    Args:
        A: The matrix (n, n).
        dt: The type to compute in, or None for that of A.

    Returns:
        R, S of shape (n, n): R orthogonal, S symmetric and positive semidefinite.
    """
    static_assert(A.n == A.m and 2 <= A.n <= 3, "polar_decompose takes square matrices of 2 or 3 rows")
    B = _typed(A, dt)
    R = B * 1.0
    if static(A.n == 2):
        R = _polar2(B)
    else:
        R = _polar3(B)
    S = R.transpose() @ B
    return R, 0.5 * (S + S.transpose())


@func
def _polar2(A: Any) -> Any:
    """Return the orthogonal factor of the polar decomposition of a 2×2 matrix; the identity for the zero matrix."""
    turn = select(A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0] < 0.0, -1.0, 1.0)
    x = A[0, 0] + turn * A[1, 1]
    y = A[1, 0] - turn * A[0, 1]
    r = sqrt(x * x + y * y)
    R = A * 0.0
    R[0, 0] = 1.0
    R[1, 1] = 1.0
    if r > 0.0:
        R = Matrix([[x / r, -turn * y / r], [y / r, turn * x / r]])
    return R


@func
def _polar3(A: Any) -> Any:
    """Return the orthogonal factor of the polar decomposition of a 3×3 matrix."""
    R = A * 1.0
    scale = abs(A).max()
    if abs(A.determinant()) > 1e-12 * scale * scale * scale:
        for _ in range(_NEWTON_STEPS):
            inverse = R.inverse().transpose()
            gamma = sqrt(inverse.norm() / R.norm())
            R = 0.5 * (gamma * R + inverse / gamma)
    else:
        U, _S, V = svd(A)
        R = U @ V.transpose()
    return R


@func
def eig(A: Any, dt: Any = None) -> Any:
    """Return the eigenvalues and eigenvectors of a real 2×2 matrix, with complex numbers as pairs (re, im).

    Args:
        A: The matrix (2, 2).
        dt: The type to compute in, or None for that of A.

    Returns:
        The eigenvalues (2, 2) and the eigenvectors (4, 2). Row i of the eigenvalues is the i-th one; column i of the
        eigenvectors is its eigenvector of unit length, entry by entry. The larger real eigenvalue, or the one with
        positive imaginary part, comes first.
    """
    static_assert(A.n == 2 and A.m == 2, "eig takes matrices of 2 rows")
    B = _typed(A, dt)
    half = 0.5 * (B[0, 0] + B[1, 1])
    d = 0.5 * (B[0, 0] - B[1, 1])
    gap = d * d + B[0, 1] * B[1, 0]
    re = gap * 0.0
    im = gap * 0.0
    if gap > 0.0:
        re = sqrt(gap)
    if gap < 0.0:
        im = sqrt(-gap)
    values = Matrix([[half + re, im], [half - re, -im]])
    v = _eigenvector(B, d, re, im)
    w = _eigenvector(B, d, -re, -im)
    if gap == 0.0 and B[0, 1] == 0.0 and B[1, 0] == 0.0:
        w = Vector([0.0, 0.0, 1.0, 0.0]) + w * 0.0
    return values, Matrix.cols([v, w])


@func
def _eigenvector(B: Any, d: Any, re: Any, im: Any) -> Any:
    """Return a unit vector v with (B - λ)·v = 0 for an eigenvalue λ = (trace B)/2 + re + i·im.

    It is the longer one of (B01, λ - B00) and (λ - B11, B10), scaled. `d` is half the difference of the diagonal
    entries.
    """
    v = Vector([B[0, 1], B[0, 1] * 0.0, re - d, im])
    w = Vector([re + d, im, B[1, 0], B[1, 0] * 0.0])
    if w.dot(w) > v.dot(v):
        v = w
    size = v.norm()
    result = Vector([1.0, 0.0, 0.0, 0.0]) + v * 0.0
    if size > 0.0:
        result = v / size
    return result


@func
def solve(A: Any, b: Any, dt: Any = None) -> Any:
    """Return the solution x of A·x = b, computed by elimination with partial pivoting.

    The result is NaN or infinite for a singular A; `debug` asserts that A is regular.

    Args:
        A: The matrix (n, n).
        b: The right-hand side (n,).
        dt: The type to compute in, or None for that of A and b.
    """
    n = static(A.n)
    static_assert(A.n == A.m and A.n == b.n, "solve takes a square matrix and a vector of as many entries")
    M = _typed(A, dt)
    x = _typed(b, dt)
    for i in static(range(n)):
        for k in static(range(i + 1, n)):
            if abs(M[k, i]) > abs(M[i, i]):
                for j in static(range(i, n)):
                    a = M[i, j]
                    M[i, j] = M[k, j]
                    M[k, j] = a
                c = x[i]
                x[i] = x[k]
                x[k] = c
        assert M[i, i] != 0.0, "the matrix of a linear system is singular"
        for k in static(range(i + 1, n)):
            f = M[k, i] / M[i, i]
            for j in static(range(i + 1, n)):
                M[k, j] = M[k, j] - f * M[i, j]
            x[k] = x[k] - f * x[i]
    for i in static(tuple(reversed(range(n)))):
        for j in static(range(i + 1, n)):
            x[i] = x[i] - M[i, j] * x[j]
        x[i] = x[i] / M[i, i]
    return x


__all__ = [
    "SparseMatrix",
    "SparseMatrixBuilder",
    "SparseSolver",
    "eig",
    "make_spd",
    "outer",
    "polar_decompose",
    "solve",
    "svd",
    "sym_eig",
]
