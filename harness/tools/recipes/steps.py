"""List the edits, besides table entries, that an author makes to add an operation, statement class or backend.

Places in the package are given as objects, so that a renamed module changes the page and not this list. Tests are given
as paths; a test says when one of them does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import ModuleType

from ....backends import base, limits, registry
from ....compiler.analysis import interval_rules
from ....compiler.frontend import calls, functions
from ....compiler.ir import nodes, roles, stages
from ....compiler.passes import simplify
from ...testing import executors
from ..golden import code
from .tables import place, root

UNWRITTEN = "UNWRITTEN:"
"""Beginning of each text that somebody has to replace."""


@dataclass(frozen=True)
class Step:
    """Represent an edit that an author makes by hand: the module or file, the name in it, and what to do.

    Attributes:
        of: module or path (from the root) that holds the place; `{name}` in a path stands for the new thing.
        name: name at the top of the module or file, or an empty text for the file as a whole.
        about: what to do.
    """

    of: ModuleType | str
    name: str
    about: str

    def path(self) -> str:
        """Return the path of the file to edit, relative to the root of the checkout."""
        return self.of if isinstance(self.of, str) else place(self.of, self.name).relative()

    def line(self) -> int:
        """Return the line number of the name to edit, or 1 if the whole file is meant.

        Raises:
            LookupError: the file does not have the name.
        """
        if not self.name:
            return 1
        if not isinstance(self.of, str):
            return place(self.of, self.name).line
        lines = (root() / self.of).read_text(encoding="utf-8").splitlines()
        pattern = re.compile(rf"(?:def |class )?{re.escape(self.name)}\b")
        for number, line in enumerate(lines, 1):
            if pattern.match(line):
                return number
        raise LookupError(f"{self.of} does not have {self.name}")

    def where(self, name: str = "") -> str:
        """Return the text `path:line` of the edit, for output in a terminal."""
        return f"{self.path().format(name=name)}:{self.line()}"

    def link(self) -> str:
        """Return a Markdown text with path and name of the code to edit, for docs/recipes.md."""
        return f"`{self.path().format(name='NAME')}{':' + self.name if self.name else ''}`"


_SECOND = "tests/ad_api/test_second_order_ops.py"
OPERATION_STEPS = (
    Step(_SECOND, "SECONDS", "the second derivative, if it has a first one and one operand"),
    Step(_SECOND, "PAIRS", "the second derivatives, if it has two operands"),
    Step(_SECOND, "FLAT", "the function, if its kind is flat"),
    Step("tests/reference/test_integers.py", "UNARY", "the meaning on Python integers, if it takes one integer"),
    Step("tests/reference/test_integers.py", "BINARY", "the meaning on Python integers, if it takes two"),
    Step(interval_rules, "EXACT", "add `{name}` if it does not round reals"),
    Step(simplify, "COMMUTATIVE", "add `{name}` if its operands may change places"),
    Step(functions, "FUNCTIONS", "its meaning outside kernels, if users call it"),
    Step(
        calls, "LOWERINGS", "its lowering, if users call it (mathematical functions: `_unary` in the module beside it)"
    ),
    Step("src/stackgrad/language.pyi", "sin", "its signature for type checkers, if users call it"),
    Step("docs/dialect.md", "", "a row with the test that shows it, if users call it"),
    Step("docs/support.md", "", "is made anew by `python tests/docs/support_page.py`"),
    Step("CHANGELOG.md", "", "a line"),
)
"""What an operation touches beside tables and text test."""

STATEMENT_STEPS = (
    Step(
        nodes, "STATEMENTS", "a class with its `FORM`, decorated with `statement`; printing, parsing and walking follow"
    ),
    Step(stages, "STAGES", "the stages at which a kernel may contain it, if not all"),
    Step("tests/statements/{name}.kir", "", "kernels that show it, traps included"),
    Step(roles, "ACCESSES", "its roles, here and below; a test compares them with its effects"),
    Step("tests/ir/test_effects.py", "sample", "a statement of the class"),
    Step("docs/ir.md", "", "its meaning"),
    Step("docs/support.md", "", "is made anew by `python tests/docs/support_page.py`"),
    Step("CHANGELOG.md", "", "a line"),
)
"""What a statement touches beside tables."""

PASS_STEPS = (
    Step(
        "compiler/passes/{name}.py",
        "",
        "a function from kernel to kernel, with a sketch on top; it returns the same object if nothing changes",
    ),
    Step("tests/passes", "", "a file of tests: what it changes, what it leaves alone, and that results stay the same"),
    Step("ci/golden.sh", "", "shows which generated code changes; explain each change"),
    Step("CHANGELOG.md", "", "a line, if users see a difference"),
)
"""What a pass touches beside the pipelines of the driver."""

BACKEND_STEPS = (
    Step(base, "Backend", "a class with these methods"),
    Step(registry, "BACKENDS", "its registration, from which executors, `init`, tests and the support page follow"),
    Step(limits, "LIMITS", "what it cannot do, with reason, cure and example"),
    Step("tests/backends/test_registry.py", "GENERATORS", "how its code is made, for the examples of its limits"),
    Step("tests/docs/sizing_page.py", "COLUMNS", "a column, if it launches"),
    Step("ci/matrix.toml", "", "a row for a machine that has the device"),
    Step("pyproject.toml", "", "its packages, and an extra if it needs a library"),
    Step("ci/contracts.toml", "", "its place in the layers"),
    Step(executors, "EMULATED", "an executor, if an emulator stands in for the device"),
    Step(code, "GENERATORS", "its generator, so that moves of files are proved to change none of its code"),
    Step("docs/support.md", "", "is made anew by `python tests/docs/support_page.py`"),
    Step("docs/index.md", "", "its page"),
    Step("CHANGELOG.md", "", "a line"),
)
"""What a backend touches."""
