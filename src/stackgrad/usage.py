"""Errors of host code: what the caller of the runtime did wrong, and the cure, in the order cause, cure.

Errors about a kernel's text live in `compiler/errors.py` and carry a source span; these point at no kernel, the
Python traceback shows the line. Refused gradients show it in the message as well.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from .compiler.errors import Diagnostic, LocatedError, StackgradError


class UsageError(StackgradError):
    """A misuse of the runtime. The message is the reason, then how to cure it."""

    def __init__(self, reason: str, cure: str = "") -> None:
        self.reason = reason
        self.cure = cure
        super().__init__(f"{reason}\n    cure: {cure}" if cure else reason)


class OptionError(UsageError, TypeError):
    """An unknown option of `init`, or a value it does not take."""


class FieldError(UsageError, ValueError):
    """A field made, read or written with a wrong dtype, shape, rank or value."""


class MatrixError(UsageError, ValueError):
    """A vector or matrix of the host made, indexed or combined with a shape or value that does not fit."""


class StructError(UsageError, ValueError):
    """A struct of the host, or its type, with members that do not fit."""


class GradientError(UsageError, AttributeError):
    """The gradient of a field that has none."""


class StaleFieldError(UsageError):
    """A field from before the last `init` or `reset`."""


class ArgumentError(UsageError, TypeError):
    """An argument of a kernel given as text that does not fit its parameter."""


class ViewError(LocatedError, TypeError, ValueError):
    """A view of elements that the array does not have, or of what is no array of one axis; at the caller's line.

    Programs of the dialect expect a ValueError for the one and a TypeError for the other.
    """


class MissingPackage(UsageError, ImportError):
    """A package that a call needs and that is not installed. Programs expect an ImportError."""


def imported(module: str, name: str, extra: str) -> Any:
    """A package that is no requirement. name: for the message. extra: of ours that brings it. Raises MissingPackage."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise MissingPackage(f"{name} is not installed", f"pip install 'stackgrad[{extra}]'") from missing


class TapeError(UsageError):
    """A tape, or another mode of differentiation, entered twice, with an unfit loss, or over its budget.

    span: the line of the caller's program, which the message shows as those about a kernel's text do.
    """

    def __init__(self, reason: str, cure: str = "") -> None:
        from .compiler.frontend.refused import caller

        super().__init__(reason, cure)
        self.span = caller()
        if self.span is not None:
            self.args = (Diagnostic(reason, cure, self.span).render(),)


class KernelWarning(UserWarning):
    """A kernel means something that its author may not have meant."""


def close_names(name: str, known: list[str]) -> str:
    """`did you mean a, b?`, or the empty string if nothing known is close."""
    found = get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(found)}?" if found else ""
