"""This module converts the conflicts that a marking kernel has found to located diagnostics.

They are rows of the array `$conflicts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import Diagnostic, Span

HAND_CALLED = (
    "take the gradient under sg.ad.Tape, which keeps what the kernel overwrites; or store to another field:"
    " a gradient called by hand is taken with memory as the kernel left it"
)
BITS = 32
FIRST = 1 << 62
SHIFT = 1 << 40
"""BITS is the size of an access' number in a mark. Least marks are subtracted from FIRST. SHIFT is added to bounds."""


@dataclass(frozen=True)
class ConflictRow:
    """Describe the read on whose conflicts a marking kernel reports in one row of its output array `$conflicts`.

    Attributes:
        array: Name of the array that is read.
        span: Source span of the read.
        writes: Source spans of the writes that may write the element.
        axes: Number of axes of the parallel loop.
        marks: Number of the array of marks that belongs to `array`.
        stated: True if the program claims that the accesses never meet, as in `marks.MarkedPair`.
    """

    array: str
    span: Span | None
    writes: tuple[Span | None, ...]
    axes: int
    marks: int
    stated: bool = False


def size_diagnostic(read: ConflictRow, what: str) -> Diagnostic:
    """Return the diagnostic for an array, loop or iteration that is too large for marks; `what` describes it."""
    return Diagnostic(
        f"{what}, which is more than can be looked at before the launch: whether iterations meet at elements of"
        f" {read.array} is not known",
        "run it in parts, on arrays or ranges of their own",
        read.span,
    )


def describe(read: ConflictRow, row: list[int], marks: Any) -> Diagnostic:
    """Return the diagnostic for one row of `$conflicts`: two iterations touch an element, or a value is overwritten."""
    conflict = row[0] - (FIRST - 1 if row[0] > FIRST else 0)
    where = FIRST - conflict
    mine, flat = where >> BITS, where & ((1 << BITS) - 1)
    element: list[int] = []
    for extent in reversed(marks.shape[:-1]):
        element.insert(0, flat % extent)
        flat //= extent
    last, first = int(marks[(*element, 0)]), FIRST - int(marks[(*element, 1)])
    other = next((w >> BITS for w in (last, first) if w >> BITS != mine), mine) if row[0] > FIRST else None
    lines = sorted({w.line for w in read.writes if w})
    place = f" (line {', '.join(map(str, lines))})" if lines else ""
    name = f"{read.array}[{', '.join(map(str, element))}]"
    spans = [(b - SHIFT, e - SHIFT) for b, e in zip(row[2::2], row[3::2])][: read.axes]
    if other is None:
        inside = f" in iteration {_point(mine, spans)}" if spans else ""
        return Diagnostic(
            f"the gradient needs the value of {name} read here{inside}, which the kernel overwrites later{place}",
            HAND_CALLED,
            read.span,
        )
    if read.stated:
        one, two = (_point(k, spans) for k in sorted((mine, other)))
        return Diagnostic(
            f"sg.assume_unique does not hold: iterations {one} and {two} of this parallel loop both touch {name}",
            "leave out the claim",
            read.span,
        )
    return Diagnostic(
        f"iteration {_point(mine, spans)} of this parallel loop reads {name}, which iteration {_point(other, spans)}"
        f" writes{place}: the iterations are not independent",
        "make the loop serial (an inner loop), write to another field, or give the iterations different elements",
        read.span,
    )


def _point(number: int, spans: list[tuple[int, int]]) -> str:
    """Return the indices of an iteration as text, from its row-major number and the begin and extent of each axis."""
    found: list[int] = []
    for begin, extent in reversed(spans):
        found.insert(0, begin + number % extent)
        number //= extent
    return str(found[0]) if len(found) == 1 else f"({', '.join(map(str, found))})"
