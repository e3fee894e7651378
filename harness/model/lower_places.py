"""Memory that programs assign: scalar locals, elements of arrays, one of several locals, tensors of these."""
from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir.nodes import Value
from ...compiler.ir.types import i32
from . import nodes as m
from .lowering import Cell, Local, Lowerer, Operand
from .tensors import Tensor

SWIZZLES = ("xyzw", "rgba", "stpq")


@dataclass(frozen=True)
class Spot:
    """An element of an array of scalars."""

    field: str
    indices: tuple[Value, ...]


@dataclass(frozen=True)
class Chosen:
    """One of several locals, by an index of the launch."""

    places: tuple[Local | Cell, ...]
    index: Value


Memory = Local | Cell | Spot | Chosen | Tensor


def memory(t: Lowerer, node: m.Expr) -> Memory:
    """What a place of the program means; its indices are evaluated here."""
    if isinstance(node, m.Name):
        return t.find(node.name)  # type: ignore[no-any-return]
    if isinstance(node, m.Element):
        return element(t, node)
    if isinstance(node, m.Part) and isinstance(node.base, m.Element):
        found = element(t, node.base)
        assert isinstance(found, Tensor)
        rank = len(t.fields[node.base.field].shape)
        return Spot(node.base.field, found.items[0].indices[:rank] + t.indices(node.indices))
    assert isinstance(node, (m.Part, m.Swizzle, m.Slice))
    base = memory(t, node.base)
    assert isinstance(base, Tensor)
    if not isinstance(node, m.Part):
        return picked(base, positions(node, base.shape))  # type: ignore[return-value]  # a tensor of places
    at = position(t, node.indices, base.shape)
    return base.items[at] if isinstance(at, int) else Chosen(base.items, at)


def element(t: Lowerer, node: m.Element) -> Spot | Tensor:
    """An element of a field; a tensor of the array's elements if the field holds vectors."""
    field, indices = t.fields[node.field], t.indices(node.indices)
    if not field.element:
        return Spot(node.field, indices)
    ranges = [(k,) for k in range(field.element[0])]
    if len(field.element) == 2:
        ranges = [(i, j) for (i,) in ranges for j in range(field.element[1])]  # type: ignore[misc]
    spots = (Spot(node.field, indices + tuple(t.builder.const(k, i32) for k in at)) for at in ranges)
    return Tensor(field.element, tuple(spots))


# ---- parts --------------------------------------------------------------------------------------------------------


def positions(node: m.Swizzle | m.Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The entries of a vector that letters or a slice mean."""
    if isinstance(node, m.Slice):
        return tuple(range(shape[0])[node.begin : node.end : node.step])
    alphabet = next(s for s in SWIZZLES if node.letters[0] in s)
    return tuple(alphabet.index(letter) for letter in node.letters)


def picked(base: Tensor, at: tuple[int, ...]) -> Memory | Operand:
    """Entries of a vector: one, or a vector again."""
    found = tuple(base.items[k] for k in at)
    return found[0] if len(found) == 1 else Tensor((len(found),), found)


def position(t: Lowerer, indices: tuple[m.Expr, ...], shape: tuple[int, ...]) -> int | Value:
    """Where an entry stands, row by row."""
    found = [t.expr(i) for i in indices]
    if not any(isinstance(i, Value) for i in found):
        return found[0] if len(shape) == 1 else found[0] * shape[1] + found[1]  # type: ignore[operator, return-value]
    if len(shape) == 1:
        return t.index(found[0])
    row, column = (t.value(i, i32) for i in found)
    b = t.builder
    return b.op("add", b.op("mul", row, b.const(shape[1], i32)), column)


def chosen(t: Lowerer, items: tuple[Operand, ...], index: int | Value) -> Operand:
    """items[index] of operands, by branches."""
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


def read(t: Lowerer, place: Memory) -> Operand:
    """The content of a place."""
    if isinstance(place, Tensor):
        return Tensor(place.shape, tuple(read(t, item) for item in place.items))
    if isinstance(place, Spot):
        return t.builder.load(place.field, place.indices, t.fields[place.field].dtype)
    if isinstance(place, Local):
        return t.builder.get(place.var, place.dtype)
    if isinstance(place, Cell):
        return place.read(t.builder)
    array = _whole_array(place)
    if array is not None:
        return _read_cell(t, array, place)
    return chosen(t, tuple(read(t, item) for item in place.places), place.index)


def write(t: Lowerer, place: Memory, operand: Operand) -> None:
    """Overwrite a place; one number fills a tensor."""
    if isinstance(place, Tensor):
        items = operand.items if isinstance(operand, Tensor) else (operand,) * len(place.items)
        for item, value in zip(place.items, items, strict=True):
            write(t, item, value)
    elif isinstance(place, Spot):
        t.builder.store(place.field, place.indices, t.value(operand, t.fields[place.field].dtype))
    elif isinstance(place, Local):
        t.builder.set(place.var, t.value(operand, place.dtype))
    elif isinstance(place, Cell):
        place.write(t.builder, t.value(operand, place.dtype))
    else:
        _write_chosen(t, place, t.value(operand, place.places[0].dtype))


def _write_chosen(t: Lowerer, place: Chosen, value: Value) -> None:
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


def _whole_array(place: Chosen) -> Cell | None:
    """The first entry, if the places are a whole local array in order."""
    first = place.places[0]
    if not isinstance(first, Cell):
        return None
    return first if place.places == tuple(Cell(first.var, first.dtype, k) for k in range(len(place.places))) else None


def _read_cell(t: Lowerer, first: Cell, place: Chosen) -> Value:
    """The element of a local array, the first if the index is outside."""
    b = t.builder
    index = b.op("select", _inside(t, place), place.index, b.const(0, place.index.type))
    return b.get_element(first.var, index, first.dtype)


def _inside(t: Lowerer, place: Chosen) -> Value:
    b, index = t.builder, place.index
    low = b.op("cmp_ge", index, b.const(0, index.type))
    return b.op("logical_and", low, b.op("cmp_lt", index, b.const(len(place.places), index.type)))


def in_array(place: Memory) -> bool:
    """Whether updates of a place are atomic."""
    return isinstance(place.items[0] if isinstance(place, Tensor) else place, Spot)


def update(t: Lowerer, op: str, place: Memory, operand: Operand) -> Operand:
    """The atomic on an element, of the element's type; gives the old value. Subtraction adds the negated value."""
    if isinstance(place, Tensor):
        items = operand.items if isinstance(operand, Tensor) else (operand,) * len(place.items)
        return Tensor(place.shape, tuple(update(t, op, p, o) for p, o in zip(place.items, items, strict=True)))
    assert isinstance(place, Spot)
    dtype = t.fields[place.field].dtype
    if op == "sub":
        negated = not isinstance(operand, (Value, bool, tuple))
        value = t.value(-operand, dtype) if negated else t.builder.op("neg", t.value(operand, dtype))  # type: ignore[operator]
        return t.builder.atomic("add", place.field, place.indices, value)
    return t.builder.atomic(op, place.field, place.indices, t.value(operand, dtype))
