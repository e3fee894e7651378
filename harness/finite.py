"""NaN and infinity in arrays that have a gradient: always a failure of a program, wherever it first shows."""

from __future__ import annotations

import numpy as np

from .report import Finding


def is_finite(array: np.ndarray) -> bool:
    """Whether an array holds no NaN and no infinity."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def nonfinite(kernel: str, direction: str, array: str, content: np.ndarray, launch: int, before: bool) -> Finding:
    """The finding for an array that a launch left so. before: it was not finite before the launch either."""
    kind = "NaN" if np.isnan(content).any() else "infinity"
    what = "loss" if content.size == 1 else "gradient" if array.endswith(".grad") else "value"
    when = "already before" if before else "after"
    text = f"{kind} {what}: {array} holds {kind} {when} launch {launch} of {kernel} ({direction})"
    return Finding(text, kernel, array)
