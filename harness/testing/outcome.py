"""This module represents the outcome of one execution: a result, a trap, a refusal, or that nothing can be said.

Only `OkOutcome` carries values, so no other outcome can be compared by mistake. Invariant: an outcome that decides
nothing (`UnsupportedOutcome`, `PoisonedOutcome`, `UndecidedOutcome`) says why, is counted, and is never reported as ok.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...compiler.errors import LocatedError, NotDifferentiable
from ...compiler.errors import Unsupported as UnsupportedError

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class OkOutcome:
    """This outcome means that the execution ran to its end; `arrays` holds its results by name."""

    arrays: Arrays = field(repr=False)


@dataclass(frozen=True)
class TrapOutcome:
    """This outcome means that the execution ended with an exception, such as a trap.

    Two executions that trap agree if their kinds are equal.

    Attributes:
        kind: the name of the class of the exception.
        message: the text of the exception.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class UnsupportedOutcome:
    """This outcome means that the executor declares that it cannot run the kernel, for a stated reason."""

    reason: str


@dataclass(frozen=True)
class RefusedOutcome:
    """This outcome means that the compiler refuses to differentiate the kernel, for a stated reason."""

    reason: str


@dataclass(frozen=True)
class PoisonedOutcome:
    """This outcome means that the result may not be judged: rounding may flip a decision, or conventions differ."""

    reason: str


@dataclass(frozen=True)
class UndecidedOutcome:
    """This outcome means that no verdict is possible: the execution did not run, or its errors hide the result."""

    reason: str


Outcome = OkOutcome | TrapOutcome | UnsupportedOutcome | RefusedOutcome | PoisonedOutcome | UndecidedOutcome


def attempt(run: Callable[[], Arrays]) -> Outcome:
    """Run a function and turn every exception into an outcome; an unexpected exception becomes a trap of its class."""
    try:
        return OkOutcome(run())
    except NotDifferentiable as error:
        return RefusedOutcome(one_line(error))
    except UnsupportedError as error:
        return UnsupportedOutcome(one_line(error))
    except Exception as error:
        return TrapOutcome(type(error).__name__, str(error))


def one_line(error: BaseException) -> str:
    """Return the most informative line of a message: place and reason, without the source line and the cure."""
    if isinstance(error, LocatedError):
        first = error.diagnostics[0]
        place = f"{first.span.render().splitlines()[0]}: " if first.span else ""
        return place + first.reason.splitlines()[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
