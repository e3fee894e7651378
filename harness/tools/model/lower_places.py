"""Lower assignment targets to IR: locals, array elements, entries that an index selects, and aggregates of these."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....compiler.ir.statement import Value
from ....compiler.ir.texts import EXTENT, INDEX
from ....compiler.ir.types import i32
from . import nodes as m
from .lowering import LocalArraySlot, LocalSlot, Lowerer, ModelOperand
from .tensors import StructOperand, TensorOperand

SWIZZLES = ("xyzw", "rgba", "stpq")


@dataclass(frozen=True)
class ArrayElementSlot:
    """Represent an array element, by array name and index values, as the target of an assignment."""

    array: str
    indices: tuple[Value, ...]


@dataclass(frozen=True)
class SelectedSlot:
    """Represent an entry of a local vector, at an index that only a launch knows, as the target of an assignment."""

    places: tuple[LocalSlot | LocalArraySlot, ...]
    index: Value


PlaceOperand = LocalSlot | LocalArraySlot | ArrayElementSlot | SelectedSlot | TensorOperand | StructOperand


def lower_place(t: Lowerer, node: m.Expr) -> PlaceOperand:
    """Emit the indices of an assignment target, and return the operand for the memory location that it names."""
    if isinstance(node, m.Name):
        return t.find(node.name)  # type: ignore[no-any-return]
    if isinstance(node, m.Element):
        return element(t, node)
    assert isinstance(node, (m.Part, m.Swizzle, m.Slice, m.Member))
    base = lower_place(t, node.base)
    if isinstance(node, m.Member):
        assert isinstance(base, StructOperand)
        return base.items[node.name]  # type: ignore[no-any-return]
    assert isinstance(base, TensorOperand)
    if not isinstance(node, m.Part):
        # The result is a tensor of places, which the return type does not say.
        return pick_entries(base, positions(node, base.shape))  # type: ignore[return-value]
    if isinstance(node.base, (m.Element, m.Member)) and in_array(base):
        # The base of a part of an element has constant indices for its first entry; the indices of the part replace
        # them.
        first: ArrayElementSlot = base.items[0]
        return ArrayElementSlot(first.array, first.indices[: -len(base.shape)] + t.indices(node.indices))
    at = position(t, node.indices, base.shape)
    return base.items[at] if isinstance(at, int) else SelectedSlot(base.items, at)


# ---- arrays -------------------------------------------------------------------------------------------------------


def element(t: Lowerer, node: m.Element) -> PlaceOperand:
    """Emit the indices of an element of a field or view, and return the element as a place in the IR.

    The indices of a field begin at its offset; those of a view are moved by the argument that holds its first element.
    """
    field, indices = _array(t, node.field), t.indices(node.indices)
    if node.field in t.views:
        inside = (within(t, k, extent_of(t, node.field, 0)) for k in indices)
        indices = tuple(_moved(t, "add", k, t.builder.arg(f"{node.field}.offset", i32)) for k in inside)
    elif field.offset:
        firsts = (t.builder.const(first, i32) for first in field.offset)
        indices = tuple(_moved(t, "sub", k, first) for k, first in zip(indices, firsts, strict=True))
    if field.struct:
        return _structs(t, t.program.struct(field.struct), field.owner, indices)
    return _spots(t, field, indices)


def _array(t: Lowerer, name: str) -> m.Field:
    """Return the array that a name of the program refers to; for a field of structs, the array of one member."""
    return t.views[name][0] if name in t.views else t.roots[name]


def _moved(t: Lowerer, op: str, index: Value, by: Value) -> Value:
    return t.builder.op(op, index, t.builder.cast(by, index.type))


def _structs(t: Lowerer, kind: m.StructType, name: str, indices: tuple[Value, ...]) -> StructOperand:
    """Return an element of a field of structs as a struct of places, one in the array of each member."""
    items: dict[str, PlaceOperand] = {}
    for p in kind.members:
        inner = f"{name}.{p.name}"
        items[p.name] = (
            _structs(t, t.program.struct(p.struct), inner, indices) if p.struct else _spots(t, t.fields[inner], indices)
        )
    return StructOperand(kind.name, items)


def _spots(t: Lowerer, field: m.Field, indices: tuple[Value, ...]) -> ArrayElementSlot | TensorOperand:
    """Return the place of an array element, or, if it is a vector, a tensor of the places of its entries."""
    if not field.element:
        return ArrayElementSlot(field.name, indices)
    width = field.element[-1]
    places = [(k,) if len(field.element) == 1 else divmod(k, width) for k in range(math.prod(field.element))]
    return TensorOperand(
        field.element, tuple(ArrayElementSlot(field.name, indices + _constants(t, at)) for at in places)
    )


def _constants(t: Lowerer, numbers: tuple[int, ...]) -> tuple[Value, ...]:
    return tuple(t.builder.const(k, i32) for k in numbers)


def extent_of(t: Lowerer, name: str, axis: int) -> Value:
    """Return the extent of an axis of a field or view."""
    if name in t.views:
        return t.builder.arg(f"{name}.size", i32)
    return t.builder.shape(t.roots[name].name, axis)


def axes_of(t: Lowerer, name: str) -> list[tuple[Value, Value]]:
    """Return for each axis of a field or view the values of its first index and its end."""
    if name in t.views:
        return [(t.builder.const(0, i32), extent_of(t, name, 0))]
    field = t.roots[name]
    firsts = field.offset or (0,) * len(field.shape)
    return [(t.builder.const(k, i32), _end(t, name, axis, k)) for axis, k in enumerate(firsts)]


def _end(t: Lowerer, name: str, axis: int, first: int) -> Value:
    """Return the value of the end of an axis, which is its extent plus its first index."""
    extent = extent_of(t, name, axis)
    return extent if first == 0 else t.builder.op("add", extent, t.builder.const(first, i32))


# ---- parts --------------------------------------------------------------------------------------------------------


def positions(node: m.Swizzle | m.Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the positions of the vector entries that swizzle letters or a slice select."""
    if isinstance(node, m.Slice):
        return tuple(range(shape[0])[node.begin : node.end : node.step])
    alphabet = next(s for s in SWIZZLES if node.letters[0] in s)
    return tuple(alphabet.index(letter) for letter in node.letters)


