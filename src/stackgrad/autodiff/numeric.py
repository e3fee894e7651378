"""Compare gradients with central differences, element by element.

    (L(x + h e_k) - L(x - h e_k)) / 2h      for each element k and a set of steps h

An element passes if the difference quotient of some step is within atol + rtol * max(|gradient|, |quotient|). Large
steps are wrong by curvature, small ones by rounding, and a wrong gradient agrees with no step. Every evaluation starts
from the same contents of all fields and draws the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compiler.ir.types import Scalar
from ..data.fields import Array
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import TapeError, UsageError
from .field_snapshot import FieldsSnapshot
from .losses import SeededLoss

Steps = tuple[float, ...]
DEFAULTS: dict[str, tuple[Steps, float, float]] = {
    "f64": (tuple(10.0**-k for k in range(2, 8)), 1e-4, 1e-7),
    "f32": (tuple(2.0**-k for k in range(3, 12)), 2e-2, 2e-3),
    "f16": (tuple(2.0**-k for k in range(1, 6)), 1e-1, 5e-2),
}
"""Steps, relative and absolute tolerance, by the less precise of the types of loss and field."""


@dataclass(frozen=True)
class Mismatch:
    """Report an element whose gradient differs from all difference quotients.

    Attributes:
        field: The name of the field.
        index: The index of the element in memory.
        gradient: The gradient that was checked.
        numeric: The steadiest difference quotient.
        step: The step of this quotient.
    """

    field: str
    index: tuple[int, ...]
    gradient: float
    numeric: float
    step: float

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index)) or "None"
        return (
            f"{self.field}[{place}]: gradient {self.gradient:.9g}, difference quotient {self.numeric:.9g}"
            f" (step {self.step:.1e})"
        )


@dataclass
class GradReport:
    """Report the result of comparing gradients with finite differences.

    Attributes:
        checked: Number of elements that were compared.
        mismatches: The elements that do not agree.
    """

    checked: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return True if the gradient agrees with finite differences for all elements."""
        return not self.mismatches

    def __str__(self) -> str:
        head = f"{self.checked - len(self.mismatches)} of {self.checked} elements agree"
        shown = [f"    {m}" for m in self.mismatches[:10]]
        more = len(self.mismatches) - len(shown)
        return "\n".join([head, *shown, *([f"    and {more} more"] if more else [])])


class GradCheckError(UsageError):
    """Signal that finite differences contradict a gradient; `report` lists the elements."""

    def __init__(self, report: GradReport) -> None:
        self.report = report
        super().__init__(
            f"the gradient is not the derivative: {report}",
            "if the loss is kinked or noisy there, check at another point, or give steps, rtol and atol",
        )


@dataclass(frozen=True)
class Tolerance:
    """Hold the step sizes and tolerances of a gradient check; a value of None means the default for the type.

    Attributes:
        steps: Steps relative to max(1, |x|).
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """

    steps: Sequence[float] | None = None
    rtol: float | None = None
    atol: float | None = None

    def of(self, kinds: Sequence[Scalar]) -> tuple[Steps, float, float]:
        """Return the step sizes, the relative and the absolute tolerance for the least precise of these types."""
        steps, rtol, atol = DEFAULTS[min(kinds, key=lambda t: t.bits).name]
        return (
            steps if self.steps is None else tuple(self.steps),
            rtol if self.rtol is None else self.rtol,
            atol if self.atol is None else self.atol,
        )


def checked_arrays(params: Any) -> list[Array]:
    """Return the scalar arrays of the fields to check. Raise TapeError for a field without a gradient."""
    given = list(params) if isinstance(params, (list, tuple)) else [params]
    found: list[Array] = []
    for tensor in given:
        if not hasattr(tensor, "arrays"):
            cure = "give fields or ndarrays with needs_grad=True"
            raise TapeError(f"{type(tensor).__name__} cannot be checked", cure)
        for array in tensor.arrays:
            if not array.needs_grad:
                raise TapeError(f"{array.label} has no gradient to check", "make it with needs_grad=True")
            found.append(array)
    return found


def compare(
    terms: Sequence[SeededLoss],
    gradients: dict[Array, np.ndarray],
    run: Callable[[], Any],
    before: FieldsSnapshot,
    chosen: Tolerance,
) -> GradReport:
    """Compare gradients with central differences, and return a report of the elements that differ.

    Args:
        terms: The losses with their cotangents.
        gradients: The gradient of each array to check.
        run: The function that launches the kernels.
        before: The state from which each evaluation starts.
        chosen: The steps and tolerances.
    """
    report = GradReport()
    for array, gradient in gradients.items():
        steps, rtol, atol = chosen.of([array.dtype, *(term.loss.dtype for term in terms)])
        for index in np.ndindex(array.shape):
            report.checked += 1
            exact, found = float(gradient[index]), []
            for quotient, step in _quotients(terms, array, index, run, before, steps):
                found.append((quotient, step))
                if abs(exact - quotient) <= atol + rtol * max(abs(exact), abs(quotient)):
                    break
            else:
                report.mismatches.append(Mismatch(_named(array), index, exact, *_steadiest(found)))
    return report


def _steadiest(found: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the difference quotient that differs least from that of the step before, with its step size.

    There neither curvature nor rounding dominates.
    """
    if len(found) < 2:
        return found[0] if found else (np.nan, np.nan)
    return min(zip(found, found[1:]), key=lambda pair: abs(pair[0][0] - pair[1][0]))[1]


def _named(array: Array) -> str:
    """Return the name of an array, or its label if it has none."""
    return array.name or array.label


def _quotients(
    terms: Sequence[SeededLoss],
    array: Array,
    index: tuple[int, ...],
    run: Callable[[], Any],
    before: FieldsSnapshot,
    steps: Steps,
) -> Iterator[tuple[float, float]]:
    """Yield central difference quotients of the loss for one element, each with its actual step size."""
    x = float(before.of(array)[index])
    kind = array.dtype.dtype.type
    for relative in steps:
        h = relative * max(1.0, abs(x))
        above, below = kind(x + h), kind(x - h)
        width = float(above) - float(below)
        if width:
            rise = [_evaluate(terms, array, index, value, run, before) for value in (above, below)]
            yield (rise[0] - rise[1]) / width, width / 2


def _evaluate(
    terms: Sequence[SeededLoss],
    array: Array,
    index: tuple[int, ...],
    value: Any,
    run: Callable[[], Any],
    before: FieldsSnapshot,
) -> float:
    """Return the weighted loss for one changed element, without tapes; all contents are restored."""
    before.restore()
    tapes, RUNTIME.tapes = RUNTIME.tapes, ()
    try:
        for term in terms:
            term.loss.begin()
        array.memory[index] = value
        run()
        return float(sum(np.sum(term.cotangent * term.loss.content()) for term in terms))
    finally:
        RUNTIME.tapes = tapes
