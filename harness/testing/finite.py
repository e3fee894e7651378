"""This module finds NaN and infinity in a launch's arrays that have a gradient, to report them as failures."""

from __future__ import annotations

import numpy as np

from .report import ReportedFault


def is_finite(array: np.ndarray) -> bool:
    """Return True if an array holds no NaN and no infinity."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def nonfinite_fault(
    kernel: str, direction: str, array: str, content: np.ndarray, launch: int, before: bool
) -> ReportedFault:
    """Return the fault to report for an array in which a launch left NaN or infinity.

    Args:
        kernel: the name of the kernel.
        direction: the direction of the launch.
        array: the name of the array.
        content: the values of the array.
        launch: the number of the launch.
        before: True if the array was not finite before the launch either.
    """
    kind = "NaN" if np.isnan(content).any() else "infinity"
    what = "loss" if content.size == 1 else "gradient" if array.endswith(".grad") else "value"
    when = "already before" if before else "after"
    text = f"{kind} {what}: {array} holds {kind} {when} launch {launch} of {kernel} ({direction})"
    return ReportedFault(text, kernel, array)
