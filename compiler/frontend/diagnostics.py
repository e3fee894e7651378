"""Mistakes in a kernel: raised where they are found, collected, and reported together.

Invariant: a mistake is reported once per place, however often the code around it is unrolled or inlined.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

from ..errors import Diagnostic, KernelSyntaxError, KernelTypeError, LocatedError, Span, Unsupported


class Problem(Exception):
    """One mistake, on its way to the statement or expression that recovers from it.

    kind: the class of the error if it is the only one. node: the place, if not the expression being evaluated.
    """

    def __init__(self, kind: type[LocatedError], reason: str, cure: str = "", node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.cure, self.node = kind, reason, cure, node


class Poisoned(Exception):
    """An operand is poison: the mistake was reported where it happened."""


def syntax(reason: str, cure: str = "", node: ast.AST | None = None) -> Problem:
    """A construct outside the language, or used where it cannot stand."""
    return Problem(KernelSyntaxError, reason, cure, node)


def mistyped(reason: str, cure: str = "", node: ast.AST | None = None) -> Problem:
    """Operands whose types or ranks do not fit."""
    return Problem(KernelTypeError, reason, cure, node)


def unsupported(reason: str, cure: str = "", node: ast.AST | None = None) -> Problem:
    """A valid program that this version cannot compile."""
    return Problem(Unsupported, reason, cure, node)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or nothing."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=0.6)
    return f"did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""


class Diagnostics:
    """Collects mistakes and warnings of one kernel."""

    def __init__(self) -> None:
        self._errors: dict[Diagnostic, type[LocatedError]] = {}
        self._places: set[tuple[str, Span]] = set()
        self._warnings: dict[Diagnostic, None] = {}

    def error(self, problem: Problem, span: Span, context: str = "") -> None:
        """Record a mistake; `context` says which call it was inlined by."""
        if (problem.reason, span) not in self._places:
            self._places.add((problem.reason, span))
            self._errors[Diagnostic(problem.reason + context, problem.cure, span)] = problem.kind

    def warn(self, reason: str, cure: str, span: Span) -> None:
        """Record a warning."""
        self._warnings.setdefault(Diagnostic(reason, cure, span))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(self._warnings)

    def raise_errors(self, file: str) -> None:
        """Raise one error with all mistakes in order of line, those of `file` first; nothing if there are none."""
        if not self._errors:
            return
        kinds = set(self._errors.values())
        kind = kinds.pop() if len(kinds) == 1 else KernelSyntaxError
        raise kind(sorted(self._errors, key=lambda d: _order(d.span, file)))


def _order(span: Span | None, file: str) -> tuple[bool, str, int, int]:
    assert span is not None
    return span.file != file, span.file, span.line, span.column
