"""This module defines places: memory locations that a kernel reads and writes, from a local to a struct in a field.

A place is a tree like the value that it holds. It consists of scalar locals and elements of arrays, which are loaded
and stored one by one. An entry that only the launch knows is a `SelectedPlace`: a read selects among all candidates,
and a write gives each candidate its old or the new value, so that both are differentiable without a rule of their own.
In arrays such an entry is a plain index instead.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..ir.statement import Value
from ..ir.types import Scalar, i32
from .aggregates import LocalType, MatrixType, PackType, StructType
from .context import Tracer
from .conversions import conform, kind_of
from .diagnostics import ProblemError, syntax_problem
from .local_arrays import LocalArrayPlace, choose_item, declare_array, read_item, wants_array, write_item
from .operands import MatrixValue, Operand, Pack, StructValue
from .outer_names import local_hint
from .protocols import AnyField, MatrixFieldLike, StructFieldLike, is_field, is_matrix_field
from .scope import ArgumentVariable, CompoundVariable, LocalVariable, ReferenceName
from .selections import IndexSelection, Position, candidates_of, choose
from .shared_memory import SharedPlace


@dataclass(frozen=True)
class ElementPlace:
    """An `ElementPlace` is the memory location of one scalar element of an array.

    Attributes:
        array: name of the array in the IR.
        dtype: type of the element.
        indices: evaluated indices.
        text: text of the expression in the program.
    """

    array: str
    dtype: Scalar
    indices: tuple[Value, ...]
    text: str


@dataclass(frozen=True)
class MatrixPlace:
    """A `MatrixPlace` is the memory location of one vector or matrix in a field."""

    field: MatrixFieldLike
    hint: str
    indices: tuple[Value, ...]
    text: str


@dataclass(frozen=True)
class StructPlace:
    """A `StructPlace` is the memory location of one struct in a field."""

    field: StructFieldLike
    hint: str
    indices: tuple[Value, ...]
    text: str


@dataclass(frozen=True)
class SelectedPlace:
    """A `SelectedPlace` is one of several scalar memory locations, selected by an index known at run time only."""

    candidates: tuple[Any, ...]
    index: Value


Place = (
    LocalVariable
    | ArgumentVariable
    | LocalArrayPlace
    | CompoundVariable
    | ElementPlace
    | SharedPlace
    | MatrixPlace
    | StructPlace
    | SelectedPlace
)
PLACES = (
    LocalVariable,
    ArgumentVariable,
    LocalArrayPlace,
    CompoundVariable,
    ElementPlace,
    SharedPlace,
    MatrixPlace,
    StructPlace,
    SelectedPlace,
)


def element_of(t: Tracer, field: AnyField, hint: str, indices: tuple[Value, ...], text: str) -> Place:
    """Return the place of an element of a field.

    Args:
        t: the tracer.
        field: the field.
        hint: name of the field in the program.
        indices: evaluated indices.
        text: text of the expression in the program.
    """
    if is_field(field):
        return ElementPlace(t.captures.array(field, hint), field.dtype, indices, text)
    if is_matrix_field(field):
        return MatrixPlace(field, hint, indices, text)
    return StructPlace(field, hint, indices, text)  # type: ignore[arg-type]


# ---- from expressions ---------------------------------------------------------------------------------------------

REFERENCES: dict[type[ast.expr], Callable[[Tracer, Any], Place | Operand]] = {}
"""Expressions of these classes name a part of something; `references` adds a row for each."""


def resolve(t: Tracer, node: ast.expr) -> Place | Operand:
    """Return the memory location that an expression names, or the value of the expression if it names none."""
    if isinstance(node, ast.Name):
        binding = t.scopes.find(node.id)
        if isinstance(binding, ReferenceName):
            return binding.place  # type: ignore[no-any-return]
        return binding if isinstance(binding, PLACES) else t.clean(node)
    row = REFERENCES.get(type(node))
    if row is None:
        return t.clean(node)
    outer, t.builder.loc = t.builder.loc, t.locate(node)
    try:
        return row(t, node)
    except ProblemError as problem:
        problem.node = problem.node or node
        raise
    finally:
        t.builder.loc = outer


# ---- what a place is ----------------------------------------------------------------------------------------------


def kind_at(place: Place) -> LocalType:
    """Return the type of the value that a place holds."""
    if isinstance(place, CompoundVariable):
        return place.kind
    if isinstance(place, MatrixPlace):
        return place.field.element
    if isinstance(place, StructPlace):
        return place.field.type
    if isinstance(place, SelectedPlace):
        return kind_at(place.candidates[0])
    return place.dtype


def text_at(place: Place) -> str:
    """Return the source text of a place for messages, such as a variable name."""
    if isinstance(place, (ElementPlace, SharedPlace, MatrixPlace, StructPlace)):
        return place.text
    if isinstance(place, (LocalVariable, ArgumentVariable, LocalArrayPlace)):
        return place.name.partition(".")[0]
    if isinstance(place, SelectedPlace):
        return text_at(place.candidates[0])
    return text_at(place.parts[0])


def in_array(place: Place) -> bool:
    """Return True if a place lies in a field, so that an update of the place is atomic."""
    if isinstance(place, CompoundVariable):
        return any(in_array(part) for part in place.parts)
    return isinstance(place, (ElementPlace, SharedPlace, MatrixPlace, StructPlace))


def is_argument(place: Place) -> bool:
    """Return True if a place belongs to an argument of the kernel, which cannot be assigned."""
    if isinstance(place, CompoundVariable):
        return any(is_argument(part) for part in place.parts)
    return isinstance(place, ArgumentVariable)


# ---- parts ----------------------------------------------------------------------------------------------------------


def entries(t: Tracer, place: Place) -> tuple[Place, ...]:
    """Return the scalar places of a vector or matrix, row by row."""
    if isinstance(place, MatrixPlace):
        shape = place.field.element.shape
        points = (
            [(i,) for i in range(shape[0])]
            if len(shape) == 1
            else [(i, j) for i in range(shape[0]) for j in range(shape[1])]
        )
        return tuple(_array_element(t, place, point) for point in points)
    assert isinstance(place, CompoundVariable)
    return place.parts


def members(t: Tracer, place: Place) -> dict[str, Place]:
    """Return the places of a struct's members by name."""
    kind = kind_at(place)
    assert isinstance(kind, StructType)
    return {name: member(t, place, name) for name in kind.names}


