"""Register kernels with one mistake each, and check the error that each raises.

The line that contains the mistake ends in the comment `# here`; `at` is the source text to which the error points.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frontend_support import failure, marked
from stackgrad.compiler.errors import LocatedError


class Mistakes(list[Any]):
    """Hold the mistakes of one module; an instance is a decorator of their kernels."""

    def __call__(self, kind: type[LocatedError], reason: str, at: str, cure: str = "") -> Callable[[Any], Any]:
        """Register a kernel with its error: class, parts of reason and cure, and the source text under the carets."""

        def enter(function: Any) -> Any:
            self.append(pytest.param(function, kind, reason, at, cure, id=function.__name__))
            return function

        return enter


def check_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    """Assert that a kernel raises one diagnostic with these parts at the marked line of its file."""
    error = failure(function, kind)
    (found,) = error.diagnostics
    assert reason in found.reason
    assert cure in found.cure
    assert at in (marked(error), marked(error).partition("  #")[0])
    file = function.__code__.co_filename
    assert found.span is not None and found.span.file == file
    line = Path(file).read_text(encoding="utf-8").splitlines()[found.span.line - 1]
    assert line == found.span.text and line.endswith("# here")
    assert found.span.render().splitlines()[1:] == str(error).splitlines()[1:-1]
