"""Which entries of a vector or matrix an index means: numbers, slices, swizzles, indices known at launch only.

A selection lists, for each axis, the positions picked; positions known at launch only are values. Reading one of
those from a value is a chain of selects, which every derivative rule knows already.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Value
from ..ir.types import i32
from .context import Tracer, unpoisoned
from .conversions import unified
from .diagnostics import Problem, mistyped, suggestion, syntax
from .operands import MatrixValue, Operand, integer, shape_text

Position = int | Value


@dataclass(frozen=True)
class Pick:
    """Positions on one axis. keep: a slice, whose axis stays in the result."""

    positions: tuple[Position, ...]
    keep: bool


@dataclass(frozen=True)
class Selection:
    """Positions on each axis, in the order of the result, row by row."""

    picks: tuple[Pick, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is selected; () for one entry."""
        return tuple(len(p.positions) for p in self.picks if p.keep)

    @property
    def points(self) -> list[tuple[Position, ...]]:
        """The position of each selected entry."""
        return list(itertools.product(*(p.positions for p in self.picks)))


# ---- from an index ----------------------------------------------------------------------------------------------


def select(t: Tracer, shape: tuple[int, ...], node: ast.expr, text: str, checked: bool) -> Selection:
    """The entries that an index means. Missing axes count as `:`.

    checked: in debug mode, assert that positions known at launch only are inside. Raises KernelTypeError for constant
    positions outside.
    """
    keys = _keys(t, node)
    if len(keys) > len(shape):
        raise mistyped(
            f"{shape_text(shape)} has {len(shape)} {'axis' if len(shape) == 1 else 'axes'}, but is indexed"
            f" with {len(keys)}",
            f"write `v[{', '.join('ij'[: len(shape)])}]`",
        )
    keys += [(slice(None), node)] * (len(shape) - len(keys))
    return Selection(
        tuple(_pick(t, extent, key, at, shape, text if checked else "") for extent, (key, at) in zip(shape, keys))
    )


def _keys(t: Tracer, node: ast.expr) -> list[tuple[Operand | slice, ast.expr]]:
    found: list[tuple[Operand | slice, ast.expr]] = []
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(part, ast.Slice):
            found.append((_slice(t, part), part))
            continue
        operand = t.clean(part)
        items = t.items(operand)
        found.extend((item, part) for item in ((operand,) if items is None else items))
    return found


def _slice(t: Tracer, node: ast.Slice) -> slice:
    ends: list[int | None] = []
    for part in (node.lower, node.upper, node.step):
        end = None if part is None else integer(t.clean(part))
        if part is not None and end is None:
            raise mistyped(
                "the bounds of a slice are integers known at compile time",
                "write the entries one by one, in a loop",
                part,
            )
        ends.append(end)
    if ends[2] == 0:
        raise mistyped("the step of a slice is zero", "use a step other than zero", node)
    return slice(*ends)


def _pick(t: Tracer, extent: int, key: Operand | slice, node: ast.expr, shape: tuple[int, ...], text: str) -> Pick:
    if isinstance(key, slice):
        positions = tuple(range(extent)[key])
        if not positions:
            raise mistyped(f"the slice selects nothing of {shape_text(shape)}", f"select among 0 to {extent - 1}", node)
        return Pick(positions, True)
    found = integer(key)
    if found is None:
        return Pick((_dynamic(t, extent, unpoisoned(key), node, text),), False)
    if not 0 <= found < extent:
        negative = "; indices do not count from the end" if found < 0 else ""
        raise mistyped(
            f"the index {found} is outside of {shape_text(shape)}{negative}",
            f"use an index from 0 to {extent - 1}",
            node,
        )
    return Pick((found,), False)


def _dynamic(t: Tracer, extent: int, key: Operand, node: ast.expr, text: str) -> Value:
    try:
        index = t.index(key)
    except Problem as problem:
        problem.node = problem.node or node
        raise
    if text and t.options.debug:
        low = t.builder.op("cmp_ge", index, t.builder.const(0, index.type))
        high = t.builder.op("cmp_lt", index, t.builder.const(extent, index.type))
        message = f"the index of {text} is outside 0 to {extent - 1}"
        t.builder.emit(n.Assert(t.builder.op("logical_and", low, high), message, loc=t.builder.loc))
    return index


# ---- swizzles -----------------------------------------------------------------------------------------------------

SWIZZLES = ("xyzw", "rgba", "stpq")


def swizzle(shape: tuple[int, ...], name: str) -> Selection | None:
    """The entries that letters such as `x` or `zyx` mean; None if the name is no swizzle.

    Raises KernelTypeError if it is one but the vector is too short or a matrix.
    """
    letters = next((alphabet for alphabet in SWIZZLES if name and set(name) <= set(alphabet)), None)
    if letters is None or len(name) > 4:
        return None
    positions = tuple(letters.index(letter) for letter in name)
    if len(shape) != 1 or max(positions) >= shape[0]:
        cure = (
            f"its entries are {', '.join(f'`{c}`' for c in letters[: shape[0]])}"
            if len(shape) == 1
            else "index it, as in `M[i, j]`"
        )
        raise syntax(f"{shape_text(shape)} has no entry `.{name}`", cure)
    return Selection((Pick(positions, len(name) > 1),))


def unknown_attribute(shape: tuple[int, ...], name: str, methods: Sequence[str]) -> Problem:
    """The mistake of an attribute that is neither swizzle nor method."""
    close = suggestion(name, methods)
    return syntax(f"{shape_text(shape)} has no attribute `{name}`", close or "use a swizzle, as `v.xy`, or a method")


# ---- entries of values ------------------------------------------------------------------------------------------


def flat(shape: tuple[int, ...], point: tuple[int, ...]) -> int:
    """Row-major position of a point."""
    return point[0] if len(shape) == 1 else point[0] * shape[1] + point[1]


def selected(t: Tracer, matrix: MatrixValue, selection: Selection) -> Operand:
    """The selected entries of a value: one operand, or a vector or matrix again."""
    items = [_entry(t, matrix, point) for point in selection.points]
    return items[0] if selection.shape == () else unified(t, selection.shape, items)


def _entry(t: Tracer, matrix: MatrixValue, point: tuple[Position, ...]) -> Operand:
    candidates, index = candidates_of(t, matrix.shape, point)
    entries = [matrix.items[c] for c in candidates]
    return entries[0] if index is None else choose(t, entries, index)


def candidates_of(t: Tracer, shape: tuple[int, ...], point: tuple[Position, ...]) -> tuple[list[int], Value | None]:
    """The flat positions an entry may have, and the value that counts through them; None if there is but one."""
    axes = [range(extent) if isinstance(p, Value) else (p,) for p, extent in zip(point, shape)]
    candidates = [flat(shape, q) for q in itertools.product(*axes)]
    unknown = [p for p in point if isinstance(p, Value)]
    if not unknown:
        return candidates, None
    index = unknown[0]
    if len(unknown) == 2:
        row, column = (t.builder.cast(p, i32) for p in unknown)
        index = t.builder.op("add", t.builder.op("mul", row, t.builder.const(shape[1], i32)), column)
    return candidates, index


def choose(t: Tracer, entries: Sequence[Operand], index: Value) -> Value:
    """entries[index]; the first entry if the index is outside."""
    values = unified(t, (len(entries),), entries).items
    made = t.value(values[0])
    for k, entry in enumerate(values[1:], 1):
        here = t.builder.op("cmp_eq", index, t.builder.const(k, index.type))
        made = t.builder.op("select", here, t.value(entry), made)
    return made
