"""Views: a part of an array of one axis, as the array, the number of its first element and the number of elements.

    v[i]            arr[v.offset + i]
    v[a:b]          v.subview(a, b - a): the same array from v.offset + a on

Invariant: a view exists while a kernel is traced and no longer. The IR has plain indices into the array, so that no
pass, derivative rule or executor learns of views; debug mode asserts that each index is one of the view.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from ..ir.nodes import Assert, Value
from ..ir.types import Scalar, promote
from . import infer
from .aggregates import ViewType, find_type
from .arguments import arguments
from .constructors import CONSTRUCTORS
from .context import Tracer
from .diagnostics import Problem, mistyped, suggestion, syntax
from .members import LaunchValue
from .memory import Place, element_of, load
from .operands import Intrinsic, Operand, Pack, ShapeOf, Static, describe, integer, number
from .protocols import AnyField, LaunchShape, View, is_any_field, is_matrix_field, is_struct_field

FieldAttribute = Callable[[Tracer, AnyField, str, str], Operand]
"""What an attribute of a field means: tracer, field, hint, name."""


def is_view(operand: object) -> TypeGuard[Static]:
    """Whether an operand is a view."""
    return isinstance(operand, Static) and isinstance(operand.value, View)


def named(operand: Static, name: str) -> Static:
    """The view under another name; its array keeps the one it has."""
    view: View = operand.value
    return Static(replace(view, hint=view.hint or operand.hint), name)


# ---- where a view begins and ends -----------------------------------------------------------------------------------


def _placed(t: Tracer, given: object) -> Operand:
    """The offset or the size of a view as an operand."""
    if isinstance(given, LaunchValue):
        assert given.place is not None
        return load(t, given.place)
    return Static(given) if isinstance(given, int) else given  # type: ignore[return-value]


def first_of(t: Tracer, view: View) -> Operand:
    """The number of the first element."""
    return _placed(t, view.first)


def size_of(t: Tracer, view: View) -> Operand:
    """The number of elements."""
    return _placed(t, view.extent)


def _whole(t: Tracer, operand: Operand, what: str, node: ast.expr) -> int | Value:
    """An offset, size or bound: a number that is not negative, or a value of type i32 or i64."""
    found = integer(operand)
    if found is None:
        try:
            return t.index(operand)
        except Problem as problem:
            raise mistyped(
                f"{what} is an integer, not {describe(operand)}", "convert it with `int(...)`", node
            ) from problem
    if found < 0:
        raise mistyped(f"{what} is {found}, and views do not count from the end", "write `v.size - n`", node)
    return found


def _combined(t: Tracer, op: str, left: Operand | int, right: Operand | int) -> int | Value:
    """left + right or left - right ("add", "sub"), folded if both are known."""
    left, right = (Static(x) if isinstance(x, int) else x for x in (left, right))
    a, b = integer(left), integer(right)
    if a is not None and b is not None:
        return a + b if op == "add" else a - b
    if b == 0:
        return t.value(left)
    if a == 0 and op == "add":
        return t.value(right)
    dtype = _index_type(t, left, right)
    return t.builder.op(op, t.value(left, dtype), t.value(right, dtype))


def _index_type(t: Tracer, *operands: Operand) -> Scalar:
    types = [infer.index_type(t.type_of(operand)) for operand in operands]
    return types[0] if len(types) == 1 else promote(*types)


def _assert_order(t: Tracer, low: Operand | int, high: Operand | int, strict: bool, message: str) -> None:
    """In debug mode, assert low < high (strict) or low <= high, unless that is known."""
    low, high = (Static(x) if isinstance(x, int) else x for x in (low, high))
    if not t.options.debug or number(low) is not None and number(high) is not None:
        return
    dtype = _index_type(t, low, high)
    holds = t.builder.op("cmp_lt" if strict else "cmp_le", t.value(low, dtype), t.value(high, dtype))
    t.builder.emit(Assert(holds, message, loc=t.builder.loc))


# ---- making ---------------------------------------------------------------------------------------------------------


def _construct(name: str, t: Tracer, node: ast.Call) -> Operand:
    """`sg.BufferView(arr, offset, size)`."""
    arr, offset, size = arguments(t, node, name, "arr", "offset", "size")
    if is_view(arr):
        raise mistyped("a view is made of an array, not of a view", "write `view.subview(offset, size)`", node)
    if not isinstance(arr, Static) or not is_any_field(arr.value):
        raise mistyped(
            f"a view is made of an ndarray or field, not of {describe(arr)}",
            "write `sg.BufferView(array, offset, size)`",
            node,
        )
    if len(arr.value.shape) != 1:
        raise mistyped(
            f"a view is of an array with one axis, and `{arr.hint}` has {len(arr.value.shape)}",
            "index the array itself, or reshape it",
            node,
        )
    first = _whole(t, offset, "the offset of a view", node)
    extent = _whole(t, size, "the size of a view", node)
    _check_inside(t, first, extent, _length(t, arr), f"`{arr.hint}`", node)
    return Static(View(arr.value, first, extent), arr.hint)


CONSTRUCTORS["BufferView"] = _construct


def _length(t: Tracer, arr: Static) -> Operand:
    shape = arr.value.shape
    return t.extent(ShapeOf(arr.value, arr.hint), 0) if isinstance(shape, LaunchShape) else Static(shape[0])


def _check_inside(
    t: Tracer, first: int | Value, extent: int | Value, length: Operand, what: str, node: ast.expr
) -> None:
    """The elements from `first` on, `extent` of them, are among `length`: now if all is known, else in debug mode."""
    end, whole = _combined(t, "add", first, extent), integer(length)
    if isinstance(end, int) and whole is not None and end > whole:
        raise mistyped(
            f"the view of {extent} elements from {first} on ends beyond {what}, which has {whole}",
            "make it smaller",
            node,
        )
    text = f"the view `{ast.unparse(node)}` "
    _assert_order(t, 0, first, False, text + f"begins before {what}")
    _assert_order(t, 0, extent, False, text + "has a negative size")
    _assert_order(t, end, length, False, text + f"ends beyond {what}: make it smaller")


def _subview(view: View, hint: str, t: Tracer, node: ast.Call) -> Operand:
    offset, size = arguments(t, node, "subview", "offset", "size")
    first = _whole(t, offset, "the offset of a view", node)
    return _part(t, view, hint, first, _whole(t, size, "the size of a view", node), node)


def slice_of(t: Tracer, base: Static, node: ast.Subscript, key: ast.Slice) -> Static:
    """`v[a:b]`: bounds may be known at launch only; neither counts from the end."""
    view: View = base.value
    if key.step is not None and integer(t.clean(key.step)) != 1:
        raise mistyped("a slice of a view has no step", "index the view, as in `v[2 * i]`", key.step)
    low = 0 if key.lower is None else _whole(t, t.clean(key.lower), "a bound of a view", key.lower)
    high = size_of(t, view) if key.upper is None else _whole(t, t.clean(key.upper), "a bound of a view", key.upper)
    extent = _combined(t, "sub", high, low)
    if isinstance(extent, int) and extent < 0:
        raise mistyped(f"the slice ends {-extent} before it begins", "write the smaller bound first", key)
    return _part(t, view, base.hint, low, extent, node)


def _part(t: Tracer, view: View, hint: str, first: int | Value, extent: int | Value, node: ast.expr) -> Static:
    _check_inside(t, first, extent, size_of(t, view), f"`{hint}`", node)
    begin = _combined(t, "add", first_of(t, view), first)
    return Static(View(view.base, begin, extent, view.hint), hint)


# ---- using ----------------------------------------------------------------------------------------------------------

ATTRIBUTES = ("size", "shape", "offset", "subview", "dtype", "grad")


def attribute(t: Tracer, base: Static, name: str, of_field: FieldAttribute) -> Operand:
    """`v.size` and its like; what else a field has, `v.grad` and members of structs, as a view again."""
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
            return Static(View(found.value, view.first, view.extent, found.hint), f"{base.hint}.{name}")
        return found
    close = suggestion(name, ATTRIBUTES)
    raise syntax(f"a view has no attribute `{name}`", close or "use `v.size`, `v[i]`, `v[a:b]`, `v.subview(a, n)`")


def _members(view: View) -> tuple[str, ...]:
    if is_matrix_field(view.base):
        return ("n", "m")
    return tuple(view.base.members) if is_struct_field(view.base) else ()


def element(t: Tracer, base: Static, indices: list[tuple[Operand, ast.expr]], node: ast.Subscript) -> Place:
    """The place of `v[i]`. Raises KernelTypeError for a constant index outside."""
    view, text = base.value, ast.unparse(node)
    if len(indices) != 1:
        raise mistyped(
            f"the view `{base.hint}` has 1 axis, but is indexed with {len(indices)}", f"write `{base.hint}[i]`", node
        )
    operand, at = indices[0]
    index: int | Value = _whole(t, operand, f"the index of `{text}`", at)
    size = size_of(t, view)
    known = integer(size)
    if isinstance(index, int) and known is not None and index >= known:
        raise mistyped(
            f"the index {index} is outside the view `{base.hint}`, which has {known} elements",
            f"use an index from 0 to {known - 1}" if known else "give the view elements",
            at,
        )
    message = f"the index of `{text}` is outside the view; loop over `range({base.hint}.size)`"
    _assert_order(t, 0, index, False, message)
    _assert_order(t, index, size, True, message)
    return element_of(t, view.base, view.hint or base.hint, (_element_number(t, view, index),), text)


def _element_number(t: Tracer, view: View, index: int | Value) -> Value:
    found = _combined(t, "add", first_of(t, view), index)
    return t.value(Static(found)) if isinstance(found, int) else found


def check_annotation(t: Tracer, wanted: ViewType, operand: Operand, where: str) -> None:
    """Raises KernelTypeError if an argument of a function is no view, or one of other elements, than annotated."""
    if not is_view(operand):
        raise mistyped(f"{where} is a view, not {describe(operand)}", "give `sg.BufferView(array, offset, size)`")
    kind, have = wanted.array.dtype, _element_kind(operand.value)
    if kind is not None and have != find_type(kind, t.options):
        raise mistyped(f"{where} is a view of {kind}, not of {have}", "annotate it with the type of the elements")


def _element_kind(view: View) -> object:
    if is_matrix_field(view.base):
        return view.base.element
    return view.base.type if is_struct_field(view.base) else view.dtype
