"""Size expressions as lists of plain values, to be kept with a kernel: every node after its arguments, each once.

    row = [kind, data, positions of the arguments, low, high]

Types are kept by name, ends that are not known as null, so that the rows can be JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.types import SCALARS, Scalar
from .expressions import INFINITY, KINDS, Expr, Number, node
from .sizes import Sized

Rows = list[list[Any]]


def to_rows(expressions: Sequence[Expr]) -> tuple[Rows, list[int]]:
    """Rows of some expressions, and the position of each of them."""
    rows: Rows = []
    known: dict[tuple[Expr, Number, Number], int] = {}

    def visit(x: Expr) -> int:
        at = (x, x.low, x.high)
        if at not in known:
            args = [visit(arg) for arg in x.args]
            data = [{"type": d.name} if isinstance(d, Scalar) else _number(d) for d in x.data]
            rows.append([x.kind, data, args, _end(x.low), _end(x.high)])
            known[at] = len(rows) - 1
        return known[at]

    return rows, [visit(x) for x in expressions]


def from_rows(rows: Rows) -> list[Expr]:
    """The expression of each row. Raises ValueError for what `to_rows` does not make."""
    made: list[Expr] = []
    for kind, data, args, low, high in rows:
        if kind not in KINDS or not all(0 <= k < len(made) for k in args):
            raise ValueError(f"not a size expression: {kind!r} of {args!r}")
        plain = tuple(_datum(d) for d in data)
        ends = -INFINITY if low is None else low, INFINITY if high is None else high
        made.append(node(kind, tuple(made[k] for k in args), plain, *ends))
    return made


def _end(end: Number) -> Number | None:
    return None if abs(end) == INFINITY or end != end else end


def _number(datum: object) -> object:
    """A real by its text, which JSON keeps exactly, also where it is no number."""
    return {"real": repr(datum)} if isinstance(datum, float) else datum


def _datum(datum: Any) -> object:
    if not isinstance(datum, dict):
        return datum
    return SCALARS[datum["type"]] if "type" in datum else float(datum["real"])


def sized_to_rows(sized: Sized) -> dict[str, Any]:
    """All sizes of a kernel."""
    rows, at = to_rows(sized.expressions)
    parts = (sized.limits, sized.depths, sized.totals, sized.rows)
    return {"nodes": rows, "roots": at, "parts": [len(p) for p in parts], "limits": [m for _, m in sized.limits]}


def sized_from_rows(kept: dict[str, Any]) -> Sized:
    """The sizes that `sized_to_rows` was given. Raises ValueError, KeyError or TypeError for anything else."""
    nodes = from_rows(kept["nodes"])
    roots = iter([nodes[k] for k in kept["roots"]])
    limits, depths, totals, rows = (tuple(next(roots) for _ in range(count)) for count in kept["parts"])
    return Sized(depths, totals, rows, tuple(zip(limits, kept["limits"])))


@dataclass(frozen=True)
class KeptSizes:
    """The sizes of a kernel as it keeps them: text, made expressions when they are wanted."""

    text: str

    def sized(self) -> Sized:
        """The expressions."""
        return sized_from_rows(json.loads(self.text))


def keep(sized: Sized | None) -> KeptSizes | None:
    """Sizes as a kernel keeps them."""
    return None if sized is None else KeptSizes(json.dumps(sized_to_rows(sized), separators=(",", ":")))
