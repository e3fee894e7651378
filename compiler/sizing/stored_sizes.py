"""This module encodes size expressions as lists of plain values, so that a kernel can be stored with them.

    row = [kind, data, positions of the arguments, low, high]

Every node has one row, after the rows of its arguments. Types are stored by name, and bounds that are not known as
null, so that rows can be JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.intervals import INFINITY, Number
from ..ir.types import SCALARS, Scalar
from .expressions import KINDS, SizeExpr, node
from .sizes import KernelSizes

NodeRows = list[list[Any]]


def to_rows(expressions: Sequence[SizeExpr]) -> tuple[NodeRows, list[int]]:
    """Return the nodes of expressions as rows of plain values, and the row number of each expression."""
    rows: NodeRows = []
    known: dict[tuple[SizeExpr, Number, Number], int] = {}

    def visit(x: SizeExpr) -> int:
        at = (x, x.low, x.high)
        if at not in known:
            args = [visit(arg) for arg in x.args]
            data = [{"type": d.name} if isinstance(d, Scalar) else _number(d) for d in x.data]
            rows.append([x.kind, data, args, _end(x.low), _end(x.high)])
            known[at] = len(rows) - 1
        return known[at]

    return rows, [visit(x) for x in expressions]


def from_rows(rows: NodeRows) -> list[SizeExpr]:
    """Return the size expression that each row of plain values encodes; this is the inverse of `to_rows`.

    Raises:
        ValueError: `to_rows` does not make these rows.
    """
    made: list[SizeExpr] = []
    for kind, data, args, low, high in rows:
        if kind not in KINDS or not all(0 <= k < len(made) for k in args):
            raise ValueError(f"not a size expression: {kind!r} of {args!r}")
        plain = tuple(_datum(d) for d in data)
        ends = -INFINITY if low is None else low, INFINITY if high is None else high
        made.append(node(kind, tuple(made[k] for k in args), plain, *ends))
    return made


def _end(end: Number) -> Number | None:
    """Return a bound for storage in JSON, which holds only finite numbers: None stands for any other."""
    return None if abs(end) == INFINITY or end != end else end


def _number(datum: object) -> object:
    """Encode a real, which may be NaN or infinite, exactly as data for JSON. Return other data unchanged."""
    return {"real": repr(datum)} if isinstance(datum, float) else datum


def _datum(datum: Any) -> object:
    """Return the Python value that one item of a stored expression encodes: a scalar type, a real or plain data."""
    if not isinstance(datum, dict):
        return datum
    return SCALARS[datum["type"]] if "type" in datum else float(datum["real"])


def sized_to_rows(sized: KernelSizes) -> dict[str, Any]:
    """Return the sizes of a kernel as a dict that JSON can hold, with one row for each expression node."""
    rows, at = to_rows(sized.expressions)
    parts = (sized.limits, sized.depths, sized.totals, sized.rows)
    return {"nodes": rows, "roots": at, "parts": [len(p) for p in parts], "limits": [m for _, m in sized.limits]}


def sized_from_rows(kept: dict[str, Any]) -> KernelSizes:
    """Return the sizes that were encoded by `sized_to_rows`.

    Raises:
        ValueError: `sized_to_rows` does not make these values.
        KeyError: A part is missing.
        TypeError: A part has another type.
    """
    nodes = from_rows(kept["nodes"])
    roots = iter([nodes[k] for k in kept["roots"]])
    limits, depths, totals, rows = (tuple(next(roots) for _ in range(count)) for count in kept["parts"])
    return KernelSizes(depths, totals, rows, tuple(zip(limits, kept["limits"])))


@dataclass(frozen=True)
class StoredSizes:
    """A `StoredSizes` holds the sizes of a kernel as JSON text, which is decoded on demand.

    Attributes:
        text: The sizes as JSON.
    """

    text: str

    def sized(self) -> KernelSizes:
        """Return the sizes as expressions, decoded from the text."""
        return sized_from_rows(json.loads(self.text))


def store_sizes(sized: KernelSizes | None) -> StoredSizes | None:
    """Return the sizes encoded as JSON text for storage with a kernel, or None for None."""
    return None if sized is None else StoredSizes(json.dumps(sized_to_rows(sized), separators=(",", ":")))
