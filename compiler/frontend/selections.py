"""This module finds the entries of a vector or matrix that an index or a swizzle selects.

A selection lists the selected positions of each axis; a position that only the launch knows is a value. Reading such a
position from a value is a chain of selects, for which every derivative rule exists already.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.statement import Value
from ..ir.texts import EXTENT, INDEX
from ..ir.types import i32
from .context import Tracer, require_value
from .conversions import unify_entries
from .diagnostics import ProblemError, index_problem, suggestion, syntax_problem, type_problem
from .operands import MatrixValue, Operand, integer_of, shape_text

Position = int | Value


@dataclass(frozen=True)
class AxisSelection:
    """An `AxisSelection` lists the positions that an index selects along one axis.

    Attributes:
        positions: the positions, in order.
        keep: True for a slice, whose axis stays in the result.
    """

    positions: tuple[Position, ...]
    keep: bool


@dataclass(frozen=True)
class IndexSelection:
    """An `IndexSelection` lists the positions that an index selects along each axis of a vector or matrix."""

    picks: tuple[AxisSelection, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the selected entries, or () for one entry."""
        return tuple(len(p.positions) for p in self.picks if p.keep)

    @property
    def points(self) -> list[tuple[Position, ...]]:
        """Return the position, one index per axis, of each selected entry."""
        return list(itertools.product(*(p.positions for p in self.picks)))


# ---- from an index ----------------------------------------------------------------------------------------------


def select(t: Tracer, shape: tuple[int, ...], node: ast.expr, text: str, checked: bool) -> IndexSelection:
    """Return the entries that the indices in square brackets select; missing axes count as `:`.

    Args:
        t: the tracer.
        shape: shape of the vector or matrix.
        node: the index.
        text: name of the vector or matrix in messages.
        checked: True to end the launch where a position that only the launch knows is outside.

    Raises:
        ProblemError: a constant position is outside, or there are too many indices.
    """
    keys = _keys(t, node)
    if len(keys) > len(shape):
        raise index_problem(
            f"{shape_text(shape)} has {len(shape)} {'axis' if len(shape) == 1 else 'axes'}, but is indexed"
            f" with {len(keys)}",
            f"write `v[{', '.join('ij'[: len(shape)])}]`",
        )
    keys += [(slice(None), node)] * (len(shape) - len(keys))
    return IndexSelection(
        tuple(_pick(t, axis, key, at, shape, text if checked else "") for axis, (key, at) in enumerate(keys))
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
        end = None if part is None else integer_of(t.clean(part))
        if part is not None and end is None:
            raise type_problem(
                "the bounds of a slice are integers known at compile time",
                "write the entries one by one, in a loop",
                part,
            )
        ends.append(end)
    if ends[2] == 0:
        raise type_problem("the step of a slice is zero", "use a step other than zero", node)
    return slice(*ends)


def _pick(
    t: Tracer, axis: int, key: Operand | slice, node: ast.expr, shape: tuple[int, ...], text: str
) -> AxisSelection:
    extent = shape[axis]
    if isinstance(key, slice):
        positions = tuple(range(extent)[key])
        if not positions:
            raise type_problem(
                f"the slice selects nothing of {shape_text(shape)}", f"select among 0 to {extent - 1}", node
            )
        return AxisSelection(positions, True)
    found = integer_of(key)
    if found is None:
        return AxisSelection((_dynamic(t, axis, require_value(key), node, shape, text),), False)
    if not 0 <= found < extent:
        negative = "; indices do not count from the end" if found < 0 else ""
        raise index_problem(
            f"the index {found} is outside of {shape_text(shape)}{negative}",
            f"use an index from 0 to {extent - 1}",
            node,
        )
    return AxisSelection((found,), False)


def _dynamic(t: Tracer, axis: int, key: Operand, node: ast.expr, shape: tuple[int, ...], text: str) -> Value:
    try:
        index = t.index(key)
    except ProblemError as problem:
        problem.node = problem.node or node
        raise
    if not text:
        return index
    where = text if len(shape) == 1 else f"axis {axis} of {text}"
    return t.within(index, shape[axis], f"index {INDEX} is outside {where}, which has {EXTENT} entries")


# ---- swizzles -----------------------------------------------------------------------------------------------------

SWIZZLES = ("xyzw", "rgba", "stpq")


def swizzle(shape: tuple[int, ...], name: str) -> IndexSelection | None:
    """Return the entries that letters such as `x` or `zyx` select, or None if the name is no swizzle.

    Raises:
        ProblemError: the name is a swizzle, but the vector is too short or a matrix.
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
        raise syntax_problem(f"{shape_text(shape)} has no entry `.{name}`", cure)
    return IndexSelection((AxisSelection(positions, len(name) > 1),))


def unknown_attribute(shape: tuple[int, ...], name: str, methods: Sequence[str]) -> ProblemError:
    """Return the error for an attribute of a vector or matrix that is neither a swizzle nor a method."""
    close = suggestion(name, methods)
    return syntax_problem(
        f"{shape_text(shape)} has no attribute `{name}`", close or "use a swizzle, as `v.xy`, or a method"
    )


# ---- entries of values ------------------------------------------------------------------------------------------


def flat(shape: tuple[int, ...], point: tuple[int, ...]) -> int:
    """Return the row-major position of an entry, given its index along each axis."""
    return point[0] if len(shape) == 1 else point[0] * shape[1] + point[1]


def select_entries(t: Tracer, matrix: MatrixValue, selection: IndexSelection) -> Operand:
    """Return the selected entries of a vector or matrix: a scalar operand, or a smaller vector or matrix."""
    items = [_entry(t, matrix, point) for point in selection.points]
    return items[0] if selection.shape == () else unify_entries(t, selection.shape, items)


def _entry(t: Tracer, matrix: MatrixValue, point: tuple[Position, ...]) -> Operand:
    candidates, index = candidates_of(t, matrix.shape, point)
    entries = [matrix.items[c] for c in candidates]
    return entries[0] if index is None else choose(t, entries, index)


def candidates_of(t: Tracer, shape: tuple[int, ...], point: tuple[Position, ...]) -> tuple[list[int], Value | None]:
    """Return the row-major positions that an entry may have, and the index that selects one (None if only one).

    The value is None if there is only one candidate.
    """
    axes = [range(extent) if isinstance(p, Value) else (p,) for p, extent in zip(point, shape)]
    candidates = [flat(shape, q) for q in itertools.product(*axes)]
    unknown = [p for p in point if isinstance(p, Value)]
    if not unknown:
        return candidates, None
    index = unknown[0]
    # Two unknown positions of a matrix become one row-major index.
    if len(unknown) == 2:
        row, column = (t.builder.cast(p, i32) for p in unknown)
        index = t.builder.op("add", t.builder.op("mul", row, t.builder.const(shape[1], i32)), column)
    return candidates, index


def choose(t: Tracer, entries: Sequence[Operand], index: Value) -> Value:
    """Emit a selection of entries[index]; an index outside, possible under `bounds="off"`, selects the first entry."""
    values = unify_entries(t, (len(entries),), entries).items
    # The first entry is the result for every index outside, so each other entry needs one select.
    made = t.value(values[0])
    for k, entry in enumerate(values[1:], 1):
        here = t.builder.op("cmp_eq", index, t.builder.const(k, index.type))
        made = t.builder.op("select", here, t.value(entry), made)
    return made
