"""This module contains the methods and properties of vectors and matrices, written as scalar operations.

METHODS holds the methods that return a value and change nothing. Determinants and inverses use the closed forms, up to
4×4.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from ..ir.types import u1
from . import type_inference
from .arguments import arguments
from .broadcasts import shape_mismatch
from .context import Tracer, rows
from .conversions import as_matrix, cast_matrix, entry_type, unify_entries
from .diagnostics import type_problem
from .expressions import apply_binary, inner_product, multiply
from .memory import PLACES, Place, load, store
from .operands import Intrinsic, MatrixValue, Operand, Pack, Static, describe, number_of, shape_text
from .selections import SWIZZLES, unknown_attribute

ADD, SUB, MUL, DIV = (type_inference.BINARY[op] for op in (ast.Add, ast.Sub, ast.Mult, ast.Div))


@dataclass(frozen=True)
class MatrixMethod:
    """A `MatrixMethod` describes a method of vectors and matrices: its parameters and the function that lowers it.

    Attributes:
        params: names of the arguments; a name that ends in `=` is optional.
        function: function (tracer, vector or matrix, *arguments) that emits the operations and returns the result.
    """

    params: tuple[str, ...]
    function: Callable[..., Operand]


METHODS: dict[str, MatrixMethod] = {}


def _method(name: str, *params: str) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    def register(function: Callable[..., Operand]) -> Callable[..., Operand]:
        METHODS[name] = MatrixMethod(params, function)
        return function

    return register


# ---- dispatch -----------------------------------------------------------------------------------------------------


def attribute(t: Tracer, base: Place | Operand, shape: tuple[int, ...], name: str) -> Operand:
    """Return the method `name` bound to a vector or matrix, or the value of the property `name`.

    Args:
        t: the tracer.
        base: the vector or matrix.
        shape: its shape.
        name: name of the attribute.

    Raises:
        ProblemError: there is no attribute of this name.
    """
    if name in METHODS:
        value = load(t, base) if isinstance(base, PLACES) else base
        assert isinstance(value, MatrixValue)
        return Static(Intrinsic(name, partial(_call_bound, name, value)), name)
    if name == "fill":
        return Static(Intrinsic(name, partial(_fill, base)), name)
    if name in ("n", "m"):
        return Static((*shape, 1)[0 if name == "n" else 1])
    if name == "shape":
        return Static(shape)
    if name in ("entries", "dtype"):
        value = load(t, base) if isinstance(base, PLACES) else base
        assert isinstance(value, MatrixValue)
        return Pack(value.items) if name == "entries" else Static(entry_type(t, value))
    raise unknown_attribute(shape, name, [*METHODS, "fill", "n", "m", "shape", "entries", "dtype", *SWIZZLES[0]])


def unbound(name: str) -> Static:
    """Return a method such as `sg.Matrix.dot`, which takes its receiver as the first argument."""

    def call(t: Tracer, node: ast.Call) -> Operand:
        receiver, *rest = arguments(t, node, name, "self", *METHODS[name].params)
        return METHODS[name].function(t, expect(t, name, receiver), *rest)

    return Static(Intrinsic(name, call), name)


def _call_bound(name: str, receiver: MatrixValue, t: Tracer, node: ast.Call) -> Operand:
    method = METHODS[name]
    return method.function(t, receiver, *arguments(t, node, name, *method.params))


def _fill(base: Place | Operand, t: Tracer, node: ast.Call) -> Operand:
    (value,) = arguments(t, node, "fill", "value")
    if not isinstance(base, PLACES):
        raise type_problem(
            "`fill` overwrites a vector in memory, and this one is a value", "assign it to a local first"
        )
    if isinstance(value, MatrixValue):
        raise type_problem(f"`fill` takes one number, not {describe(value)}", "assign the vector itself")
    store(t, base, value)
    return Static(None)


def cast_method(value: Operand) -> Static:
    """Return the method `x.cast(dtype)` of a scalar."""

    def call(t: Tracer, node: ast.Call) -> Operand:
        (dtype,) = arguments(t, node, "cast", "dtype")
        return t.value(value, scalar_type(t, dtype))

    return Static(Intrinsic("cast", call), "cast")


def scalar_type(t: Tracer, operand: Operand) -> Any:
    """Return the scalar type that an operand names, or raise ProblemError if it names none."""
    found = type_inference.as_dtype(operand.value, t.options) if isinstance(operand, Static) else None
    if found is None:
        raise type_problem(f"a scalar type is expected here, not {describe(operand)}", "give a type, as `sg.f32`")
    return found


def expect(t: Tracer, name: str, operand: Operand, rank: int = 0) -> MatrixValue:
    """Return the operand as a vector (rank 1) or matrix (rank 2), or raise ProblemError; rank 0 accepts both."""
    found = as_matrix(t, operand)
    if found is None or rank and len(found.shape) != rank:
        want = {0: "a vector or matrix", 1: "a vector", 2: "a matrix"}[rank]
        raise type_problem(f"`{name}` takes {want}, not {describe(found or operand)}", "give it the right operand")
    return found


def _vectors(t: Tracer, name: str, a: Operand, b: Operand, size: int = 0) -> tuple[MatrixValue, MatrixValue]:
    """Return two operands as vectors of one length, or raise ProblemError; any length is valid if `size` is 0."""
    x, y = expect(t, name, a, 1), expect(t, name, b, 1)
    if x.shape != y.shape:
        raise shape_mismatch(name, [x.shape, y.shape])
    if size and x.shape != (size,):
        raise type_problem(f"`{name}` takes vectors of {size}, not {shape_text(x.shape)}", f"give it vectors of {size}")
    return x, y


def _square(name: str, a: MatrixValue) -> int:
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise type_problem(
            f"`{name}` takes a square matrix, not {shape_text(a.shape)}", "give it as many rows as columns"
        )
    if a.shape[0] > 4 and name != "trace":
        raise type_problem(
            f"`{name}` is given {shape_text(a.shape)}: its closed form is known up to 4×4",
            "eliminate in a loop over rows, with the matrix in a field",
        )
    return a.shape[0]


# ---- reductions ---------------------------------------------------------------------------------------------------


@_method("sum")
def _sum(t: Tracer, a: MatrixValue) -> Operand:
    return reduce(partial(apply_binary, t, ADD), a.items)


def _extremum(name: str) -> None:
    def extremum(t: Tracer, a: MatrixValue) -> Operand:
        return reduce(lambda x, y: _pick(t, name, x, y), a.items)

    METHODS[name] = MatrixMethod((), extremum)


def _pick(t: Tracer, name: str, x: Operand, y: Operand) -> Operand:
    a, b = number_of(x), number_of(y)
    if a is not None and b is not None:
        return Static(min(a, b) if name == "min" else max(a, b))
    dtype = type_inference.common_type(t.type_of(x), t.type_of(y))
    # The smaller of two booleans is their conjunction, the larger one their disjunction.
    if dtype.is_bool:
        return t.builder.op("logical_and" if name == "min" else "logical_or", t.value(x, dtype), t.value(y, dtype))
    return t.builder.op(name, t.value(x, dtype), t.value(y, dtype))


def _truth_of_all(name: str, op: str) -> None:
    def reduction(t: Tracer, a: MatrixValue) -> Operand:
        return reduce(lambda x, y: t.builder.op(op, x, y), (t.value(_nonzero(t, item), u1) for item in a.items))

    METHODS[name] = MatrixMethod((), reduction)


def _nonzero(t: Tracer, item: Operand) -> Operand:
    return item if t.type_of(item).is_bool else apply_binary(t, type_inference.COMPARE[ast.NotEq], item, Static(0))


_extremum("min")
_extremum("max")
_truth_of_all("all", "logical_and")
_truth_of_all("any", "logical_or")

# ---- products and norms ---------------------------------------------------------------------------------------------


@_method("dot", "other")
def _dot(t: Tracer, a: MatrixValue, other: Operand) -> Operand:
    x, y = _vectors(t, "dot", a, other)
    return inner_product(t, x.items, y.items)


@_method("cross", "other")
def _cross(t: Tracer, a: MatrixValue, other: Operand) -> Operand:
    """Return the cross product a × b; for vectors of two entries, return only its third component."""
    if a.shape == (2,):
        x, y = _vectors(t, "cross", a, other, 2)
        return _minor(t, x.items, y.items, 0, 1)
    x, y = _vectors(t, "cross", a, other, 3)
    return unify_entries(t, (3,), [_minor(t, x.items, y.items, i, j) for i, j in ((1, 2), (2, 0), (0, 1))])


def _minor(t: Tracer, x: tuple[Operand, ...], y: tuple[Operand, ...], i: int, j: int) -> Operand:
    """Return x[i]·y[j] - x[j]·y[i]."""
    return apply_binary(t, SUB, apply_binary(t, MUL, x[i], y[j]), apply_binary(t, MUL, x[j], y[i]))


@_method("outer_product", "other")
def _outer_product(t: Tracer, a: MatrixValue, other: Operand) -> Operand:
    x, y = expect(t, "outer_product", a, 1), expect(t, "outer_product", other, 1)
    return unify_entries(t, x.shape + y.shape, [apply_binary(t, MUL, p, q) for p in x.items for q in y.items])


@_method("norm_sqr")
def _norm_sqr(t: Tracer, a: MatrixValue) -> Operand:
    return inner_product(t, a.items, a.items)


@_method("norm", "eps=")
def _norm(t: Tracer, a: MatrixValue, eps: Operand) -> Operand:
    return _root(t, _shifted(t, _norm_sqr(t, a), eps))


@_method("norm_inv", "eps=")
def _norm_inv(t: Tracer, a: MatrixValue, eps: Operand) -> Operand:
    return apply_binary(t, DIV, Static(1.0), _root(t, _shifted(t, _norm_sqr(t, a), eps)))


@_method("normalized", "eps=")
def _normalized(t: Tracer, a: MatrixValue, eps: Operand) -> Operand:
    """Return a/(|a| + eps)."""
    return apply_binary(t, DIV, a, _shifted(t, _root(t, _norm_sqr(t, a)), eps))


def _shifted(t: Tracer, value: Operand, eps: Operand) -> Operand:
    given = number_of(eps)
    if isinstance(eps, Static) and eps.value is None or given == 0:
        return value
    return apply_binary(t, ADD, value, eps)


def _root(t: Tracer, square: Operand) -> Operand:
    """Emit the square root of a sum of squares, with derivative 0 at 0, where the derivative of `sqrt` is infinite.

    At 0, the root is taken of 1 instead, and the result 0 is selected, so that no infinite derivative occurs.
    """
    dtype = t.type_of(square)
    x = t.value(square, dtype if dtype.is_real else t.options.default_fp)
    zero, one = t.builder.const(0.0, x.type), t.builder.const(1.0, x.type)
    # The derivative of sqrt at 0 is infinite, and infinity times the adjoint 0 would be NaN.
    flat = t.builder.op("cmp_eq", x, zero)
    return t.builder.op("select", flat, zero, t.builder.op("sqrt", t.builder.op("select", flat, one, x)))


# ---- matrices -----------------------------------------------------------------------------------------------------


@_method("transpose")
def _transpose(t: Tracer, a: MatrixValue) -> Operand:
    """Return the transpose of a matrix; the transpose of a vector is a matrix of one row."""
    if len(a.shape) == 1:
        return MatrixValue((1, a.shape[0]), a.items)
    n, m = a.shape
    return MatrixValue((m, n), tuple(a.items[i * m + j] for j in range(m) for i in range(n)))


@_method("trace")
def _trace(t: Tracer, a: MatrixValue) -> Operand:
    size = _square("trace", a)
    return reduce(partial(apply_binary, t, ADD), (a.items[i * size + i] for i in range(size)))


@_method("determinant")
def _determinant(t: Tracer, a: MatrixValue) -> Operand:
    size = _square("determinant", a)
    return _det(t, [list(row.items) for row in rows(a) if isinstance(row, MatrixValue)], size)


def _det(t: Tracer, a: list[list[Operand]], size: int) -> Operand:
    """Return the determinant by expansion along the first column: Σ (-1)^i a[i][0]·det(minor i, 0)."""
    if size == 1:
        return a[0][0]
    if size == 2:
        return _minor(t, tuple(a[0]), tuple(a[1]), 0, 1)
    terms = [apply_binary(t, MUL, a[i][0], _det(t, _without(a, i, 0), size - 1)) for i in range(size)]
    made = terms[0]
    for i, term in enumerate(terms[1:], 1):
        # The signs of the expansion alternate.
        made = apply_binary(t, SUB if i % 2 else ADD, made, term)
    return made


def _without(a: list[list[Operand]], row: int, column: int) -> list[list[Operand]]:
    return [[x for j, x in enumerate(line) if j != column] for i, line in enumerate(a) if i != row]


@_method("inverse")
def _inverse(t: Tracer, a: MatrixValue) -> Operand:
    """Return the adjugate over the determinant: inverse[i][j] = (-1)^(i+j) det(minor j, i)/det."""
    size = _square("inverse", a)
    lines = [list(row.items) for row in rows(a) if isinstance(row, MatrixValue)]
    scale = apply_binary(t, DIV, Static(1.0), _det(t, lines, size))
    if size == 1:
        return unify_entries(t, (1, 1), [scale])
    made: list[Operand] = []
    for i in range(size):
        for j in range(size):
            cofactor = _det(t, _without(lines, j, i), size - 1)
            if (i + j) % 2:
                cofactor = apply_binary(t, SUB, Static(0.0), cofactor)
            made.append(apply_binary(t, MUL, cofactor, scale))
    return unify_entries(t, a.shape, made)


@_method("cast", "dtype")
def _cast(t: Tracer, a: MatrixValue, dtype: Operand) -> Operand:
    return cast_matrix(t, a, scalar_type(t, dtype))


@_method("get_shape")
def _get_shape(t: Tracer, a: MatrixValue) -> Operand:
    return Static(a.shape)


@_method("matmul", "other")
def _matmul(t: Tracer, a: MatrixValue, other: Operand) -> Operand:
    return multiply(t, a, other)