def pick_entries(base: TensorOperand, at: tuple[int, ...]) -> PlaceOperand | ModelOperand:
    """Return the entries of a vector at the given positions: a single entry, or again a vector."""
    found = tuple(base.items[k] for k in at)
    return found[0] if len(found) == 1 else TensorOperand((len(found),), found)


def position(t: Lowerer, indices: tuple[m.Expr, ...], shape: tuple[int, ...]) -> int | Value:
    """Return the row-major position of an entry: an int if all indices are literals, else a value."""
    found = [t.expr(i) for i in indices]
    # An index that is a number of the text selects the entry at once.
    if not any(isinstance(i, Value) for i in found):
        return found[0] if len(shape) == 1 else found[0] * shape[1] + found[1]  # type: ignore[operator, return-value]
    if len(shape) == 1:
        return within(t, t.index(found[0]), t.builder.const(shape[0], i32))
    b = t.builder
    row, column = (
        within(t, i, b.const(extent, i32)) if isinstance(i, Value) else b.const(i, i32)  # type: ignore[arg-type]
        for i, extent in zip((t.value(i, i32) if isinstance(i, Value) else i for i in found), shape, strict=True)
    )
    return b.op("add", b.op("mul", row, b.const(shape[1], i32)), column)


def within(t: Lowerer, index: Value, extent: Value) -> Value:
    """Emit a check that an index lies in 0 .. extent - 1, which traps otherwise. Return the index."""
    return t.builder.within(index, extent, f"index {INDEX} is outside 0 to {EXTENT}")


def select_item(t: Lowerer, items: tuple[ModelOperand, ...], index: int | Value) -> ModelOperand:
    """Return items[index]. If the index is known only at launch, emit branches that select the item."""
    if isinstance(index, int):
        return items[index]
    b = t.builder
    first = t.value(items[0])
    found = b.local(t.unique("entry"), first.type, first)
    for k, item in enumerate(items[1:], 1):
        with b.block() as body:
            b.set(found, t.value(item, first.type))
        b.if_(b.op("cmp_eq", index, b.const(k, index.type)), body)
    return b.get(found, first.type)


# ---- reading and writing ------------------------------------------------------------------------------------------


def read(t: Lowerer, place: PlaceOperand) -> ModelOperand:
    """Emit a read of a place and return the value."""
    if isinstance(place, TensorOperand):
        return TensorOperand(place.shape, tuple(read(t, item) for item in place.items))
    if isinstance(place, StructOperand):
        return StructOperand(place.struct, {name: read(t, item) for name, item in place.items.items()})
    if isinstance(place, ArrayElementSlot):
        return t.builder.load(place.array, place.indices, t.fields[place.array].dtype)
    if isinstance(place, LocalSlot):
        return t.builder.get(place.var, place.dtype)
    if isinstance(place, LocalArraySlot):
        return place.read(t.builder)
    array = _whole_array(place)
    if array is not None:
        return _read_cell(t, array, place)
    return select_item(t, tuple(read(t, item) for item in place.places), place.index)


