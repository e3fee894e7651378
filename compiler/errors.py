"""Every exception of the project, and how an error points at the user's source.

The four located classes (`KernelSyntaxError`, `KernelTypeError`, `NotDifferentiable`, `Unsupported`) always carry
a reason and a cure, and a `Span` wherever the kernel came from Python source.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from types import FrameType

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Span:
    """A place in a source file: 1-based line, 0-based columns, and the text of that line."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    text: str = ""

    def render(self) -> str:
        """`file:line:column`, then the line with carets under the columns concerned."""
        head = f"{self.file}:{self.line}:{self.column + 1}"
        if not self.text.strip():
            return head
        indent = len(self.text) - len(self.text.lstrip())
        start = max(self.column - indent, 0)
        width = max(1, min(self.end_column, len(self.text)) - self.column)
        return f"{head}\n    {self.text.strip()}\n    {' ' * start}{'^' * width}"


def shown(value: object, most: int = 80) -> str:
    """What a message shows of a value: the begin of its `repr`, and its class alone where it has none.

    Python writes no integers of thousands of digits.
    """
    try:
        return repr(value)[:most]
    except Exception:
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"<{type(value).__name__}>"


class StackgradError(Exception):
    """Base class of everything this package raises on purpose."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding: where, what is wrong, and how to cure it."""

    reason: str
    cure: str = ""
    span: Span | None = None

    def render(self) -> str:
        place = self.span.render() if self.span else "<kernel given as IR text>"
        lines = place.splitlines()
        body = [f"{lines[0]}: {self.reason}", *lines[1:]]
        if self.cure:
            body.append(f"    cure: {self.cure}")
        return "\n".join(body)


class LocatedError(StackgradError):
    """An error about the user's kernel; may carry several diagnostics, all reported at once."""

    def __init__(self, reason: str | list[Diagnostic], cure: str = "", span: Span | None = None) -> None:
        self.diagnostics = [Diagnostic(reason, cure, span)] if isinstance(reason, str) else list(reason)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class KernelSyntaxError(LocatedError):
    """A construct of Python that is not part of the kernel language."""


class KernelTypeError(LocatedError):
    """Operands, indices or arguments whose types do not fit."""


class NotDifferentiable(LocatedError):
    """The gradient does not exist, or would be silently wrong, for a stated reason."""


class Unsupported(LocatedError):
    """A valid program that this version, or this backend, cannot run yet."""


class OutOfBounds(StackgradError, IndexError, AssertionError):
    """An index is outside its array. Programs of the dialect expect an AssertionError."""


CURE_OF_INDEX = "guard the access by a condition, or check the loop bounds and the index arithmetic"
"""What helps against an index outside in a kernel."""


class KernelAssertionError(StackgradError, AssertionError):
    """An `assert` inside a kernel failed."""


class ClaimError(NotDifferentiable, KernelAssertionError):
    """Iterations meet of which the program states, by `assume_unique`, that they do not."""


class DivisionByZero(StackgradError, ZeroDivisionError):
    """An integer division or modulo by zero, found on the reference or under `debug=True`."""


class AdstackOverflow(StackgradError):
    """A push past the capacity of an adstack; nothing was written, the gradients of this launch are void."""


class DeviceError(StackgradError):
    """The device or its driver refused a request."""


class VerifyError(StackgradError):
    """The IR breaks a rule of its stage: a defect of a pass, or a bad text kernel."""


class ParseError(StackgradError):
    """IR text that does not parse. span: where; its file is the name that the text was given."""

    def __init__(self, reason: str, cure: str = "", span: Span | None = None) -> None:
        self.span = span
        super().__init__(Diagnostic(reason, cure, span).render() if span else reason)


class InternalError(StackgradError):
    """A defect of this compiler; carries the IR concerned."""


# ---- warnings -----------------------------------------------------------------------------------------------


def outer_frame() -> FrameType | None:
    """The innermost frame that is no part of this package: where the user's program called it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return frame


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user's program that led here. The only place of the package that warns."""
    level, frame, outer = 1, sys._getframe(0), outer_frame()
    while frame is not outer and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
