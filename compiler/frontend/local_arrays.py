"""Local vectors and matrices that are indexed at launch: an array of the IR instead of a scalar local for each entry.

    w = sg.Vector([...16 numbers...])          local_array w: f32[17]
    w[j] = x                                   set_element w[j if 0 <= j < 16 else 16], x

An index known at launch only picks among scalar locals by one select for each entry; beyond FEW of them memory is
cheaper. An index outside means the same in both: a read gives the first candidate, a write changes nothing. So the
array has one element more, which takes such writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Value
from ..ir.types import Scalar, i64, u32, u64
from .aggregates import MatrixType
from .context import Tracer

FEW = 8
"""Entries up to which selects are taken."""


@dataclass(frozen=True)
class Item:
    """An entry of a local array; `index` is a number, or one of `count` candidates, `first`, `first + stride`, ..."""

    name: str
    dtype: Scalar
    size: int
    index: int
    stride: int = 0
    count: int = 1
    choice: Value | None = None


def wants_array(t: Tracer, name: str, kind: MatrixType) -> bool:
    """Whether a new local of the function is better an array. Names of the kernel's own level may cross tasks."""
    size = kind.shape[0] * (kind.shape[1] if len(kind.shape) == 2 else 1)
    return size > FEW and t.nesting > 0 and name in t.active.indexed


def declare_array(t: Tracer, name: str, kind: MatrixType, values: list[Value]) -> tuple[Item, ...]:
    """The entries of a new local array that holds these values."""
    t.builder.emit(n.LocalArray(name, kind.dtype, len(values) + 1, loc=t.builder.loc))
    items = tuple(Item(name, kind.dtype, len(values), k) for k in range(len(values)))
    for item, value in zip(items, values):
        write_item(t, item, value)
    return items


def choose_item(items: list[Item], index: Value) -> Item | None:
    """items[index] as one entry; None if they are not evenly spaced in one array."""
    first, steps = items[0], {b.index - a.index for a, b in zip(items, items[1:])}
    alike = all(i.name == first.name and i.choice is None for i in items)
    if not alike or len(steps) != 1:
        return None
    return Item(first.name, first.dtype, first.size, first.index, steps.pop(), len(items), index)


def read_item(t: Tracer, item: Item) -> Value:
    """The entry; the first candidate if the choice is outside."""
    return t.builder.get_element(item.name, _position(t, item, item.index), item.dtype)


def write_item(t: Tracer, item: Item, value: Value) -> None:
    """Overwrite the entry; none of the candidates if the choice is outside."""
    t.builder.set_element(item.name, _position(t, item, item.size), value)


def _position(t: Tracer, item: Item, outside: int) -> Value:
    b = t.builder
    if item.choice is None:
        return b.const(item.index, i64)
    choice, wide = item.choice, u64 if item.choice.type.bits == 64 else u32
    inside = b.op("cmp_lt", b.cast(choice, wide), b.const(item.count, wide))
    moved = b.cast(choice, i64)
    if item.stride != 1:
        moved = b.op("mul", moved, b.const(item.stride, i64))
    if item.index:
        moved = b.op("add", moved, b.const(item.index, i64))
    return b.op("select", inside, moved, b.const(outside, i64))
