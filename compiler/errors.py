"""This module defines every exception of the project, and how an error message shows the user's source line.

The located classes (`KernelSyntaxError`, `KernelNameError`, `KernelTypeError`, `KernelIndexError`, `CallError`,
`NotDifferentiable`, `Unsupported`) always carry a reason and a cure. They carry a `Span` if the kernel came from Python
source. Each is also the exception that Python raises for such a mistake, so `except TypeError` catches a
`KernelTypeError`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

PACKAGE = __name__.partition(".")[0]
"""Name of the outermost package that this module belongs to."""

_BELOW = f"{PACKAGE}."


@dataclass(frozen=True)
class Span:
    """Represent a range of columns in a line of a source file.

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
    """Return a short text for a value in messages: the start of its `repr`, or its class if `repr` fails.

    Python writes no integers of thousands of digits, so the number of bits is shown for these.

    Args:
        value: The object to describe.
        most: Largest number of characters of the `repr`.
    """
    try:
        return repr(value)[:most]
    except Exception:
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"<{type(value).__name__}>"


class StackgradError(Exception):
    """This class is the base of all exceptions that this package raises on purpose."""


@dataclass(frozen=True)
class Diagnostic:
    """Represent one error in a kernel: the place, what is wrong, and how to cure it.

    Attributes:
        reason: What is wrong, as a sentence without a full stop.
        cure: What the user can do.
        span: The place; None for a kernel that was given as IR text.
    """

    reason: str
    cure: str = ""
    span: Span | None = None

    def render(self) -> str:
        """Return the error message with the source line and the cure."""
        place = self.span.render() if self.span else "<kernel given as IR text>"
        lines = place.splitlines()
        body = [f"{lines[0]}: {self.reason}", *lines[1:]]
        if self.cure:
            body.append(f"    cure: {self.cure}")
        return "\n".join(body)


class LocatedError(StackgradError):
    """Signal an error in a kernel of the user, with one or several diagnostics.

    Attributes:
        diagnostics: The errors that were found, each with source location, reason and cure.
    """

    def __init__(self, reason: str | list[Diagnostic], cure: str = "", span: Span | None = None) -> None:
        self.diagnostics = [Diagnostic(reason, cure, span)] if isinstance(reason, str) else list(reason)
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[Callable[..., LocatedError], tuple[Any, ...], dict[str, Any]]:
        """Return a function and arguments by which `pickle` and `copy` make the error again from its diagnostics."""
        return _located, (type(self), self.diagnostics), self.__dict__


class KernelSyntaxError(LocatedError, SyntaxError):
    """Signal that a kernel contains a Python construct that is not part of the kernel language."""


class KernelNameError(LocatedError, NameError):
    """Signal that a kernel uses a name that is not known, or a local that has no value there."""


class KernelTypeError(LocatedError, TypeError):
    """Signal that the types of operands, indices or arguments in a kernel do not fit."""


class KernelIndexError(KernelTypeError, IndexError):
    """Signal that a kernel gives a wrong number of indices, or a constant index that is outside."""


class NotDifferentiable(LocatedError):
    """Signal that a gradient does not exist or would be silently wrong, with the reason."""


class Unsupported(LocatedError):
    """Signal that a valid program cannot be run by this version or this backend."""


class Refusals:
    """Store the located errors of work that always fails in the same way, to raise them again without the work.

    Errors are kept as their diagnostics, so nothing that the work used stays alive, and each error that is raised has a
    traceback of its own.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[type[LocatedError], list[Diagnostic]]] = {}

    def once(self, work: Hashable, do: Callable[[], T]) -> T:
        """Run `do` and return its result; if the same work has failed before, raise an equal error without running it.

        Args:
            work: A key that is equal for the same work.
            do: Function that does the work.
        """
        known = self._known.get(work)
        if known is not None:
            raise _located(*known)
        try:
            return do()
        except LocatedError as error:
            self._known[work] = type(error), list(error.diagnostics)
            raise


def _located(kind: type[LocatedError], diagnostics: list[Diagnostic]) -> LocatedError:
    """Return an error of the class `kind` with these diagnostics, without a call of the constructor of the class.

    Copies of errors are made in this way, because constructors take a reason and not diagnostics.
    """
    error = kind.__new__(kind)
    LocatedError.__init__(error, diagnostics)
    return error


class ExecutionError(StackgradError, RuntimeError):
    """This is the base class of errors while a program runs; the text of a kernel is not at fault."""


class CallError(KernelTypeError, ExecutionError):
    """Signal that the arguments of a call do not fit the parameters of the kernel."""


class CheckError(ExecutionError, AssertionError):
    """This is the base class of errors found by checks in a running kernel."""


class OutOfBounds(CheckError, IndexError):
    """Signal that an index lies outside of its array. Programs of the dialect expect an AssertionError."""


CURE_OF_INDEX = "guard the access by a condition, or check the loop bounds and the index arithmetic"
"""Cure for an index outside its array in a kernel."""


class KernelAssertionError(CheckError):
    """Signal that an `assert` inside of a kernel failed."""


class ClaimError(NotDifferentiable, KernelAssertionError):
    """Signal that two iterations access one element although the program claims that they do not."""


class DivisionByZero(ExecutionError, ZeroDivisionError):
    """Signal an integer division or modulo by zero, which the reference and debug builds detect."""


class AdstackOverflow(ExecutionError):
    """Signal that a kernel pushed more values to an adstack than the adstack has slots.

    Nothing was written outside the adstack, and the gradients of this launch are void.
    """


class DeviceError(ExecutionError):
    """Signal that a device or its driver failed or refused a request, such as an allocation or a launch."""


class VerifyError(StackgradError):
    """Signal that the IR breaks a rule of its stage, by a defect of a pass or a mistake in a kernel given as text."""


class ParseError(StackgradError):
    """Signal that a text in the IR language cannot be parsed.

    Attributes:
        span: The place, if it is known; its file is the name that the text was given.
    """

    def __init__(self, reason: str, cure: str = "", span: Span | None = None) -> None:
        self.span = span
        super().__init__(Diagnostic(reason, cure, span).render() if span else reason)


class InternalError(StackgradError):
    """Signal a defect of the compiler. The error holds the IR concerned."""


# ---- warnings -----------------------------------------------------------------------------------------------


def outer_frame() -> FrameType | None:
    """Return the innermost stack frame outside of this package: the user's call of the package, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str) or not (name.startswith(_BELOW) or name == PACKAGE):
            return frame
        frame = frame.f_back
    return None


class HintWarning(UserWarning):
    """Warn of a hint in a kernel that the compiler cannot follow; no result changes."""


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user's program that called this package."""
    level, frame, outer = 1, sys._getframe(0), outer_frame()
    while frame is not outer and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
