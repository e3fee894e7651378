"""Vectors and matrices of the host: construction, types, operators, linear algebra, access, errors."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from table_rows import each_row

A = [[2.0, 1.0, 0.5], [0.25, 3.0, -1.0], [1.5, -0.5, 4.0]]


def test_construction() -> None:
    assert sg.Vector([1, 2, 3]).entries == [1, 2, 3] and sg.Vector([1, 2, 3]).dtype is None
    assert sg.Vector([1, 2], sg.f32).dtype == sg.f32 and sg.Vector([1, 2], dt=float).dtype == sg.f64
    given = np.array([1, 2], np.int32)
    assert sg.Vector(given).dtype is None and sg.Vector(given, int).dtype == sg.i32
    assert sg.Matrix([sg.Vector([1], sg.f32), sg.Vector([2], sg.f64)]).dtype == sg.f64
    assert sg.Matrix([sg.Vector([1, 2]), [3, 4]]).entries == [[1, 2], [3, 4]]
    assert sg.Matrix([[1], [2]]).shape == (2, 1) and sg.Vector([[1], [2]]).shape == (2,)
    m = sg.Matrix(A)
    assert (m.n, m.m, m.shape, m.ndim, len(m)) == (3, 3, (3, 3), 2, 3)


def test_makers() -> None:
    assert sg.Vector.zero(sg.f32, 3).entries == [0.0] * 3 and sg.Matrix.zero(sg.i32, 2, 3).shape == (2, 3)
    assert sg.Vector.one(float, 2).dtype == sg.f64 and sg.Matrix.one(int, 1, 2).entries == [[1, 1]]
    assert sg.Matrix.identity(sg.f32, 2).entries == [[1.0, 0.0], [0.0, 1.0]]
    assert sg.Vector.unit(3, 1).entries == [0, 1, 0] and sg.Matrix.unit(3, 2, sg.f32).dtype == sg.f32
    assert sg.Matrix.diag(2, 1.5).entries == [[1.5, 0.0], [0.0, 1.5]]
    a, b = sg.Vector([1, 2]), sg.Vector([3, 4])
    assert sg.Matrix.rows([a, b]).entries == [[1, 2], [3, 4]] and sg.Matrix.cols([a, b]).entries == [[1, 3], [2, 4]]


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@each_row("name", OPERATORS)
@each_row("other", [[1.5, 2.0, 3.0], 2, 1.5, (1, 2, 3)], ids=str)
def test_operators_are_those_of_arrays(name: str, other: Any) -> None:
    ours, theirs = sg.Vector([2.5, 4.0, 3.0]), np.array([2.5, 4.0, 3.0])
    apply = OPERATORS[name]
    assert apply(ours, other).to_numpy().tolist() == apply(theirs, np.asarray(other)).tolist()
    if not isinstance(other, (list, tuple)):
        assert apply(other, ours).to_numpy().tolist() == apply(np.asarray(other), theirs).tolist()
    assert apply(ours, sg.Vector(other) if isinstance(other, list) else other).shape == (3,)


def test_integers_divide_as_in_python() -> None:
    v = sg.Vector([7, -7])
    assert (v / 2).entries == [3.5, -3.5] and (v // 2).entries == [3, -4] and (v % 3).entries == [1, 2]
    assert (v**2).entries == [49, 49] and (sg.Vector([2, 4]) ** -1).entries == [0.5, 0.25]
    assert (-v).entries == [-7, 7] and abs(v).entries == [7, 7] and (~v).entries == [-8, 6]
    assert (v & 3).entries == [3, 1] and (v ^ 1).entries == [6, -8] and (1 | sg.Vector([2, 4])).entries == [3, 5]


def test_types_of_results() -> None:
    f, plain = sg.Vector([1, 2], sg.f32), sg.Vector([0.1, 0.2])
    assert (f + plain).dtype == sg.f32 and (f * 2).dtype == sg.f32 and (plain * 2).dtype is None
    assert (f + sg.Vector([1, 2], sg.f64)).dtype == sg.f64 and (plain + 1).entries == [1.1, 1.2]
    assert (f * np.float64(2)).dtype == (np.ones(2) + f).dtype == sg.f32
    assert (plain + np.float32(1)).to_numpy().dtype == np.float64
    assert (f < 2).dtype == sg.u1 and f.cast(sg.i32).dtype == sg.i32 and f[0] == 1.0 and type(f[0]) is float
    assert (sg.Vector([True, True]) + sg.Vector([True, False])).entries == [2, 1]


def test_reductions() -> None:
    v = sg.Vector([3.0, 4.0])
    assert (v.sum(), v.max(), v.min(), v.norm(), v.norm_sqr(), v.dot([1, 2])) == (7.0, 4.0, 3.0, 5.0, 25.0, 11.0)
    assert v.normalized().entries == [0.6, 0.8] and v.norm_inv() == 0.2 and v.norm(11) == 6.0
    assert (v > 3).any() and not (v > 3).all() and bool(sg.Vector([1])) and sg.Matrix([[True, True]]).sum() == 2


def test_linear_algebra() -> None:
    m, a, x = sg.Matrix(A), np.array(A), np.array([1.0, 2.0, 3.0])
    assert np.allclose((m @ m).to_numpy(), a @ a) and np.allclose((m @ [1.0, 2.0, 3.0]).to_numpy(), a @ x)
    assert np.allclose((sg.Vector(x) @ m).to_numpy(), x @ a) and sg.Vector(x) @ x == 14.0
    assert np.allclose(m.inverse().to_numpy(), np.linalg.inv(a)) and np.isclose(m.determinant(), np.linalg.det(a))
    assert m.trace() == 9.0 and m.transpose().entries == a.T.tolist()
    assert sg.Vector([1, 2]).outer_product([3, 4]).entries == [[3, 4], [6, 8]]
    assert sg.Vector([1.0, 2.0, 3.0]).cross([4, 5, 6]).entries == np.cross(x, [4, 5, 6]).tolist()
    assert sg.Vector([1, 2]).cross([3, 4]) == -2


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_inverses_of_all_sizes(size: int) -> None:
    a = np.random.default_rng(size).standard_normal((size, size))
    assert np.allclose((sg.Matrix(a) @ sg.Matrix(a).inverse()).to_numpy(), np.eye(size))
    exact = sg.Matrix(np.arange(size * size).reshape(size, size) ** 2)
    assert exact.determinant() == round(np.linalg.det(exact.to_numpy()))


def test_singular_matrices_have_no_finite_inverse() -> None:
    assert not np.isfinite(sg.Matrix([[1, 2], [2, 4]]).inverse().to_numpy()).any()


def test_access() -> None:
    v, m = sg.Vector([1, 2, 3, 4]), sg.Matrix([[1, 2], [3, 4]])
    assert (v[1], v.w, v.b, v.xy.entries, v.zyx.entries, v[1:3].entries) == (2, 4, 3, [1, 2], [3, 2, 1], [2, 3])
    assert m[0, 1] == 2 and m[1].entries == [3, 4] and m[:, 0].entries == [1, 3] and list(v) == [1, 2, 3, 4]
    v.xz = [7, 8]
    v.y = 1.5
    v[3] = 0
    assert v.entries == [7, 1.5, 8, 0]
    m[0] = [5, 6]
    m[1, 1] = 9
    assert m.entries == [[5, 6], [3, 9]]
    row = m[0]
    row[0] = 100
    assert m[0, 0] == 5
    m.fill(1)
    assert m.entries == [[1, 1], [1, 1]]


def test_numpy_functions_give_vectors() -> None:
    v = sg.Vector([1.0, 4.0])
    assert isinstance(np.sqrt(v), sg.Vector) and np.sqrt(v).entries == [1.0, 2.0]
    assert np.maximum(v, 2).entries == [2.0, 4.0] and (np.float64(2) * v).entries == [2.0, 8.0]
    assert (np.array([1.0, 2.0]) + v).entries == [2.0, 6.0] and np.asarray(v, np.float32).dtype == np.float32


def test_functions_of_the_language_take_vectors() -> None:
    v = sg.Vector([1.5, 4.0])
    assert sg.sqrt(sg.Vector([1.0, 4.0])).entries == [1.0, 2.0] and sg.floor(v).entries == [1.0, 4.0]
    assert sg.max(v, 2).entries == [2.0, 4.0] and sg.abs(-v).entries == v.entries
    assert sg.cast(v, sg.i32).dtype == sg.i32 and sg.cast(v, sg.i32).entries == [1, 4]


def test_copies_share_nothing() -> None:
    v = sg.Vector([1, 2], sg.f32)
    for other in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v)), sg.Vector(v), v.copy(), +v):
        other[0] = 9
        assert v.entries == [1.0, 2.0] and other.dtype == sg.f32


def test_texts() -> None:
    assert repr(sg.Vector([1, 2], sg.f32)) == "Vector([1.0, 2.0], f32)" and str(sg.Matrix([[1]])) == "[[1]]"


def test_types_make_values() -> None:
    vec3, mat2 = sg.types.vector(3, sg.f32), sg.types.matrix(2, 2, float)
    assert vec3(1, 2, 3).entries == vec3([1, 2, 3]).entries == vec3(sg.Vector([1, 2]), 3).entries == [1.0, 2.0, 3.0]
    assert vec3(2).entries == [2.0] * 3 and vec3(1).dtype == sg.f32 and isinstance(vec3(0), sg.Vector)
    for made in (mat2(1, 2, 3, 4), mat2([1, 2], [3, 4]), mat2([[1, 2], [3, 4]])):
        assert made.entries == [[1.0, 2.0], [3.0, 4.0]]
    assert mat2(0.0).shape == (2, 2) and (mat2.n, mat2.m, mat2.shape, mat2.dtype) == (2, 2, (2, 2), sg.f64)
    assert vec3 == sg.types.vector(3, sg.f32) != sg.types.vector(3, sg.f64)
    assert len({vec3, sg.types.vector(3, sg.f32)}) == 1
    assert repr(vec3) == "sg.types.vector(3, f32)" and repr(mat2) == "sg.types.matrix(2, 2, float)"


def test_names_of_scalar_types() -> None:
    assert sg.float32 is sg.f32 is sg.types.f32 is sg.types.primitive_types.f32 and sg.int64 is sg.i64
    assert sg.uint8 is sg.u8 and sg.f32 in sg.types.primitive_types.real_types
    assert sg.i8 in sg.types.primitive_types.integer_types and sg.f16 not in sg.types.primitive_types.integer_types


def test_annotations() -> None:
    bare, full = sg.types.ndarray, sg.types.ndarray(sg.f32, ndim=2, needs_grad=True)
    assert (bare.dtype, bare.ndim, bare.needs_grad) == (None, None, None)
    assert (full.dtype, full.ndim, full.needs_grad) == (sg.f32, 2, True) and sg.types.NDArray[sg.f32, 2].ndim == 2
    vectors = sg.types.ndarray(dtype=sg.types.vector(3, sg.f32), ndim=1)
    assert vectors.dtype == sg.types.vector(3, sg.f32).stackgrad_type
    assert sg.types.ndarray(sg.f32, element_shape=(3,), field_dim=1) == vectors
    assert sg.template is sg.Template is sg.types.template and repr(sg.template()) == "sg.template()"
    with pytest.raises(sg.FieldError, match="not clamped"):
        sg.types.ndarray(boundary="clamp")
    with pytest.raises(sg.FieldError, match="no boundary 'x'"):
        sg.types.ndarray(boundary="x")


def test_values_are_constants_of_kernels() -> None:
    x, g = sg.Vector.field(2, sg.f64, 3, needs_grad=True), sg.Matrix([[1.0, 2.0], [3.0, 4.0]])
    shift, loss = sg.Vector([0.5, -0.5]), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def apply() -> None:
        for i in x:
            loss[None] += (g @ x[i] + shift).sum()

    x.fill([1, 2])
    with sg.ad.Tape(loss):
        apply()
    assert loss[None] == 48.0 and x.grad[2].entries == [4.0, 6.0]


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: sg.Vector(3), sg.MatrixError, "3 holds no rows"),
        (lambda: sg.Vector([]), sg.MatrixError, "without entries"),
        (lambda: sg.Vector("ab"), sg.MatrixError, "holds no rows"),
        (lambda: sg.Vector(["a"]), sg.MatrixError, "holds numbers, not <U1"),
        (lambda: sg.Vector([[1, 2]]), sg.MatrixError, "a vector of shape (1, 2)"),
        (lambda: sg.Matrix([[1, 2], [3]]), sg.MatrixError, "rows of unequal length"),
        (lambda: sg.Matrix([[[1]]]), sg.MatrixError, "a matrix of shape (1, 1, 1)"),
        (lambda: sg.Vector([1], "text"), sg.FieldError, "'text' is not a scalar type"),
        (lambda: sg.Vector([1, 2]) + sg.Vector([1, 2, 3]), sg.MatrixError, "+ of shapes (2,) and (3,)"),
        (lambda: sg.Matrix([[1, 2]]) @ sg.Vector([1]), sg.MatrixError, "@ of shapes (1, 2) and (1,)"),
        (lambda: sg.Matrix([[1, 2]]) @ 3, sg.MatrixError, "not numbers"),
        (lambda: sg.Vector([1, 2]) + "x", TypeError, "unsupported operand"),
        (lambda: sg.Vector([1, 2])[2], sg.OutOfBounds, "index 2 is outside a value of shape (2,)"),
        (lambda: sg.Vector([1, 2])[-1], sg.OutOfBounds, "index -1"),
        (lambda: sg.Vector([1, 2])[0, 0], sg.MatrixError, "2 indices"),
        (lambda: sg.Vector([1, 2])[0.5], sg.MatrixError, "no integer"),
        (lambda: sg.Vector([1, 2]).z, AttributeError, "no attribute 'z'"),
        (lambda: setattr(sg.Vector([1, 2]), "xx", [1, 2]), AttributeError, "cannot be set"),
        (lambda: setattr(sg.Vector([1, 2]), "xy", [1, 2, 3]), sg.MatrixError, "the entries have shape (2,)"),
        (lambda: setattr(sg.Vector([1, 2]), "x", "a"), sg.MatrixError, "is no number"),
        (lambda: bool(sg.Vector([1, 2]) == sg.Vector([1, 2])), sg.MatrixError, "use .all() or .any()"),
        (lambda: hash(sg.Vector([1, 2])), TypeError, "unhashable"),
        (lambda: sg.Matrix([[1, 2]]).determinant(), sg.MatrixError, "it takes a square matrix"),
        (lambda: sg.Matrix(np.eye(5)).inverse(), sg.MatrixError, "it takes at most 4"),
        (lambda: sg.Vector([1, 2]).trace(), sg.MatrixError, "trace of shape (2,)"),
        (lambda: sg.Vector([1, 2, 3, 4]).cross([1, 2, 3, 4]), sg.MatrixError, "two vectors of 3, or of 2"),
        (lambda: sg.Vector([1, 2]).cross("ab"), sg.MatrixError, "cross"),
        (lambda: sg.Vector([1, 2]).dot("ab"), sg.MatrixError, "dot"),
        (lambda: sg.Matrix([[1]]).outer_product([1]), sg.MatrixError, "no vector"),
        (lambda: ~sg.Vector([1.5]), sg.MatrixError, "use it on integers"),
        (lambda: sg.Vector.unit(3, 3), sg.MatrixError, "no unit vector 3"),
        (lambda: sg.Vector.zero(sg.f32, 0), sg.MatrixError, "n cannot be 0"),
        (lambda: sg.Matrix.rows([1, 2]), sg.MatrixError, "give vectors of one length"),
        (lambda: sg.types.vector(3, sg.f32)(1, 2), sg.MatrixError, "2 entries for a vector of 3"),
        (lambda: sg.types.vector(3, "text"), sg.FieldError, "not a scalar type"),
    ],
)
def test_mistakes(act: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)