def member(t: Tracer, place: Place, name: str) -> Place:
    """Return the place of one member of a struct."""
    if isinstance(place, StructPlace):
        inner = place.field.members[name]
        return element_of(t, inner, f"{place.hint}.{name}", place.indices, f"{place.text}.{name}")
    assert isinstance(place, CompoundVariable) and isinstance(place.kind, StructType)
    return place.parts[place.kind.names.index(name)]  # type: ignore[no-any-return]


def sequence_places(place: Place) -> tuple[Place, ...]:
    """Return the places of the items of a sequence."""
    assert isinstance(place, CompoundVariable)
    return place.parts


def selected_place(t: Tracer, place: Place, selection: IndexSelection) -> Place:
    """Return the place of the selected entries of a vector or matrix: a scalar place, or a smaller vector or matrix."""
    kind = kind_at(place)
    assert isinstance(kind, MatrixType)
    found = tuple(_entry(t, place, kind, point) for point in selection.points)
    return found[0] if selection.shape == () else CompoundVariable(MatrixType(selection.shape, kind.dtype), found)


def _entry(t: Tracer, place: Place, kind: MatrixType, point: tuple[Position, ...]) -> Place:
    if isinstance(place, MatrixPlace):
        return _array_element(t, place, point)
    assert isinstance(place, CompoundVariable)
    candidates, index = candidates_of(t, kind.shape, point)
    places: tuple[Place, ...] = tuple(place.parts[c] for c in candidates)
    if index is None:
        return places[0]
    # Entries of a local array, or elements of one array, stay one access with a computed index.
    items = [p for p in places if isinstance(p, LocalArrayPlace)]
    chosen = choose_item(items, index) if len(items) == len(places) else None
    if chosen is not None:
        return chosen
    elements = tuple(p for p in places if isinstance(p, ElementPlace))
    return _chosen_element(t, elements, index) if len(elements) == len(places) else SelectedPlace(places, index)


def _chosen_element(t: Tracer, places: tuple[ElementPlace, ...], index: Value) -> ElementPlace:
    """Return one `ElementPlace` for several elements of one array; its indices are selected at run time by `index`.

    Updates of the place stay atomic.
    """
    first = places[0]
    columns = list(zip(*(place.indices for place in places)))
    indices = tuple(c[0] if len(set(c)) == 1 else choose(t, c, index) for c in columns)
    return ElementPlace(first.array, first.dtype, indices, first.text)


def _array_element(t: Tracer, place: MatrixPlace, point: tuple[Position, ...]) -> ElementPlace:
    """Return the element of a field's scalar array that holds one entry of a vector or matrix of the field."""
    array = t.captures.array(place.field.storage, place.hint)
    inner = tuple(p if isinstance(p, Value) else t.builder.const(p, i32) for p in point)
    indices = inner + place.indices if place.field.element_first else place.indices + inner
    text = ", ".join(str(p) if isinstance(p, int) else "..." for p in point)
    return ElementPlace(array, place.field.element.dtype, indices, f"{place.text}[{text}]")


# ---- reading and writing ------------------------------------------------------------------------------------------


