"""This module traces views; a view is an array of one axis, the number of its first element, and its length.

    v[i]            arr[v.offset + i]
    v[a:b]          v.subview(a, b - a): the same array from v.offset + a on

Invariant: a view exists only while a kernel is traced. The IR has plain indices into the array, so no pass,
derivative rule or executor needs to know views. A `within` on the way to an element states what only the launch can
tell: that an index lies in the view, and the view in its array.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from ..ir.statement import Value
from ..ir.texts import EXTENT, INDEX
from ..ir.types import Scalar, promote
from . import type_inference
from .aggregates import ViewType, find_type
from .arguments import arguments
from .constructors import CONSTRUCTORS
from .context import Tracer
from .diagnostics import ProblemError, index_problem, suggestion, syntax_problem, type_problem
from .members import LaunchValue
from .memory import Place, element_of, load
from .operands import Intrinsic, Operand, Pack, ShapeOf, Static, describe, integer_of
from .protocols import AnyField, LaunchShape, ViewOperand, is_any_field, is_matrix_field, is_struct_field

FieldAttribute = Callable[[Tracer, AnyField, str, str], Operand]
"""A function of this type returns an attribute of a field, from the tracer, the field, its hint and the name."""


def is_view(operand: object) -> TypeGuard[Static]:
    """Return True if an operand is a view."""
    return isinstance(operand, Static) and isinstance(operand.value, ViewOperand)


def rename_view(operand: Static, name: str) -> Static:
    """Return the view with another name for messages, when the program assigns it to a variable."""
    view: ViewOperand = operand.value
    return Static(replace(view, hint=view.hint or operand.hint), name)


# ---- where a view begins and ends -----------------------------------------------------------------------------------


def _placed(t: Tracer, given: object) -> Operand:
    """Return the offset or size of a view as an operand; if it is a member of an argument object, emit a load."""
    if isinstance(given, LaunchValue):
        assert given.place is not None
        return load(t, given.place)
    return Static(given) if isinstance(given, int) else given  # type: ignore[return-value]


def first_of(t: Tracer, view: ViewOperand) -> Operand:
    """Return the number of the view's first element in its array."""
    return _placed(t, view.first)


def size_of(t: Tracer, view: ViewOperand) -> Operand:
    """Return the number of elements of a view as an operand."""
    return _placed(t, view.extent)


def _whole(t: Tracer, operand: Operand, what: str, node: ast.expr) -> int | Value:
    """Return an offset, size or bound as a non-negative number, or as a run-time value of type i32 or i64.

    Raise ProblemError if it is negative or no integer; `what` names it in the message.
    """
    found = integer_of(operand)
    if found is None:
        try:
            return t.index(operand)
        except ProblemError as problem:
            raise type_problem(
                f"{what} is an integer, not {describe(operand)}", "convert it with `int(...)`", node
            ) from problem
    if found < 0:
        raise type_problem(f"{what} is {found}, and views do not count from the end", "write `v.size - n`", node)
    return found


def _operand(number: int | Value) -> Operand:
    return Static(number) if isinstance(number, int) else number


def _combined(t: Tracer, op: str, left: Operand | int, right: Operand | int) -> int | Value:
    """Return left + right ("add") or left - right ("sub"), computed at once if both are known at compile time."""
    left, right = (Static(x) if isinstance(x, int) else x for x in (left, right))
    a, b = integer_of(left), integer_of(right)
    if a is not None and b is not None:
        return a + b if op == "add" else a - b
    if b == 0:
        return t.value(left)
    if a == 0 and op == "add":
        return t.value(right)
    dtype = _index_type(t, left, right)
    return t.builder.op(op, t.value(left, dtype), t.value(right, dtype))


def _index_type(t: Tracer, *operands: Operand) -> Scalar:
    types = [type_inference.index_type(t.type_of(operand)) for operand in operands]
    return types[0] if len(types) == 1 else promote(*types)


# ---- making ---------------------------------------------------------------------------------------------------------


def _construct(name: str, t: Tracer, node: ast.Call) -> Operand:
    """Return the result of `sg.BufferView(arr, offset, size)`."""
    arr, offset, size = arguments(t, node, name, "arr", "offset", "size")
    if is_view(arr):
        raise type_problem("a view is made of an array, not of a view", "write `view.subview(offset, size)`", node)
    if not isinstance(arr, Static) or not is_any_field(arr.value):
        raise type_problem(
            f"a view is made of an ndarray or field, not of {describe(arr)}",
            "write `sg.BufferView(array, offset, size)`",
            node,
        )
    if len(arr.value.shape) != 1:
        raise type_problem(
            f"a view is of an array with one axis, and `{arr.hint}` has {len(arr.value.shape)}",
            "index the array itself, or reshape it",
            node,
        )
    first = _whole(t, offset, "the offset of a view", node)
    extent = _whole(t, size, "the size of a view", node)
    begin = _inside(t, first, extent, _length(t, arr), f"`{arr.hint}`", node)
    return Static(ViewOperand(arr.value, begin, extent), arr.hint)


CONSTRUCTORS["BufferView"] = _construct


def _length(t: Tracer, arr: Static) -> Operand:
    shape = arr.value.shape
    return t.extent(ShapeOf(arr.value, arr.hint), 0) if isinstance(shape, LaunchShape) else Static(shape[0])


