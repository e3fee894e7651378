"""This module traces reads of attributes and elements: `x.grad`, `x[i]`, `v.xy`, `M[i, :]`, `s[i].pos[k]`.

Invariant: an expression that names memory becomes a place first and is loaded last. A read of one entry of a vector in
a field therefore loads only that entry, and a store finds the same place as a load.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from ..ir.statement import Value
from . import constructors, matrices, structs, views
from .aggregates import MatrixType, PackType, StructType, adjoint_element
from .context import EXPRESSIONS, Tracer
from .conversions import as_matrix, captured_operand
from .diagnostics import PoisonError, ProblemError, index_problem, suggestion, syntax_problem, type_problem
from .fills import fill_method
from .inline import inline
from .members import LaunchValue, MembersStandIn
from .memory import (
    PLACES,
    REFERENCES,
    Place,
    element_of,
    kind_at,
    load,
    member,
    resolve,
    selected_place,
    sequence_places,
    text_at,
)
from .operands import (
    UNKNOWN,
    MatrixValue,
    Operand,
    Pack,
    ShapeOf,
    Static,
    StructValue,
    describe,
    integer_of,
    known_object,
    static_operand,
)
from .protocols import AnyField, index_text, is_any_field, is_field, is_matrix_field, is_struct_field, offset_of
from .reads import attribute_read, failed_reads, item_read
from .scope import CompoundVariable
from .selections import IndexSelection, select, select_entries, swizzle
from .shared_memory import SharedMemory, shared_element
from .source import MISSING


def content(t: Tracer, found: Place | Operand) -> Operand:
    """Return an operand unchanged, or the value that is loaded from a place."""
    return load(t, found) if isinstance(found, PLACES) else found


@EXPRESSIONS.row(ast.Attribute)
def _attribute(t: Tracer, node: ast.Attribute) -> Operand:
    return content(t, resolve(t, node))


@EXPRESSIONS.row(ast.Subscript)
def _subscript(t: Tracer, node: ast.Subscript) -> Operand:
    return content(t, resolve(t, node))


# ---- attributes -----------------------------------------------------------------------------------------------------


def refer_attribute(t: Tracer, node: ast.Attribute) -> Place | Operand:
    """Return the place or operand that an attribute expression `base.name` denotes."""
    base = resolve(t, node.value)
    kind = kind_at(base) if isinstance(base, PLACES) else None
    if isinstance(base, MatrixValue):
        return _matrix_attribute(t, base, base.shape, node.attr)
    if isinstance(base, StructValue):
        return _struct_attribute(t, base, base.type, node.attr)
    if isinstance(kind, MatrixType):
        return _matrix_attribute(t, base, kind.shape, node.attr)
    if isinstance(kind, StructType):
        return _struct_attribute(t, base, kind, node.attr)
    if not isinstance(base, Static):
        base = content(t, base)
        if node.attr == "cast":
            return matrices.cast_method(base)
        raise type_problem(f"{describe(base)} has no attribute `{node.attr}`", "use numbers and elements of fields")
    if is_any_field(base.value):
        return _field_attribute(t, base.value, base.hint, node.attr)
    if views.is_view(base):
        return views.attribute(t, base, node.attr, _field_attribute)
    return _object_attribute(t, base, node)


def _object_attribute(t: Tracer, base: Static, node: ast.Attribute) -> Place | Operand:
    """Return the attribute of an object known at compile time, and record that it was read."""
    made = constructors.attribute(t, base, node.attr)
    if made is not None:
        return made
    getter = structs.property_of(base.value, node.attr)
    if getter is not None:
        return inline(t, getter, ast.copy_location(ast.Call(node, [], []), node), base)
    found = _member(base.value, node.attr)
    t.reads += attribute_read(base.value, node.attr, found)
    if isinstance(found, LaunchValue):
        assert found.place is not None
        return found.place
    if found is MISSING:
        raise syntax_problem(
            f"{describe(base)} has no attribute `{node.attr}`",
            suggestion(node.attr, dir(base.value)) or "check its name",
        )
    hint = node.attr if describe(base).startswith("the module") else f"{base.hint}_{node.attr}"
    return captured_operand(t, static_operand(found, hint))


def _member(owner: Any, name: str) -> Any:
    """Return an attribute of an object known at compile time, or MISSING if the object lacks the attribute."""
    try:
        return owner.find(name) if isinstance(owner, MembersStandIn) else getattr(owner, name, MISSING)
    except AttributeError:
        return MISSING


def _matrix_attribute(t: Tracer, base: Place | Operand, shape: tuple[int, ...], name: str) -> Place | Operand:
    selection = swizzle(shape, name)
    if selection is not None:
        return _part(t, base, selection)
    return matrices.attribute(t, base, shape, name)


def _struct_attribute(t: Tracer, base: Place | Operand, kind: StructType, name: str) -> Place | Operand:
    if name in kind.names:
        return base.members[name] if isinstance(base, StructValue) else member(t, base, name)  # type: ignore[arg-type]
    return structs.method(t, base, kind, name)


def _part(t: Tracer, base: Place | Operand, selection: IndexSelection) -> Place | Operand:
    if isinstance(base, MatrixValue):
        return select_entries(t, base, selection)
    assert isinstance(base, PLACES)
    return selected_place(t, base, selection)


# ---- attributes of fields -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gradient:
    """A `_Gradient` is the gradient of a field of vectors or structs, made of the gradients of its arrays."""

    owner: Any
    shape: tuple[int, ...]
    offset: tuple[int, ...] = ()
    needs_grad: bool = False
    grad: None = None


@dataclass(frozen=True)
class _MatrixGradient(_Gradient):
    element: Any = None
    storage: Any = None
    element_first: bool = False
    is_stackgrad_matrix_field: bool = True


@dataclass(frozen=True)
class _StructGradient(_Gradient):
    type: Any = None
    members: Any = None
    is_stackgrad_struct_field: bool = True


def _gradient(t: Tracer, field: AnyField, hint: str) -> Any:
    """Return the gradient of a field as a field, or None if the field has none.

    The gradient consists of the gradients of the field's scalar arrays, so that each of them has one name in the IR.
    """
    if is_field(field):
        return t.captures.gradient(field, hint)
    if is_matrix_field(field):
        storage = t.captures.gradient(field.storage, hint)
        if storage is None:
            return None
        element = adjoint_element(field.element)
        return _MatrixGradient(
            field, field.shape, offset_of(field), element=element, storage=storage, element_first=field.element_first
        )
    assert is_struct_field(field)
    found = {name: _gradient(t, inner, f"{hint}.{name}") for name, inner in field.members.items()}
    found = {name: inner for name, inner in found.items() if inner is not None}
    # Members without a gradient are missing from the gradient struct.
    kept = tuple((name, kind) for name, kind in field.type.members if name in found)
    return (
        _StructGradient(
            field, field.shape, offset_of(field), members=found, type=adjoint_element(replace(field.type, members=kept))
        )
        if found
        else None
    )


def _field_attribute(t: Tracer, field: AnyField, hint: str, name: str) -> Operand:
    """Return the operand for an attribute of a field, such as `x.shape` or `x.grad`."""
    if name == "shape":
        return Static(ShapeOf(field, hint), hint + ".shape")
    if name == "grad":
        gradient = _gradient(t, field, hint)
        if gradient is None:
            raise type_problem(f"the field `{hint}` has no gradient", f"create `{hint}` with `needs_grad=True`")
        return Static(gradient, hint + ".grad")
    if name == "dtype" and is_field(field):
        return Static(field.dtype, hint + ".dtype")
    if name == "dtype" and is_matrix_field(field):
        return Static(field.element.dtype, hint + ".dtype")
    if name in ("n", "m") and is_matrix_field(field):
        shape = (*field.element.shape, 1)
        return Static(shape[0 if name == "n" else 1])
    if is_struct_field(field) and name in field.members:
        return Static(field.members[name], f"{hint}.{name}")
    if name == "fill":
        return fill_method(field, hint)
    raise syntax_problem(
        f"`{hint}.{name}` cannot be used in a kernel", "use elements, `.shape`, `.dtype`, `.grad` or `.fill`"
    )


# ---- elements -------------------------------------------------------------------------------------------------------


def refer_subscript(t: Tracer, node: ast.Subscript) -> Place | Operand:
    """Return the place or operand that a subscript expression `base[index]` denotes."""
    base = resolve(t, node.value)
    if isinstance(base, Static) and is_any_field(base.value):
        indices = indices_of(t, base.value, base.hint, node)
        return element_of(t, base.value, base.hint, indices, ast.unparse(node))
    if isinstance(base, Static) and isinstance(base.value, SharedMemory):
        return shared_element(t, base.value, _index_parts(t, node.slice), node)
    if views.is_view(base):
        if isinstance(node.slice, ast.Slice):
            return views.slice_of(t, base, node, node.slice)
        return views.element(t, base, _index_parts(t, node.slice), node)
    if isinstance(base, MatrixValue):
        return select_entries(t, base, select(t, base.shape, node.slice, f"`{ast.unparse(node.value)}`", True))
    if isinstance(base, PLACES):
        kind = kind_at(base)
        if isinstance(kind, MatrixType):
            checked = isinstance(base, CompoundVariable)
            return selected_place(t, base, select(t, kind.shape, node.slice, f"`{text_at(base)}`", checked))
        if isinstance(kind, PackType) and not isinstance(node.slice, ast.Slice):
            return _refer_item(t, base, node)
        base = content(t, base)
    return _static_item(t, base, node)


def _refer_item(t: Tracer, base: Place, node: ast.Subscript) -> Place | Operand:
    """Return the place of an item of a local sequence, or the loaded item if the index is not known at compile time."""
    places, index = sequence_places(base), t.clean(node.slice)
    found = integer_of(index)
    if found is None:
        return _chosen_item(t, content(t, base), index, node)
    if not 0 <= found < len(places):
        raise index_problem(
            f"the index {found} is outside of a sequence of {len(places)}",
            f"use an index from 0 to {len(places) - 1}",
            node.slice,
        )
    return places[found]


def indices_of(t: Tracer, field: AnyField, hint: str, node: ast.Subscript) -> tuple[Value, ...]:
    """Return the index values of a field element in a subscript expression.

    Args:
        t: the tracer.
        field: the field.
        hint: name of the field in the program.
        node: expression with the indices.

    Raises:
        ProblemError: the number of indices is wrong.
    """
    rank = len(field.shape)
    found = _index_parts(t, node.slice)
    if len(found) != rank:
        cure = f"write `{hint}[{index_text(field)}]`"
        if is_matrix_field(field) and len(found) == rank + len(field.element.shape):
            cure += ", and the entry after it, as in `[i][k]`"
        raise index_problem(
            f"`{hint}` has {rank} {'axis' if rank == 1 else 'axes'}, but is indexed with {len(found)}", cure, node
        )
    return tuple(_index(t, operand, at, first) for (operand, at), first in zip(found, offset_of(field)))


def _index(t: Tracer, operand: Operand, node: ast.expr, first: int) -> Value:
    """Return an index minus `first`, which is the first index of the axis, so that the result counts from 0."""
    try:
        if not first:
            return t.index(operand)
        constant = integer_of(operand)
        if constant is None:
            index = t.index(operand)
            return t.builder.op("sub", index, t.builder.const(first, index.type))
        if constant < first:
            raise index_problem(f"the index {constant} is below {first}, the first index of this axis", "correct it")
        return t.index(Static(constant - first))
    except ProblemError as problem:
        problem.node = problem.node or node
        raise


def _index_parts(t: Tracer, node: ast.expr) -> list[tuple[Operand, ast.expr]]:
    """Return the indices of a subscript one by one; an index vector contributes its entries, a sole `None` no index."""
    found: list[tuple[Operand, ast.expr]] = []
    for written in node.elts if isinstance(node, ast.Tuple) else [node]:
        operand = t.clean(written)
        # `x[None]` indexes a 0-d field.
        if isinstance(operand, Static) and operand.value is None and written is node:
            return []
        items = t.items(operand)
        found.extend((item, written) for item in ((operand,) if items is None else items))
    return found


def _static_item(t: Tracer, base: Operand, node: ast.Subscript) -> Operand:
    """Return an item of a sequence known at compile time. If the index is a run-time value, emit a selection."""
    if isinstance(base, (Value, StructValue)):
        cure = "index a field, a vector or a sequence"
        raise type_problem(f"{'a number' if isinstance(base, Value) else describe(base)} cannot be indexed", cure)
    index = t.clean(node.slice) if not isinstance(node.slice, ast.Slice) else Static(_static_slice(t, node.slice))
    key = known_object(index)
    if key is UNKNOWN:
        return _chosen_item(t, base, index, node)
    try:
        if isinstance(base, Pack):
            found = base.items[key if isinstance(key, slice) else int(key)]
            return Pack(found) if isinstance(found, tuple) else found
        assert isinstance(base, Static)
        if isinstance(base.value, ShapeOf):
            return t.extent(base.value, range(len(base.value.field.shape))[key])
        item = base.value[key]
        t.reads += item_read(base.value, key, item)
        return captured_operand(t, static_operand(item, f"{base.hint}_{key}"))
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        if isinstance(base, Static):
            t.reads += failed_reads(base.value, "[]")
        problem = index_problem if isinstance(error, IndexError) else type_problem
        raise problem(f"{describe(base)} cannot be indexed so: {error}", "index a field or a sequence") from None


def _static_slice(t: Tracer, node: ast.Slice) -> slice:
    ends = [None if end is None else known_object(t.clean(end)) for end in (node.lower, node.upper, node.step)]
    if UNKNOWN in ends:
        raise type_problem("the bounds of a slice are known at compile time", "use constants", node)
    return slice(*ends)


def _chosen_item(t: Tracer, base: Operand, index: Operand, node: ast.Subscript) -> Operand:
    """Return sequence[index] for an index that is not known at compile time; the items must be numbers."""
    problem = type_problem(
        f"{describe(base)} is indexed with a value that is not known at compile time",
        "loop with `for i in sg.static(range(n))`, or copy it into a field",
    )
    if isinstance(base, Static) and isinstance(base.value, ShapeOf):
        base = Pack(t.items(base) or ())
    try:
        matrix = None if isinstance(base, Static) and not isinstance(base.value, (tuple, list)) else as_matrix(t, base)
    except (ProblemError, PoisonError):
        raise problem from None
    if matrix is None:
        raise problem
    return select_entries(t, matrix, select(t, matrix.shape, node.slice, f"`{ast.unparse(node.value)}`", True))


REFERENCES[ast.Attribute] = refer_attribute
REFERENCES[ast.Subscript] = refer_subscript
