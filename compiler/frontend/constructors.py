"""This module lowers calls that make vectors, matrices and structs: `sg.Vector([...])`, `vec3(...)` and similar ones.

The constructors are recognized by their attributes; only this module decides what they build in a kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from ..ir.types import Scalar
from .aggregates import ElementType, MatrixType, PackType, StructType, aggregate_type
from .arguments import arguments, positional
from .context import Tracer, require_value
from .conversions import as_matrix, cast_matrix, conform, kind_of, matrix_of
from .diagnostics import suggestion, syntax_problem, type_problem
from .limits import check_entries
from .matrices import METHODS, expect, scalar_type, unbound
from .operands import Intrinsic, MatrixValue, Operand, Static, StructValue, describe, integer_of, shape_text
from .protocols import constructor_name

CallLowering = Callable[[Tracer, ast.Call], Operand]


def constructor(t: Tracer, value: object) -> CallLowering | None:
    """Return the lowering of a call of an object if the object is a constructor, else None."""
    if isinstance(value, Intrinsic):
        return value.call
    name = constructor_name(value)
    if name is not None:
        return partial(CONSTRUCTORS[name], name)
    kind = aggregate_type(value, t.options)
    if isinstance(kind, MatrixType):
        return partial(_of_matrix_type, kind)
    return partial(_of_struct_type, kind) if isinstance(kind, StructType) else None


def attribute(t: Tracer, base: Static, name: str) -> Static | None:
    """Return a function of a constructor, such as `sg.Vector.zero` or `sg.Matrix.dot`, or None if there is none."""
    owner = constructor_name(base.value)
    if owner in ("Vector", "Matrix"):
        if name in SHAPED:
            return Static(Intrinsic(name, partial(SHAPED[name], owner)), name)
        return unbound(name) if name in METHODS else None
    return None


# ---- from entries -------------------------------------------------------------------------------------------------


def _of_entries(name: str, t: Tracer, node: ast.Call) -> Operand:
    """Return the result of `sg.Vector(entries, dt)` or `sg.Matrix(rows, dt)`."""
    given, dtype = arguments(t, node, name, "entries", "dt=")
    matrix = as_matrix(t, given)
    if matrix is None:
        raise type_problem(f"`{name}` is made of its entries, not of {describe(given)}", f"write `{_form(name)}`")
    if name == "Vector" and len(matrix.shape) == 2 and 1 in matrix.shape:
        matrix = MatrixValue((len(matrix.items),), matrix.items)
    if name == "Vector" and len(matrix.shape) == 2:
        raise type_problem(f"`Vector` is given the entries of {shape_text(matrix.shape)}", "use `sg.Matrix`")
    return _typed(t, matrix, dtype)


def _typed(t: Tracer, matrix: MatrixValue, dtype: Operand) -> MatrixValue:
    if isinstance(dtype, Static) and dtype.value is None:
        return matrix
    return cast_matrix(t, matrix, scalar_type(t, dtype))


def _form(name: str) -> str:
    return "sg.Vector([a, b, c])" if name == "Vector" else "sg.Matrix([[a, b], [c, d]])"


def _of_matrix_type(kind: MatrixType, t: Tracer, node: ast.Call) -> Operand:
    """Return the result of `vec3(1, 2, 3)`, `vec3(v2, 1.0)` or `mat2([a, b], [c, d])`; one number fills all entries."""
    if node.keywords:
        raise syntax_problem(
            "a vector or matrix type takes its entries alone", "write them in order", node.keywords[0].value
        )
    items = _entries([require_value(operand) for operand in positional(t, node.args)], t)
    if len(items) == 1:
        items *= kind.size
    if len(items) != kind.size:
        raise type_problem(
            f"{shape_text(kind.shape)} is made of {kind.size} numbers or one, not of {len(items)}",
            f"give {kind.size} numbers",
        )
    return MatrixValue(kind.shape, tuple(t.value(item, kind.dtype) for item in items))


def _entries(operands: Sequence[Operand], t: Tracer) -> list[Operand]:
    found: list[Operand] = []
    for operand in operands:
        matrix = as_matrix(t, operand)
        found.extend((operand,) if matrix is None else matrix.items)
    return found


def _of_struct_type(kind: StructType, t: Tracer, node: ast.Call) -> Operand:
    """Return the result of `State(pos=..., vel=...)`; members are given by position or name, or are zero."""
    given = dict(zip(kind.names, (require_value(o) for o in positional(t, node.args))))
    if len(node.args) > len(kind.names):
        raise syntax_problem(
            f"{kind} has {len(kind.names)} members, {len(node.args)} given", f"its members are {', '.join(kind.names)}"
        )
    for keyword in node.keywords:
        if keyword.arg not in kind.names or keyword.arg in given:
            close = suggestion(keyword.arg or "", kind.names)
            raise syntax_problem(
                f"{kind} does not take `{keyword.arg}`",
                close or f"its members are {', '.join(kind.names)}",
                keyword.value,
            )
        given[keyword.arg] = t.clean(keyword.value)
    members = {
        name: conform(t, given[name], inner, f"the member `{name}`") if name in given else zero(inner, t)
        for name, inner in kind.members
    }
    return StructValue(kind, members)


def zero(kind: Scalar | MatrixType | StructType, t: Tracer) -> Operand:
    """Return an operand of the given type whose numbers are all zero."""
    if isinstance(kind, MatrixType):
        return MatrixValue(kind.shape, (zero(kind.dtype, t),) * kind.size)
    if isinstance(kind, StructType):
        return StructValue(kind, {name: zero(inner, t) for name, inner in kind.members})
    return t.builder.const(0, kind)


def _of_members(name: str, t: Tracer, node: ast.Call) -> Operand:
    """Return the result of `sg.Struct(a=..., b=...)` or `sg.Struct({"a": ...})`: a struct of an unnamed type."""
    given: dict[str, Operand] = {}
    for argument in node.args:
        if not isinstance(argument, ast.Dict):
            raise syntax_problem("`Struct` is made of names and values", "write `sg.Struct(a=x, b=y)`", argument)
        for key, value in zip(argument.keys, argument.values):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise syntax_problem(
                    "the members of a struct have constant names", 'write `"name": value`', key or argument
                )
            given[key.value] = _member(t, value)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise syntax_problem("`**` is not taken in a kernel", "write the members one by one", keyword.value)
        given[keyword.arg] = _member(t, keyword.value)
    if not given:
        raise syntax_problem("a struct has members", "write `sg.Struct(a=x, b=y)`")
    kind = StructType("", tuple((key, _member_type(t, key, value)) for key, value in given.items()))
    return conform(t, StructValue(kind, given), kind, "the struct")


def _member(t: Tracer, node: ast.expr) -> Operand:
    operand = t.clean(node)
    return as_matrix(t, operand) or operand


def _member_type(t: Tracer, name: str, operand: Operand) -> ElementType:
    kind = kind_of(t, operand)
    if isinstance(kind, PackType):
        raise type_problem(f"the member `{name}` is {kind}", "give a number, a vector, a matrix or a struct")
    return kind


CONSTRUCTORS: dict[str, Callable[[str, Tracer, ast.Call], Operand]] = {
    "Vector": _of_entries,
    "Matrix": _of_entries,
    "Struct": _of_members,
}

# ---- from shapes --------------------------------------------------------------------------------------------------


def _extents(owner: str, name: str, operands: Sequence[Operand]) -> tuple[int, ...]:
    """Return the operands as positive integers, the extents of a vector or matrix. Skip operands that are None."""
    found = []
    for operand in operands:
        if isinstance(operand, Static) and operand.value is None:
            continue
        extent = integer_of(operand)
        if extent is None or extent < 1:
            raise type_problem(
                f"the extents of `{name}` are positive integers known at compile time, not {describe(operand)}",
                "give constants, as in `sg.Vector.zero(sg.f32, 3)`",
            )
        found.append(extent)
    check_entries((*found, found[0]) if name in _SQUARE else tuple(found))
    return tuple(found)


_SQUARE = ("identity", "diag")


def _filled(value: float, owner: str, t: Tracer, node: ast.Call) -> Operand:
    name = f"{owner}.{'one' if value else 'zero'}"
    dtype, *extents = arguments(t, node, name, "dt", "n", *(("m=",) if owner == "Matrix" else ()))
    shape, scalar = _extents(owner, name, extents), scalar_type(t, dtype)
    size = shape[0] * (shape[1] if len(shape) == 2 else 1)
    return MatrixValue(shape, tuple(t.builder.const(value, scalar) for _ in range(size)))


def _identity(owner: str, t: Tracer, node: ast.Call) -> Operand:
    dtype, size = arguments(t, node, f"{owner}.identity", "dt", "n")
    (n,), scalar = _extents(owner, "identity", (size,)), scalar_type(t, dtype)
    return MatrixValue((n, n), tuple(t.builder.const(i == j, scalar) for i in range(n) for j in range(n)))


def _unit(owner: str, t: Tracer, node: ast.Call) -> Operand:
    """Return the vector of n entries whose entry i is 1."""
    size, at, dtype = arguments(t, node, f"{owner}.unit", "n", "i", "dt=")
    (n,), i = _extents(owner, "unit", (size,)), integer_of(at)
    if i is None or not 0 <= i < n:
        raise type_problem(f"`unit` takes the position of its 1, from 0 to {n - 1}", "give a constant")
    default = isinstance(dtype, Static) and dtype.value is None
    scalar = t.options.default_ip if default else scalar_type(t, dtype)
    return MatrixValue((n,), tuple(t.builder.const(k == i, scalar) for k in range(n)))


def _diag(owner: str, t: Tracer, node: ast.Call) -> Operand:
    """Return the matrix of n rows with `val` on its diagonal and zero elsewhere."""
    dim, value = arguments(t, node, f"{owner}.diag", "dim", "val")
    (n,), dtype = _extents(owner, "diag", (dim,)), t.type_of(value)
    entry, nothing = t.value(value), t.builder.const(0, dtype)
    return MatrixValue((n, n), tuple(entry if i == j else nothing for i in range(n) for j in range(n)))


def _rows(owner: str, t: Tracer, node: ast.Call) -> Operand:
    (given,) = arguments(t, node, f"{owner}.rows", "rows")
    vectors = [expect(t, "rows", row, 1) for row in t.items(given) or ()]
    return matrix_of(t, _some(vectors, "rows"))


def _cols(owner: str, t: Tracer, node: ast.Call) -> Operand:
    (given,) = arguments(t, node, f"{owner}.cols", "cols")
    matrix = matrix_of(t, _some([expect(t, "cols", column, 1) for column in t.items(given) or ()], "cols"))
    return METHODS["transpose"].function(t, matrix)


def _some(vectors: list[MatrixValue], name: str) -> list[MatrixValue]:
    if not vectors:
        raise type_problem(f"`{name}` takes a sequence of vectors", f"write `sg.Matrix.{name}([a, b])`")
    return vectors


SHAPED: dict[str, Callable[[str, Tracer, ast.Call], Operand]] = {
    "zero": partial(_filled, 0),
    "one": partial(_filled, 1),
    "identity": _identity,
    "unit": _unit,
    "diag": _diag,
    "rows": _rows,
    "cols": _cols,
}
"""These functions of `sg.Vector` and `sg.Matrix` can be called in kernels."""