def _inside(
    t: Tracer, first: int | Value, extent: int | Value, length: Operand, what: str, node: ast.expr
) -> int | Value:
    """Check that a view lies inside of its array, at compile time or by an emitted check. Return its first element."""
    whole = integer_of(length)
    if isinstance(first, int) and isinstance(extent, int) and whole is not None:
        if first + extent > whole:
            raise type_problem(
                f"the view of {extent} elements from {first} on ends beyond {what}, which has {whole}",
                "make it smaller",
                node,
            )
        return first
    if not t.options.bounds:
        return first
    room = _combined(t, "add", _operand(_combined(t, "sub", length, _operand(extent))), 1)
    message = (
        f"the view `{ast.unparse(node)}` is not inside {what}: it begins at {INDEX}, and one of its size has to"
        f" begin below {EXTENT}"
    )
    return t.within(t.value(_operand(first)), room, message)


def _subview(view: ViewOperand, hint: str, t: Tracer, node: ast.Call) -> Operand:
    offset, size = arguments(t, node, "subview", "offset", "size")
    first = _whole(t, offset, "the offset of a view", node)
    return _part(t, view, hint, first, _whole(t, size, "the size of a view", node), node)


def slice_of(t: Tracer, base: Static, node: ast.Subscript, key: ast.Slice) -> Static:
    """Return the view `v[a:b]` of a view or array; the bounds may be run-time values and must not be negative."""
    view: ViewOperand = base.value
    if key.step is not None and integer_of(t.clean(key.step)) != 1:
        raise type_problem("a slice of a view has no step", "index the view, as in `v[2 * i]`", key.step)
    low = 0 if key.lower is None else _whole(t, t.clean(key.lower), "a bound of a view", key.lower)
    high = size_of(t, view) if key.upper is None else _whole(t, t.clean(key.upper), "a bound of a view", key.upper)
    extent = _combined(t, "sub", high, low)
    if isinstance(extent, int) and extent < 0:
        raise type_problem(f"the slice ends {-extent} before it begins", "write the smaller bound first", key)
    return _part(t, view, base.hint, low, extent, node)


def _part(t: Tracer, view: ViewOperand, hint: str, first: int | Value, extent: int | Value, node: ast.expr) -> Static:
    first = _inside(t, first, extent, size_of(t, view), f"`{hint}`", node)
    begin = _combined(t, "add", first_of(t, view), _operand(first))
    return Static(ViewOperand(view.base, begin, extent, view.hint), hint)


# ---- using ----------------------------------------------------------------------------------------------------------

ATTRIBUTES = ("size", "shape", "offset", "subview", "dtype", "grad")


def attribute(t: Tracer, base: Static, name: str, of_field: FieldAttribute) -> Operand:
    """Return an attribute of a view: its own, such as `v.size`, or that of its array, such as `v.grad`, as a view."""
    view = base.value
    if name == "size":
        return size_of(t, view)
    if name == "shape":
        return Pack((size_of(t, view),))
    if name == "offset":
        return first_of(t, view)
    if name == "subview":
        return Static(Intrinsic(name, partial(_subview, view, base.hint)), f"{base.hint}.{name}")
    if name in ("dtype", "grad", *_members(view)):
        found = of_field(t, view.base, view.hint or base.hint, name)
        if isinstance(found, Static) and is_any_field(found.value):
            return Static(ViewOperand(found.value, view.first, view.extent, found.hint), f"{base.hint}.{name}")
        return found
    close = suggestion(name, ATTRIBUTES)
    raise syntax_problem(
        f"a view has no attribute `{name}`", close or "use `v.size`, `v[i]`, `v[a:b]`, `v.subview(a, n)`"
    )


def _members(view: ViewOperand) -> tuple[str, ...]:
    if is_matrix_field(view.base):
        return ("n", "m")
    return tuple(view.base.members) if is_struct_field(view.base) else ()


def element(t: Tracer, base: Static, indices: list[tuple[Operand, ast.expr]], node: ast.Subscript) -> Place:
    """Return the place of the element `v[i]` of a view.

    Raises:
        ProblemError: a constant index is outside the view.
    """
    view, text = base.value, ast.unparse(node)
    if len(indices) != 1:
        raise index_problem(
            f"the view `{base.hint}` has 1 axis, but is indexed with {len(indices)}", f"write `{base.hint}[i]`", node
        )
    operand, at = indices[0]
    index: int | Value = _whole(t, operand, f"the index of `{text}`", at)
    size = size_of(t, view)
    known = integer_of(size)
    if isinstance(index, int) and known is not None and index >= known:
        raise index_problem(
            f"the index {index} is outside the view `{base.hint}`, which has {known} elements",
            f"use an index from 0 to {known - 1}" if known else "give the view elements",
            at,
        )
    if isinstance(index, Value) or known is None:
        message = f"index {INDEX} is outside the view `{base.hint}`, which has {EXTENT} elements"
        index = t.within(t.value(_operand(index)), t.value(size), message)
    return element_of(t, view.base, view.hint or base.hint, (_element_number(t, view, index),), text)


def _element_number(t: Tracer, view: ViewOperand, index: int | Value) -> Value:
    found = _combined(t, "add", first_of(t, view), index)
    return t.value(Static(found)) if isinstance(found, int) else found


def check_annotation(t: Tracer, wanted: ViewType, operand: Operand, where: str) -> None:
    """Raise ProblemError if an argument of a func is no view, or its element type differs from the annotation's."""
    if not is_view(operand):
        raise type_problem(f"{where} is a view, not {describe(operand)}", "give `sg.BufferView(array, offset, size)`")
    kind, have = wanted.array.dtype, _element_kind(operand.value)
    if kind is not None and have != find_type(kind, t.options):
        raise type_problem(f"{where} is a view of {kind}, not of {have}", "annotate it with the type of the elements")


def _element_kind(view: ViewOperand) -> object:
    if is_matrix_field(view.base):
        return view.base.element
    return view.base.type if is_struct_field(view.base) else view.dtype
