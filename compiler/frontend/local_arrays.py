"""This module places local vectors and matrices that are indexed at run time in a local array of the IR.

    w = sg.Vector([...16 numbers...])          local_array w: f32[17]
    w[j] = x                                   set_element w[j if 0 <= j < 16 else 16], x

Without such an array, each entry is a scalar local, and an index that only the launch knows picks among them by one
select for each entry. Beyond FEW entries memory is cheaper. An index outside ends the launch. Where checks are
switched off, it has the same effect in both forms: a read gives the first entry, and a write changes nothing. The
array therefore has one more element, which receives such writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.statement import Value
from ..ir.types import Scalar, i64, u32, u64
from .aggregates import MatrixType
from .context import Tracer

FEW = 8
"""Up to this number of entries, selects are used."""


@dataclass(frozen=True)
class LocalArrayPlace:
    """A `LocalArrayPlace` is an entry of a local array; its index is fixed or computed by the kernel.

    Attributes:
        name: name of the local array.
        dtype: type of an entry.
        size: number of entries; the element after the last one receives writes outside.
        index: number of the entry; if the kernel computes it, of the first entry that may be meant.
        stride: distance between two entries that may be meant.
        count: number of entries that may be meant.
        choice: run-time number of the entry among those that may be meant; None for a fixed entry.
    """

    name: str
    dtype: Scalar
    size: int
    index: int
    stride: int = 0
    count: int = 1
    choice: Value | None = None


def wants_array(t: Tracer, name: str, kind: MatrixType) -> bool:
    """Return True if a new local vector is placed in a local array, because it is large and indexed at run time.

    Locals at the kernel's own level never become arrays, because they may cross tasks.
    """
    size = kind.shape[0] * (kind.shape[1] if len(kind.shape) == 2 else 1)
    return size > FEW and t.nesting > 0 and name in t.active.indexed


def declare_array(t: Tracer, name: str, kind: MatrixType, values: list[Value]) -> tuple[LocalArrayPlace, ...]:
    """Declare a local array that holds these values, and return its entries."""
    # The additional element receives writes with an index outside.
    t.builder.emit(n.LocalArray(name, kind.dtype, len(values) + 1, loc=t.builder.loc))
    items = tuple(LocalArrayPlace(name, kind.dtype, len(values), k) for k in range(len(values)))
    for item, value in zip(items, values):
        write_item(t, item, value)
    return items


def choose_item(items: list[LocalArrayPlace], index: Value) -> LocalArrayPlace | None:
    """Return one place for items[index] with a run-time index, or None if the items are not evenly spaced."""
    first, steps = items[0], {b.index - a.index for a, b in zip(items, items[1:])}
    alike = all(i.name == first.name and i.choice is None for i in items)
    if not alike or len(steps) != 1:
        return None
    return LocalArrayPlace(first.name, first.dtype, first.size, first.index, steps.pop(), len(items), index)


def read_item(t: Tracer, item: LocalArrayPlace) -> Value:
    """Emit a read of an entry of a local array; an out-of-range run-time index reads the first possible entry."""
    return t.builder.get_element(item.name, _position(t, item, item.index), item.dtype)


def write_item(t: Tracer, item: LocalArrayPlace, value: Value) -> None:
    """Emit a write of an entry of a local array. If the run-time index is outside, change none of the entries."""
    t.builder.set_element(item.name, _position(t, item, item.size), value)


def _position(t: Tracer, item: LocalArrayPlace, outside: int) -> Value:
    """Return the index of an entry in its local array, or `outside` if the run-time index is out of range."""
    b = t.builder
    if item.choice is None:
        return b.const(item.index, i64)
    choice, wide = item.choice, u64 if item.choice.type.bits == 64 else u32
    # As an unsigned number, a negative choice is too large.
    inside = b.op("cmp_lt", b.cast(choice, wide), b.const(item.count, wide))
    moved = b.cast(choice, i64)
    if item.stride != 1:
        moved = b.op("mul", moved, b.const(item.stride, i64))
    if item.index:
        moved = b.op("add", moved, b.const(item.index, i64))
    return b.op("select", inside, moved, b.const(outside, i64))
