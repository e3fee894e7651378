"""Outcomes: what became of one execution. Only `Ok` carries values, so nothing else can be compared by mistake.

Invariant: an outcome that decides nothing (`Unsupported`, `Poisoned`, `Undecided`) says why, is counted, and is never
reported as ok.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..compiler.errors import LocatedError, NotDifferentiable
from ..compiler.errors import Unsupported as UnsupportedError

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ok:
    """It ran to its end. arrays: what it computed, by name."""

    arrays: Arrays = field(repr=False)


@dataclass(frozen=True)
class Trap:
    """It ended with an exception. kind: name of its class; two executions that trap agree if their kinds do."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Unsupported:
    """The executor declares that it cannot run this."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """The compiler gives the kernel no gradient, for a stated reason."""

    reason: str


@dataclass(frozen=True)
class Poisoned:
    """The result hangs on a discontinuity that lies within rounding, or at which conventions differ."""

    reason: str


@dataclass(frozen=True)
class Undecided:
    """It was not run, or its result says nothing at this precision."""

    reason: str


Outcome = Ok | Trap | Unsupported | Refused | Poisoned | Undecided


def attempt(run: Callable[[], Arrays]) -> Outcome:
    """Run, and turn every exception into an outcome. An exception that nobody declared is a trap of its own kind."""
    try:
        return Ok(run())
    except NotDifferentiable as error:
        return Refused(one_line(error))
    except UnsupportedError as error:
        return Unsupported(one_line(error))
    except Exception as error:
        return Trap(type(error).__name__, str(error))


def one_line(error: BaseException) -> str:
    """The first line of a message that says something: place and reason, without the source line and the cure."""
    if isinstance(error, LocatedError):
        first = error.diagnostics[0]
        place = f"{first.span.render().splitlines()[0]}: " if first.span else ""
        return place + first.reason.splitlines()[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
