"""This module decides if two results agree within their error bounds, and if the bounds are tight enough to tell.

An element agrees if the two values differ by no more than the sum of their bounds. Otherwise it disagrees, and this is
a proof, however wide the bound is. Agreement within a bound wider than a thousandth of the value proves nothing: the
element is undecided. A value much smaller than the greatest of its array, above all zero, counts as a thousandth of the
greatest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..outcome import Arrays

DECIDABLE = 1e-3
"""Widest bound that decides, as a share of the value; also the least value that counts, as a share of the greatest."""

VerdictState = Literal["agree", "disagree", "undecided"]


@dataclass(frozen=True)
class ArrayVerdict:
    """An `ArrayVerdict` says if two results agree on one array within their error bounds.

    Attributes:
        state: "agree", "disagree" or "undecided".
        reason: the element that decided, for messages.
        worst: the largest difference divided by its bound.
        elements: the number of elements.
        undecided: the number of elements whose bound is too wide.
    """

    state: VerdictState
    reason: str = ""
    worst: float = 0.0
    elements: int = 0
    undecided: int = 0


def judge(a: Arrays, b: Arrays, errors: Arrays, others: Arrays | None = None) -> dict[str, ArrayVerdict]:
    """Return the verdict on each array that both results have.

    Args:
        a: the arrays of a bounded run.
        b: the arrays of any executor of the same kernel, or of a bounded run of a kernel that means the same.
        errors: the bounds of `a`.
        others: the bounds of `b`, if it is a bounded run too.
    """
    extra: Arrays = others or {}
    return {
        name: _verdict(name, a[name], b[name], errors[name] + extra.get(name, 0.0))
        for name in a
        if name in b and name in errors
    }


def overall(verdicts: Mapping[str, ArrayVerdict]) -> VerdictState:
    """Return the worst of the verdicts: disagree, undecided or agree."""
    states = {v.state for v in verdicts.values()}
    return "disagree" if "disagree" in states else "undecided" if "undecided" in states else "agree"


def undecided(a: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return a mask of the undecided elements, whose error bound exceeds 1e-3 of the value."""
    size = np.abs(a.astype(np.float64))
    finite = np.isfinite(size)
    most = float(size[finite].max(initial=0.0))
    least = float(np.finfo(a.dtype).tiny) if a.dtype.kind == "f" else 0.0
    mask: np.ndarray = (errors > DECIDABLE * np.maximum(size, max(DECIDABLE * most, least))) | np.isinf(errors)
    return mask


def _verdict(name: str, a: np.ndarray, b: np.ndarray, e: np.ndarray) -> ArrayVerdict:
    if a.shape != b.shape:
        return ArrayVerdict("disagree", f"{name} has shape {b.shape}, not {a.shape}", np.inf, a.size)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        alike = (a == b) | np.isnan(x) & np.isnan(y)
        gap = np.where(alike, 0.0, np.abs(x - y))
        if a.dtype.kind != "f":
            gap = np.where(alike, 0.0, np.maximum(gap, 1.0))  # f64 may not tell two large integers apart
        # A NaN in `gap` compares as false, so it counts as beyond the bound.
        beyond = ~alike & ~(gap <= e) & (e < np.inf)
        ratio = np.where(alike, 0.0, np.where(np.isinf(e), 0.0, gap / e))
        open_ = undecided(a, e)
    worst = float(np.nan_to_num(ratio, nan=np.inf).max(initial=0.0))
    count = int(np.count_nonzero(open_))
    if beyond.any():
        at = int(np.argmax(np.where(beyond, np.nan_to_num(ratio, nan=np.inf), -1.0)))
        return ArrayVerdict("disagree", _place(name, x, y, e, at), worst, a.size, count)
    if count:
        at = int(np.argmax(open_))
        return ArrayVerdict("undecided", _place(name, x, y, e, at), worst, a.size, count)
    return ArrayVerdict("agree", "", worst, a.size, 0)


def _place(name: str, x: np.ndarray, y: np.ndarray, e: np.ndarray, at: int) -> str:
    index = ", ".join(map(str, np.unravel_index(at, x.shape))) if x.shape else ""
    return f"{name}[{index}]: {y.flat[at]:.9g} against {x.flat[at]:.9g}, bound {e.flat[at]:.1e}"
