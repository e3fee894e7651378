"""Define every exception of the project, and how an error points at the source of the user.

The four located classes (`KernelSyntaxError`, `KernelTypeError`, `NotDifferentiable`, `Unsupported`) always carry a
reason and a cure. They carry a `Span` if the kernel came from Python source.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from types import FrameType

PACKAGE = __name__.partition(".")[0]
"""Name of the outermost package that this module belongs to."""


@dataclass(frozen=True)
class Span:
    """Represent a place in a source file.

    Attributes:
        file: Name of the file.
        line: Number of the line, from 1.
        column: First column, from 0.
        end_column: The column after the last one.
        text: Text of the line.
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    text: str = ""

    def render(self) -> str:
        """Return `file:line:column`, and the line with carets under the columns."""
        head = f"{self.file}:{self.line}:{self.column + 1}"
        if not self.text.strip():
            return head
        indent = len(self.text) - len(self.text.lstrip())
        start = max(self.column - indent, 0)
        width = max(1, min(self.end_column, len(self.text)) - self.column)
        return f"{head}\n    {self.text.strip()}\n    {' ' * start}{'^' * width}"


def short_repr(value: object, most: int = 80) -> str:
    """Return what a message shows of a value: the begin of its `repr`, or its class if it has no `repr`.

    Python writes no integers of thousands of digits, so the number of bits is shown for these.

    Args:
        value: The value.
        most: Largest number of characters of the `repr`.
    """
    try:
        return repr(value)[:most]
    except Exception:
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"<{type(value).__name__}>"


class StackgradError(Exception):
    """This is the base class of everything that this package raises on purpose."""


@dataclass(frozen=True)
class Diagnostic:
    """Represent one error in a kernel: the place, what is wrong, and how to cure it.

    Attributes:
        reason: What is wrong, as a sentence without its end.
        cure: What the user can do.
        span: The place; None for a kernel that was given as IR text.
    """

    reason: str
    cure: str = ""
    span: Span | None = None

    def render(self) -> str:
        """Return the message, with the line of the source and the cure."""
        place = self.span.render() if self.span else "<kernel given as IR text>"
        lines = place.splitlines()
        body = [f"{lines[0]}: {self.reason}", *lines[1:]]
        if self.cure:
            body.append(f"    cure: {self.cure}")
        return "\n".join(body)


class LocatedError(StackgradError):
    """This error is about a kernel of the user. It may carry several diagnostics, which are reported together.

    Attributes:
        diagnostics: The diagnostics.
    """

    def __init__(self, reason: str | list[Diagnostic], cure: str = "", span: Span | None = None) -> None:
        self.diagnostics = [Diagnostic(reason, cure, span)] if isinstance(reason, str) else list(reason)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class KernelSyntaxError(LocatedError):
    """The kernel contains a construct of Python that is not part of the kernel language."""


class KernelTypeError(LocatedError):
    """The types of operands, indices or arguments do not fit."""


class NotDifferentiable(LocatedError):
    """The gradient does not exist, or would be silently wrong, for a stated reason."""


class Unsupported(LocatedError):
    """The program is valid, but this version or this backend cannot run it yet."""


class OutOfBounds(StackgradError, IndexError, AssertionError):
    """An index is outside its array. Programs of the dialect expect an AssertionError."""


CURE_OF_INDEX = "guard the access by a condition, or check the loop bounds and the index arithmetic"
"""Cure for an index outside its array in a kernel."""


class KernelAssertionError(StackgradError, AssertionError):
    """An `assert` inside a kernel failed."""


class ClaimError(NotDifferentiable, KernelAssertionError):
    """Two iterations meet that do not meet according to a claim of the program, `assume_unique`."""


class DivisionByZero(StackgradError, ZeroDivisionError):
    """The divisor of an integer division or modulo is zero, which the reference and `debug=True` detect."""


class AdstackOverflow(StackgradError):
    """A kernel pushed past the capacity of an adstack.

    Nothing was written outside the adstack, and the gradients of this launch are void.
    """


class DeviceError(StackgradError):
    """The device or its driver refused a request."""


class VerifyError(StackgradError):
    """The IR breaks a rule of its stage, because a pass has a defect or a text kernel is wrong."""


class ParseError(StackgradError):
    """A text of IR does not parse.

    Attributes:
        span: The place, if it is known; its file is the name that the text was given.
    """

    def __init__(self, reason: str, cure: str = "", span: Span | None = None) -> None:
        self.span = span
        super().__init__(Diagnostic(reason, cure, span).render() if span else reason)


class InternalError(StackgradError):
    """The compiler has a defect. The error carries the IR concerned."""


# ---- warnings -----------------------------------------------------------------------------------------------


def outer_frame() -> FrameType | None:
    """Return the innermost frame outside this package, which is where the program of the user called the package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return frame


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user's program that led here. Nothing else in this package warns."""
    level, frame, outer = 1, sys._getframe(0), outer_frame()
    while frame is not outer and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
