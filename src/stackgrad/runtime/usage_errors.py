"""Define the errors for wrong uses of the library outside of kernels; each has a reason and a cure.

Errors about the text of a kernel are in `compiler/errors.py` and have a source location. The errors of this module have
none, because the Python traceback shows the line; only errors of tapes and views show the caller's line in the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ..compiler.errors import Diagnostic, ExecutionError, LocatedError


class UsageError(ExecutionError):
    """Signal a wrong use of the library outside of kernels; the message has a reason and a cure."""

    def __init__(self, reason: str, cure: str = "") -> None:
        self.reason = reason
        self.cure = cure
        super().__init__(f"{reason}\n    cure: {cure}" if cure else reason)


class OptionError(UsageError, TypeError):
    """Signal that an option, such as one of `init`, is unknown or has an invalid value."""


class FieldError(UsageError, ValueError):
    """Signal that a field is made, read or written with an unfit dtype, shape, rank or value."""


class MatrixError(UsageError, ValueError):
    """Signal that a vector or matrix outside of kernels is used with an unfit shape or value."""


class StructError(UsageError, ValueError):
    """Signal that a struct outside of kernels, or its type, has unfit members."""


class GradientError(UsageError, AttributeError):
    """Signal that a program uses the gradient of a field that has none."""


class StaleFieldError(UsageError):
    """Signal that a program uses a field that was made before the last `init` or `reset`."""


class ArgumentError(UsageError, TypeError):
    """Signal that an argument does not fit, for example the argument of a kernel given as IR text."""


class ViewError(LocatedError, TypeError, ValueError):
    """Signal that a view exceeds its array, or that its base is not an array of one axis.

    The message shows the caller's line. Programs of the dialect expect a ValueError for the first mistake and a
    TypeError for the second.
    """


class MissingPackage(UsageError, ImportError):
    """Signal that a call needs a package that is not installed; this error is also an ImportError."""


def import_optional(module: str, name: str, extra: str) -> Any:
    """Import an optional package and return its module. Raise MissingPackage if it is not installed.

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
    """Signal a wrong use of a tape or forward mode, such as an unfit loss or an exceeded memory budget.

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
    """Warn that a kernel probably does not do what its author intended."""


def close_names(name: str, known: Sequence[str] | Mapping[str, str]) -> str:
    """Return the hint `did you mean a, b?`, or the empty string if no known name is close.

    Args:
        name: The name that is not known.
        known: The known names; a mapping gives the form in which the hint shows each name.
    """
    found = get_close_matches(name, known, n=3)
    shown = [known[match] for match in found] if isinstance(known, Mapping) else found
    return f"did you mean {', '.join(shown)}?" if shown else ""
