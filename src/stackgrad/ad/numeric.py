"""Gradients compared with central differences, element by element.

    (L(x + h e_k) - L(x - h e_k)) / 2h      for each element k and a set of steps h

An element passes if the difference quotient of some step is within atol + rtol * max(|gradient|, |quotient|): large
steps are wrong by curvature, small ones by rounding, and a wrong gradient agrees with none. Every evaluation starts
from the same content of all fields and draws the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compiler.ir.types import Scalar
from ..fields import Array
from ..session import RUNTIME
from ..usage import TapeError, UsageError
from .losses import Term
from .state import State

Steps = tuple[float, ...]
DEFAULTS: dict[str, tuple[Steps, float, float]] = {
    "f64": (tuple(10.0**-k for k in range(2, 8)), 1e-4, 1e-7),
    "f32": (tuple(2.0**-k for k in range(3, 12)), 2e-2, 2e-3),
    "f16": (tuple(2.0**-k for k in range(1, 6)), 1e-1, 5e-2),
}
"""Steps, relative and absolute tolerance by the less precise of the types of loss and field."""


@dataclass(frozen=True)
class Mismatch:
    """An element whose gradient no difference quotient confirms. numeric: the steadiest quotient, of step `step`."""

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
    """What was compared: `checked` elements, of which `mismatches` do not agree."""

    checked: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all agree."""
        return not self.mismatches

    def __str__(self) -> str:
        head = f"{self.checked - len(self.mismatches)} of {self.checked} elements agree"
        shown = [f"    {m}" for m in self.mismatches[:10]]
        more = len(self.mismatches) - len(shown)
        return "\n".join([head, *shown, *([f"    and {more} more"] if more else [])])


class GradCheckError(UsageError):
    """A gradient that finite differences contradict; `report` has the elements."""

    def __init__(self, report: GradReport) -> None:
        self.report = report
        super().__init__(
            f"the gradient is not the derivative: {report}",
            "if the loss is kinked or noisy there, check at another point, or give steps, rtol and atol",
        )


@dataclass(frozen=True)
class Tolerance:
    """What the caller chose; None for the default of the types."""

    steps: Sequence[float] | None = None
    rtol: float | None = None
    atol: float | None = None

    def of(self, kinds: Sequence[Scalar]) -> tuple[Steps, float, float]:
        """Steps and tolerances for a loss and a field of these types."""
        steps, rtol, atol = DEFAULTS[min(kinds, key=lambda t: t.bits).name]
        return (
            steps if self.steps is None else tuple(self.steps),
            rtol if self.rtol is None else self.rtol,
            atol if self.atol is None else self.atol,
        )


def checked_arrays(params: Any) -> list[Array]:
    """The scalar arrays of what is to be checked. Raises TapeError for what has no gradient."""
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
    terms: Sequence[Term], gradients: dict[Array, np.ndarray], run: Callable[[], Any], before: State, chosen: Tolerance
) -> GradReport:
    """Difference quotients from the state `before`, against gradients."""
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
    """The quotient that differs least from that of the step before: neither curvature nor rounding rules there."""
    if len(found) < 2:
        return found[0] if found else (np.nan, np.nan)
    return min(zip(found, found[1:]), key=lambda pair: abs(pair[0][0] - pair[1][0]))[1]


def _named(array: Array) -> str:
    return array.name or array.label


def _quotients(
    terms: Sequence[Term], array: Array, index: tuple[int, ...], run: Callable[[], Any], before: State, steps: Steps
) -> Iterator[tuple[float, float]]:
    """Central difference quotients, each with its step, the one that the type could represent."""
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
    terms: Sequence[Term], array: Array, index: tuple[int, ...], value: Any, run: Callable[[], Any], before: State
) -> float:
    """The weighted loss with one element changed. Nobody watches: every content is put back in the end."""
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
