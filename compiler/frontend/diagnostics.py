"""This module contains the errors for mistakes in a kernel, and the collector that reports them together.

Invariant: a mistake is reported once per place, however often the code around the place is unrolled or inlined.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

from ..errors import (
    Diagnostic,
    KernelIndexError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    LocatedError,
    Span,
    Unsupported,
)


class ProblemError(Exception):
    """This exception holds one mistake of the user's program until the tracer reports it and continues.

    Attributes:
        kind: class of the final error if this mistake is the only one.
        reason: cause, in one sentence.
        cure: proposal for the user.
        node: place of the mistake; None for the expression being evaluated.
    """

    def __init__(self, kind: type[LocatedError], reason: str, cure: str = "", node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.cure, self.node = kind, reason, cure, node


class PoisonError(Exception):
    """This exception means that an operand is a `Poison`: the mistake in its expression was reported already."""


def syntax_problem(reason: str, cure: str = "", node: ast.AST | None = None) -> ProblemError:
    """Return a `ProblemError` for syntax that is not in the kernel language or stands at a wrong place."""
    return ProblemError(KernelSyntaxError, reason, cure, node)


def type_problem(reason: str, cure: str = "", node: ast.AST | None = None) -> ProblemError:
    """Return a `ProblemError` for operands whose types or ranks do not fit, to be raised as KernelTypeError."""
    return ProblemError(KernelTypeError, reason, cure, node)


def name_problem(reason: str, cure: str = "", node: ast.AST | None = None) -> ProblemError:
    """Return a `ProblemError` for a name that is not known or has no value yet, to be raised as KernelNameError."""
    return ProblemError(KernelNameError, reason, cure, node)


def index_problem(reason: str, cure: str = "", node: ast.AST | None = None) -> ProblemError:
    """Return a `ProblemError` for a constant index outside or too many indices, to be raised as KernelIndexError."""
    return ProblemError(KernelIndexError, reason, cure, node)


def unsupported_problem(reason: str, cure: str = "", node: ast.AST | None = None) -> ProblemError:
    """Return a `ProblemError` for a valid program that this version cannot compile, to be raised as Unsupported."""
    return ProblemError(Unsupported, reason, cure, node)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `did you mean ...?` with names close to `name`, or "" if there is no close name."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=0.6)
    return f"did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""


class Diagnostics:
    """This class collects the mistakes and warnings of one kernel."""

    def __init__(self) -> None:
        self._errors: dict[Diagnostic, type[LocatedError]] = {}
        self._places: set[tuple[str, Span]] = set()
        self._warnings: dict[Diagnostic, None] = {}

    def error(self, problem: ProblemError, span: Span, context: str = "") -> None:
        """Record a mistake of the kernel as an error with its source location, to be raised later.

        Args:
            problem: the mistake.
            span: its place.
            context: text that names the call by which the place was inlined.
        """
        if (problem.reason, span) not in self._places:
            self._places.add((problem.reason, span))
            self._errors[Diagnostic(problem.reason + context, problem.cure, span)] = problem.kind

    def warn(self, reason: str, cure: str, span: Span) -> None:
        """Record a warning on the kernel with its source location, to be shown after tracing."""
        self._warnings.setdefault(Diagnostic(reason, cure, span))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings in order of their first occurrence."""
        return tuple(self._warnings)

    @property
    def has_errors(self) -> bool:
        """Return True if a mistake was recorded."""
        return bool(self._errors)

    def raise_errors(self, file: str) -> None:
        """Raise one error with all mistakes, if there are any.

        Args:
            file: file whose mistakes come first; the order is by file and line.
        """
        if not self._errors:
            return
        raise _common_kind(set(self._errors.values()))(sorted(self._errors, key=lambda d: _order(d.span, file)))


def _common_kind(kinds: set[type[LocatedError]]) -> type[LocatedError]:
    """Return the class of an error that contains mistakes of these classes."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return KernelTypeError if all(issubclass(kind, KernelTypeError) for kind in kinds) else KernelSyntaxError


def _order(span: Span | None, file: str) -> tuple[bool, str, int, int]:
    assert span is not None
    return span.file != file, span.file, span.line, span.column
