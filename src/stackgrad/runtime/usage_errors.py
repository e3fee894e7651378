"""Define the errors of host code: each has the mistake of the runtime's caller as its cause, and a cure.

Errors about the text of a kernel are in `compiler/errors.py` and carry a source span. The errors of this module point
at no kernel, because the Python traceback shows the line. Refused gradients show the line in the message as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ..compiler.errors import Diagnostic, LocatedError, StackgradError


class UsageError(StackgradError):
    """A misuse of the runtime; the message is the reason, followed by the cure."""

    def __init__(self, reason: str, cure: str = "") -> None:
        self.reason = reason
        self.cure = cure
        super().__init__(f"{reason}\n    cure: {cure}" if cure else reason)


class OptionError(UsageError, TypeError):
    """An option of `init` is unknown, or has a value that it does not take."""


class FieldError(UsageError, ValueError):
    """A field is made, read or written with a dtype, shape, rank or value that does not fit."""


class MatrixError(UsageError, ValueError):
    """A vector or matrix of the host is made, indexed or combined with a shape or value that does not fit."""


class StructError(UsageError, ValueError):
    """A struct of the host, or its type, has members that do not fit."""


class GradientError(UsageError, AttributeError):
    """The gradient of a field is used, and the field has none."""


class StaleFieldError(UsageError):
    """A field is used that was made before the last `init` or `reset`."""


class ArgumentError(UsageError, TypeError):
    """An argument does not fit, for example the argument of a kernel that is given as text."""


class ViewError(LocatedError, TypeError, ValueError):
    """A view has elements that the array does not have, or is made of something that is no array of one axis.

    The message shows the caller's line. Programs of the dialect expect a ValueError for the first mistake and a
    TypeError for the second.
    """


class MissingPackage(UsageError, ImportError):
    """A package that a call needs is not installed; programs expect an ImportError."""


def import_optional(module: str, name: str, extra: str) -> Any:
    """Import and return a module of an optional package.

    Args:
        module: The name of the module.
        name: The name of the package for the message.
        extra: The extra of stackgrad that installs the package.

    Raises:
        MissingPackage: The package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as missing:
        raise MissingPackage(f"{name} is not installed", f"pip install 'stackgrad[{extra}]'") from missing


class TapeError(UsageError):
    """A tape, or another mode of differentiation, is entered twice, has an unfit loss, or exceeds its budget.

    Attributes:
        span: The line of the caller's program, which the message shows like an error about the text of a kernel.
    """

    def __init__(self, reason: str, cure: str = "") -> None:
        from ..compiler.frontend.refused_names import caller_span

        super().__init__(reason, cure)
        self.span = caller_span()
        if self.span is not None:
            self.args = (Diagnostic(reason, cure, self.span).render(),)


class KernelWarning(UserWarning):
    """A kernel probably does not do what its author intended."""


def close_names(name: str, known: Sequence[str] | Mapping[str, str]) -> str:
    """Return the hint `did you mean a, b?`, or the empty string if no known name is close.

    Args:
        name: The name that is not known.
        known: The names that are; a mapping says how the hint writes each of them.
    """
    found = get_close_matches(name, known, n=3)
    shown = [known[match] for match in found] if isinstance(known, Mapping) else found
    return f"did you mean {', '.join(shown)}?" if shown else ""
