"""docs/recipes.md is what the tables say, and every place that it names exists."""

from __future__ import annotations

import pytest
from stackgrad.backends import registry
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.table import TABLES, Table
from stackgrad.harness.tools.recipes import backend_names, page, steps, tables

STEPS = (*steps.OPERATION_STEPS, *steps.STATEMENT_STEPS, *steps.PASS_STEPS, *steps.BACKEND_STEPS)


def test_the_page_is_current() -> None:
    found = page.path().read_text(encoding="utf-8")
    assert found == page.text(), "docs/recipes.md is stale: run python -m stackgrad.harness.tools.recipes"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.link())
def test_every_step_has_a_place(step: steps.Step) -> None:
    """A path with NAME stands for a new file in a folder that exists."""
    path = tables.root() / step.path()
    assert path.parent.is_dir() if "{name}" in step.path() else path.exists()
    assert step.line() >= 1


def test_a_step_without_a_place_is_told() -> None:
    with pytest.raises(LookupError, match="does not have no_such_name"):
        steps.Step("tests/ir/test_effects.py", "no_such_name", "").line()


def test_every_table_is_owned() -> None:
    """Each table is a variable at the top of the module that made it, and is of one kind."""
    for kind, keys in (("operation", OPS), ("statement", STATEMENTS)):
        found = tables.of_kind(kind)
        assert len(found) > 10
        for table in found:
            where = tables.place_of(table)
            assert where.module == table.module and where.path.is_file()
            assert len(table.keys) <= len(keys)


def test_partial_tables_say_what_they_lack() -> None:
    found: Table[str, int] = Table("test", [name for name in OPS if name != "sin"], about="a number")
    TABLES.remove(found)
    assert tables.kind_of(found) == "operation" and tables.coverage(found) == "all but sin"
    few: Table[str, int] = Table("test", ["If", "For"], about="a number")
    TABLES.remove(few)
    assert tables.kind_of(few) == "statement" and tables.coverage(few) == "only If, For"


def test_names_of_backends_are_found() -> None:
    found = backend_names.places()
    (where,) = [name for name in found if name.endswith("registry.py") and name.startswith("backends")]
    assert set(found[where]["BACKENDS"]) == set(backend_names.names())
    assert not [
        name
        for name in found
        if name.startswith(("backends/vulkan/", "tests/vulkan/")) and "vulkan" in str(found[name])
    ]
    assert set(backend_names.names()) < set(registry.BACKENDS)
