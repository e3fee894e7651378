"""Implement `grad_check`: compare the gradient of a function that launches kernels with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .derivative_tape import DerivativeTape
from .field_snapshot import FieldsSnapshot
from .numeric import GradCheckError, GradReport, Tolerance, checked_arrays, compare


def grad_check(  # What is Any takes several kinds of fields and arrays, see functional.py.
    loss: Any,
    params: Any,
    run: Callable[[], Any],
    *,
    weights: Any = None,
    seed: Any = None,
    steps: Sequence[float] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    raise_error: bool = True,
) -> GradReport:
    """Compare the gradient of `loss`, as `run()` computes it, with central differences at the present contents.

    `run` may overwrite fields: all are put back, and gradients of `params` hold what was checked. The report lists the
    elements that do not agree; unless `raise_error` is False, such elements raise GradCheckError.

    Args:
        loss: The loss, as for `Tape`.
        params: A field or ndarray with a gradient, or a list of them.
        run: A function that launches kernels.
        weights: A weight for each loss, as for `Tape`.
        seed: The cotangent of the loss, as for `Tape`.
        steps: Relative steps of the differences; None for those of the dtype.
        rtol: Relative tolerance; None for that of the dtype.
        atol: Absolute tolerance; None for that of the dtype.
        raise_error: False to return a report with mismatches instead of raising.
    """
    wanted, before = checked_arrays(params), FieldsSnapshot()
    with DerivativeTape(loss, weights=weights, seed=seed) as tape:
        start = FieldsSnapshot()  # kernels may read gradients, which the tape has cleared
        run()
    gradients = {array: array.grad.memory.copy() for array in wanted}
    report = compare(tape.terms, gradients, run, start, Tolerance(steps, rtol, atol))
    before.restore(exactly=True)
    for array, gradient in gradients.items():
        array.grad.write(..., gradient)
    if raise_error and not report.ok:
        raise GradCheckError(report)
    return report