def write(t: Lowerer, place: PlaceOperand, operand: ModelOperand) -> None:
    """Emit a write to a place; one number fills a whole tensor."""
    if isinstance(place, TensorOperand):
        items = operand.items if isinstance(operand, TensorOperand) else (operand,) * len(place.items)
        for item, value in zip(place.items, items, strict=True):
            write(t, item, value)
    elif isinstance(place, StructOperand):
        assert isinstance(operand, StructOperand)
        for name, item in place.items.items():
            write(t, item, operand.items[name])
    elif isinstance(place, ArrayElementSlot):
        t.builder.store(place.array, place.indices, t.value(operand, t.fields[place.array].dtype))
    elif isinstance(place, LocalSlot):
        t.builder.set(place.var, t.value(operand, place.dtype))
    elif isinstance(place, LocalArraySlot):
        place.write(t.builder, t.value(operand, place.dtype))
    else:
        _write_chosen(t, place, t.value(operand, place.places[0].dtype))


def _write_chosen(t: Lowerer, place: SelectedSlot, value: Value) -> None:
    """Emit a write to the entry that an index selects; an index out of range writes nothing."""
    b, array = t.builder, _whole_array(place)
    if array is not None:
        inside = _inside(t, place)
        with b.block() as body:
            b.set_element(array.var, place.index, value)
        b.if_(inside, body)
        return
    for k, local in enumerate(place.places):
        with b.block() as body:
            write(t, local, value)
        b.if_(b.op("cmp_eq", place.index, b.const(k, place.index.type)), body)


def _whole_array(place: SelectedSlot) -> LocalArraySlot | None:
    """Return the place of entry 0 if `place` selects among all entries of one local array in order, else None."""
    first = place.places[0]
    if not isinstance(first, LocalArraySlot):
        return None
    return (
        first
        if place.places == tuple(LocalArraySlot(first.var, first.dtype, k) for k in range(len(place.places)))
        else None
    )


def _read_cell(t: Lowerer, first: LocalArraySlot, place: SelectedSlot) -> Value:
    """Emit a read of a local array at an index, or at 0 if the index is out of range, and return the value."""
    b = t.builder
    index = b.op("select", _inside(t, place), place.index, b.const(0, place.index.type))
    return b.get_element(first.var, index, first.dtype)


def _inside(t: Lowerer, place: SelectedSlot) -> Value:
    """Emit the condition that the index of a selected entry is in range. Return the condition."""
    b, index = t.builder, place.index
    low = b.op("cmp_ge", index, b.const(0, index.type))
    return b.op("logical_and", low, b.op("cmp_lt", index, b.const(len(place.places), index.type)))


def in_array(place: PlaceOperand) -> bool:
    """Return True if a place lies in an array, so that updates of it must be atomic."""
    return isinstance(place.items[0] if isinstance(place, TensorOperand) else place, ArrayElementSlot)


def update(t: Lowerer, op: str, place: PlaceOperand, operand: ModelOperand) -> ModelOperand:
    """Emit an atomic update of an array element or of a tensor of elements. Return the old value.

    A subtraction becomes an addition of the negated value.

    Args:
        t: The lowering of the program, which emits the statements.
        op: Name of the atomic.
        place: An element, or a tensor of elements.
        operand: The operand of the atomic; one number serves a whole tensor.
    """
    if isinstance(place, TensorOperand):
        items = operand.items if isinstance(operand, TensorOperand) else (operand,) * len(place.items)
        return TensorOperand(place.shape, tuple(update(t, op, p, o) for p, o in zip(place.items, items, strict=True)))
    assert isinstance(place, ArrayElementSlot)
    dtype = t.fields[place.array].dtype
    if op == "sub":
        negated = not isinstance(operand, (Value, bool, tuple))
        value = t.value(-operand, dtype) if negated else t.builder.op("neg", t.value(operand, dtype))  # type: ignore[operator]
        return t.builder.atomic("add", place.array, place.indices, value)
    return t.builder.atomic(op, place.array, place.indices, t.value(operand, dtype))
