"""Programs that use what the language refuses: one message each, at the marked line, that says what, why and what else.

Every program is a function of the host; the line with the mark `# here` is where its error points.
"""

from __future__ import annotations

import inspect

import pytest
import refused_in_kernels
import refused_on_the_host
import refused_statements
import stackgrad as sg
from refused_support import PROGRAMS, Program
from stackgrad.compiler.errors import LocatedError
from stackgrad.compiler.frontend.refused_names import NAMES, RefusedName


@pytest.fixture(autouse=True)
def runtime() -> None:
    sg.init(arch="reference")


@pytest.mark.parametrize(("program", "kind", "reason", "cure"), PROGRAMS)
def test_refused(program: Program, kind: type[LocatedError], reason: str, cure: str) -> None:
    """One error of the class, its first line `file:line:column: reason`, and the cure under it."""
    lines, first = inspect.getsourcelines(program)
    (line,) = (first + i for i, text in enumerate(lines) if "# here" in text)
    with pytest.raises(LocatedError) as caught:
        program()
    assert type(caught.value) is kind
    assert len(caught.value.diagnostics) == 1
    span = caught.value.diagnostics[0].span
    assert span is not None
    rendered = str(caught.value).splitlines()
    assert rendered[0] == f"{inspect.getfile(program)}:{line}:{span.column + 1}: {reason}"
    assert rendered[2].strip().strip("^") == "" and rendered[2].strip()
    assert cure in rendered[-1] and rendered[-1].startswith("    cure: ")


def test_there_are_thirty_programs() -> None:
    assert len(PROGRAMS) >= 30
    for module in (refused_in_kernels, refused_on_the_host, refused_statements):
        assert any(param.values[0].__module__ == module.__name__ for param in PROGRAMS)


def test_every_refused_name_has_a_reason_and_a_cure() -> None:
    for name, row in NAMES.items():
        assert "{name}" in row.reason and row.cure and not row.cure.endswith(".")
        assert RefusedName(name).reason.startswith(f"`sg.{name}`")
