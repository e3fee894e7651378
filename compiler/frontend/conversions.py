"""This module converts operands: Python objects and sequences to matrices, and values to the type of their memory.

Only `conform` decides what may be stored where.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..ir.types import Scalar
from . import type_inference
from .aggregates import ANY, LocalType, MatrixType, PackType, StructType, aggregate_type
from .context import Tracer, require_value
from .diagnostics import ProblemError, type_problem
from .operands import MatrixValue, Operand, Pack, Static, StructValue, describe, number_of, shape_text, static_operand
from .protocols import HostStruct, HostView, ViewOperand, is_any_field, is_host_matrix, is_host_struct, is_host_view

CONSTANT_LIMIT = 64
"""This limit bounds the number of entries of a NumPy array that a kernel holds as a constant."""

# ---- captured objects -------------------------------------------------------------------------------------------


def captured_operand(t: Tracer, operand: Operand) -> Operand:
    """Return the operand by which kernels use a captured Python object, such as a constant vector for an `sg.Vector`.

    A host vector, matrix, struct or view becomes an operand of the same kind, and a small NumPy array a constant vector
    or matrix. Any other operand is returned unchanged.
    """
    if not isinstance(operand, Static):
        return operand
    value = operand.value
    if isinstance(value, np.ndarray) and value.ndim in (1, 2) and 0 < value.size <= CONSTANT_LIMIT:
        return _constant(value, operand.hint)
    if is_host_matrix(value):
        made = _constant(np.asarray(value.to_numpy()), operand.hint)
        return cast_matrix(t, made, value.dtype) if value.dtype and isinstance(made, MatrixValue) else made
    if is_host_struct(value):
        return _struct(t, value, operand.hint)
    if is_host_view(value):
        return _view(value, operand.hint)
    return operand


def _view(view: HostView, hint: str) -> Static:
    if not is_any_field(view.arr):
        raise type_problem(f"the view `{hint}` is of memory that the launch gives", "pass the view as an argument")
    return Static(ViewOperand(view.arr, view.offset, view.size), hint)


def _constant(array: np.ndarray, hint: str) -> Operand:
    if array.dtype.kind not in "biuf":
        return Static(array, hint)
    return MatrixValue(array.shape, tuple(static_operand(x) for x in array.reshape(-1)))


def _struct(t: Tracer, value: HostStruct, hint: str) -> Operand:
    members = {k: captured_operand(t, static_operand(v, f"{hint}_{k}")) for k, v in value.members.items()}
    kind = aggregate_type(value.type, t.options)
    assert isinstance(kind, StructType)
    return conform(t, StructValue(kind, members), kind, f"`{hint}`")


# ---- matrices -----------------------------------------------------------------------------------------------------


def unify_entries(t: Tracer, shape: tuple[int, ...], items: Sequence[Operand]) -> MatrixValue:
    """Return a matrix of these entries, converted to their common type; constants stay Python numbers."""
    found = [number_of(item) for item in items]
    if None not in found:
        # One real number makes all numbers real, as in a vector of mixed literals.
        if any(isinstance(f, float) for f in found):
            return MatrixValue(shape, tuple(Static(float(f)) for f in found))  # type: ignore[arg-type]
        return MatrixValue(shape, tuple(items))
    dtype = reduce(type_inference.common_type, (t.type_of(item) for item in items))
    return MatrixValue(shape, tuple(t.value(item, dtype) for item in items))


def entry_type(t: Tracer, matrix: MatrixValue) -> Scalar:
    """Return the common type of the entries of a vector or matrix."""
    return reduce(type_inference.common_type, (t.type_of(item) for item in matrix.items))


def cast_matrix(t: Tracer, matrix: MatrixValue, dtype: Scalar) -> MatrixValue:
    """Return the matrix with every entry converted to a scalar type."""
    return MatrixValue(matrix.shape, tuple(t.value(item, dtype) for item in matrix.items))


def as_matrix(t: Tracer, operand: Operand) -> MatrixValue | None:
    """Return the operand as a matrix if it is a matrix or a sequence of numbers or rows, else None."""
    if isinstance(operand, MatrixValue):
        return operand
    if isinstance(operand, Static) and isinstance(operand.value, np.ndarray):
        raise too_large(operand)
    if not (isinstance(operand, Pack) or isinstance(operand, Static) and isinstance(operand.value, (list, tuple))):
        return None
    items = [require_value(captured_operand(t, item)) for item in t.items(operand) or ()]
    return matrix_of(t, items) if items else None


def matrix_of(t: Tracer, items: Sequence[Operand]) -> MatrixValue:
    """Return the vector whose entries are the items, or the matrix whose rows are the items.

    Raises:
        ProblemError: the rows differ in length, or an item is neither a number nor a row.
    """
    rows = [as_matrix(t, item) for item in items]
    if all(row is None for row in rows):
        return unify_entries(t, (len(items),), items)
    for row in rows:
        if row is None or len(row.shape) != 1:
            raise type_problem("a matrix is made of rows of numbers", "write `sg.Matrix([[a, b], [c, d]])`")
    vectors = [row for row in rows if row is not None]
    lengths = {row.shape[0] for row in vectors}
    if len(lengths) > 1:
        text = " and ".join(map(str, sorted(lengths)))
        raise type_problem(f"the rows of a matrix differ in length: {text}", "give every row as many entries")
    return unify_entries(t, (len(items), lengths.pop()), [x for row in vectors for x in row.items])


def too_large(operand: Static) -> ProblemError:
    """Return the error (a `ProblemError`) for a NumPy array that is too large to be a constant of a kernel."""
    array = operand.value
    return type_problem(
        f"{describe(operand)} of shape {array.shape} cannot be a constant of the kernel: constants are vectors and"
        f" matrices of at most {CONSTANT_LIMIT} numbers",
        "copy it into a field with `from_numpy`, or pass it as an argument",
    )


# ---- what memory takes --------------------------------------------------------------------------------------------


def sequence(t: Tracer, operand: Operand) -> Operand:
    """Return a Python sequence known at compile time as a `Pack` with an operand per item; leave others unchanged."""
    if isinstance(operand, Pack):
        return Pack(tuple(sequence(t, item) for item in operand.items))
    if isinstance(operand, Static) and isinstance(operand.value, np.ndarray):
        raise too_large(operand)
    if isinstance(operand, Static) and t.items(operand) is not None:
        return Pack(tuple(sequence(t, item) for item in t.items(operand) or ()))
    return operand


def kind_of(t: Tracer, operand: Operand) -> LocalType:
    """Return the type of a new local that is initialized with the operand."""
    if isinstance(operand, Pack):
        return PackType(tuple(kind_of(t, item) for item in operand.items))
    if isinstance(operand, MatrixValue):
        return MatrixType(operand.shape, entry_type(t, operand))
    if isinstance(operand, StructValue):
        return operand.type
    return t.type_of(operand)


def conform(t: Tracer, operand: Operand, kind: LocalType, where: str) -> Operand:
    """Return the operand converted to `kind`, the type of a memory location. A number fills all entries of a matrix.

    Args:
        t: the tracer.
        operand: the operand.
        kind: type of the memory.
        where: description of the memory in messages.

    Raises:
        ProblemError: the operand does not fit the type.
    """
    if isinstance(kind, PackType):
        return _conform_pack(t, operand, kind, where)
    if isinstance(kind, MatrixType):
        return _conform_matrix(t, operand, kind, where)
    if isinstance(kind, StructType):
        return _conform_struct(t, operand, kind, where)
    if isinstance(operand, (MatrixValue, StructValue)):
        raise type_problem(
            f"{where} holds one number of type {kind}, not {describe(operand)}", "store one element, as in `v[0]`"
        )
    return t.stored(operand, kind, where)


def _conform_pack(t: Tracer, operand: Operand, kind: PackType, where: str) -> Pack:
    items = t.items(operand)
    if items is None or len(items) != len(kind.items):
        what = describe(operand) if items is None else f"{len(items)} values"
        raise type_problem(f"{where} holds {kind}, not {what}", "give it as many values")
    return Pack(tuple(conform(t, item, inner, where) for item, inner in zip(items, kind.items)))


def _conform_matrix(t: Tracer, operand: Operand, kind: MatrixType, where: str) -> MatrixValue:
    matrix = as_matrix(t, operand)
    if matrix is None:
        if isinstance(operand, StructValue) or isinstance(operand, Static) and number_of(operand) is None:
            raise type_problem(
                f"{where} holds {shape_text(kind.shape)}, not {describe(operand)}", "give as many numbers"
            )
        value = t.stored(operand, t.type_of(operand) if kind.dtype is ANY else kind.dtype, where)
        return MatrixValue(kind.shape, (value,) * kind.size)
    if matrix.shape != kind.shape:
        raise type_problem(
            f"{where} holds {shape_text(kind.shape)}, not {shape_text(matrix.shape)}",
            _shape_cure(kind.shape, matrix.shape),
        )
    dtype = entry_type(t, matrix) if kind.dtype is ANY else kind.dtype
    return MatrixValue(kind.shape, tuple(t.stored(item, dtype, where) for item in matrix.items))


def _shape_cure(want: tuple[int, ...], have: tuple[int, ...]) -> str:
    if have == want[::-1]:
        return "transpose it with `.transpose()`"
    if len(have) == len(want) == 1 and have[0] > want[0]:
        return f"take the first {want[0]} entries, as in `v[:{want[0]}]`"
    return "give both the same shape"


def _conform_struct(t: Tracer, operand: Operand, kind: StructType, where: str) -> StructValue:
    if not isinstance(operand, StructValue):
        raise type_problem(f"{where} holds {kind}, not {describe(operand)}", "build the struct with its type")
    missing = [name for name in kind.names if name not in operand.members]
    extra = [name for name in operand.members if name not in kind.names]
    if missing or extra:
        odd = ", ".join(f"`{name}`" for name in missing + extra)
        raise type_problem(
            f"{where} holds {kind}, not {describe(operand)}: they differ in {odd}",
            f"its members are {', '.join(kind.names)}",
        )
    members = {
        name: conform(t, operand.members[name], inner, f"{where}, member `{name}`,") for name, inner in kind.members
    }
    return StructValue(kind, members)