def load(t: Tracer, place: Place) -> Operand:
    """Emit loads of the value that a place holds, and return the value."""
    if isinstance(place, LocalVariable):
        return t.builder.get(place.name, place.dtype)
    if isinstance(place, ArgumentVariable):
        return t.builder.arg(place.name, place.dtype)
    if isinstance(place, LocalArrayPlace):
        return read_item(t, place)
    if isinstance(place, ElementPlace):
        found = t.builder.load(place.array, place.indices, place.dtype)
        # A `bit_cast` to its own type ends the derivative of a load under `stop_grad`.
        stopped = place.dtype.is_real and any(place.array in a.stopped for a in t.activations)
        return t.builder.bit_cast(found, found.type) if stopped else found
    if isinstance(place, SharedPlace):
        return t.builder.get_element(place.name, place.index, place.dtype)
    if isinstance(place, SelectedPlace):
        return choose(t, [load(t, candidate) for candidate in place.candidates], place.index)
    kind = kind_at(place)
    if isinstance(kind, MatrixType):
        return MatrixValue(kind.shape, tuple(load(t, entry) for entry in entries(t, place)))
    if isinstance(kind, PackType):
        return Pack(tuple(load(t, inner) for inner in sequence_places(place)))
    assert isinstance(kind, StructType)
    return StructValue(kind, {name: load(t, inner) for name, inner in members(t, place).items()})


def store(t: Tracer, place: Place, operand: Operand) -> None:
    """Convert an operand to the type of a place and emit stores that overwrite the place.

    Raises:
        ProblemError: the shapes differ.
    """
    _store(t, place, conform(t, operand, kind_at(place), f"`{text_at(place)}`"))


def _store(t: Tracer, place: Place, operand: Operand) -> None:
    """Emit stores that overwrite a place with an operand, which must have the type of the place already."""
    if isinstance(operand, MatrixValue):
        for entry, item in zip(entries(t, place), operand.items):
            _store(t, entry, item)
    elif isinstance(operand, StructValue):
        for name, item in operand.members.items():
            _store(t, member(t, place, name), item)
    elif isinstance(operand, Pack):
        for inner, item in zip(sequence_places(place), operand.items):
            _store(t, inner, item)
    else:
        _store_scalar(t, place, t.value(operand))


def _store_scalar(t: Tracer, place: Place, value: Value) -> None:
    if isinstance(place, LocalVariable):
        t.builder.set(place.name, value)
    elif isinstance(place, LocalArrayPlace):
        write_item(t, place, value)
    elif isinstance(place, SharedPlace):
        t.builder.set_element(place.name, place.index, value)
    elif isinstance(place, ElementPlace):
        t.builder.store(place.array, place.indices, value)
    elif isinstance(place, SelectedPlace):
        for k, candidate in enumerate(place.candidates):
            # Every candidate is stored: the chosen one gets the value, each other one its old content.
            here = t.builder.op("cmp_eq", place.index, t.builder.const(k, place.index.type))
            _store_scalar(t, candidate, t.builder.op("select", here, value, t.value(load(t, candidate))))
    else:
        raise syntax_problem(
            f"`{text_at(place)}` is an argument of the kernel and cannot be assigned", "copy it to a new local first"
        )


# ---- locals -------------------------------------------------------------------------------------------------------


def declare(t: Tracer, name: str, operand: Operand) -> LocalVariable | CompoundVariable:
    """Declare a local that holds the operand and has its type: `v`, or `v.0`, `v.1`, ... for a vector."""
    kind, own = kind_of(t, operand), t.namer.unique(local_hint(t, name))
    if isinstance(operand, MatrixValue) and isinstance(kind, MatrixType) and wants_array(t, name, kind):
        return CompoundVariable(kind, declare_array(t, own, kind, [t.value(i) for i in operand.items]))
    return _declare(t, own, operand, kind)


def _declare(t: Tracer, name: str, operand: Operand, kind: LocalType) -> LocalVariable | CompoundVariable:
    if isinstance(operand, MatrixValue) and isinstance(kind, MatrixType):
        parts = tuple(
            _declare(t, t.namer.unique(f"{name}.{suffix}"), item, kind.dtype)
            for suffix, item in zip(_suffixes(kind.shape), operand.items)
        )
        return CompoundVariable(kind, parts)
    if isinstance(operand, Pack) and isinstance(kind, PackType):
        return CompoundVariable(
            kind,
            tuple(
                _declare(t, t.namer.unique(f"{name}.{k}"), item, inner)
                for k, (item, inner) in enumerate(zip(operand.items, kind.items))
            ),
        )
    if isinstance(operand, StructValue) and isinstance(kind, StructType):
        return CompoundVariable(
            kind,
            tuple(
                _declare(t, t.namer.unique(f"{name}.{member}"), operand.members[member], inner)
                for member, inner in kind.members
            ),
        )
    value = t.value(operand)
    return LocalVariable(t.builder.local(name, value.type, value), value.type)


def _suffixes(shape: tuple[int, ...]) -> list[str]:
    if len(shape) == 1:
        return [str(i) for i in range(shape[0])]
    return [f"{i}.{j}" for i in range(shape[0]) for j in range(shape[1])]
