"""`grad_check`: the gradient of a function that launches kernels, compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .numeric import GradCheckError, GradReport, Tolerance, checked_arrays, compare
from .state import State
from .tape import Tape


def grad_check(
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
    """Compare the gradient of what `run()` computes with central differences, at the present content of all fields.

    loss, weights, seed: as of `Tape`. params: a field or ndarray with a gradient, or a list of them. run: a function
    that launches kernels; it may overwrite fields, whose content is put back for each evaluation. Afterwards all fields
    are as before, except that gradients of params hold what was checked. Raises GradCheckError unless raise_error is
    False.
    """
    wanted = checked_arrays(params)
    before = State()
    with Tape(loss, weights=weights, seed=seed) as tape:
        run()
    gradients = {array: array.grad.memory.copy() for array in wanted}
    report = compare(tape.terms, gradients, run, before, Tolerance(steps, rtol, atol))
    before.restore(exactly=True)
    for array, gradient in gradients.items():
        array.grad.write(..., gradient)
    if raise_error and not report.ok:
        raise GradCheckError(report)
    return report
