"""Test that every table with a fixed set of keys has an entry, or a declared hole, for every key.

Each missing entry fails a test with an id such as `llvm-hypot`. The text tests are checked as well: they must have one
file for each operation, and show every statement.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import project_tree as tree
import pytest
from stackgrad.compiler.ir import form
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.statement import Stmt
from stackgrad.compiler.ir.table import TABLES, Table
from stackgrad.harness.tools.recipes.steps import UNWRITTEN
from stackgrad.runtime.session import RUNTIME

LEAST_REASON = 10
"""Letters below which a reason says nothing."""


@cache
def import_everything() -> dict[str, str]:
    """Import every module of the package, so that every table is filled. Gives the errors by module."""
    errors = {}
    truth = RUNTIME.matrix_truth  # A module for programs of the peers sets it for the whole process.
    for name in sorted(tree.modules()):
        if name.rpartition(".")[2] != "__main__":
            try:
                importlib.import_module(name)
            except Exception as error:  # whatever it is, one test names it
                errors[name] = f"{type(error).__name__}: {error}"
    RUNTIME.matrix_truth = truth
    return errors


@cache
def tables() -> tuple[Table[Any, Any], ...]:
    """Every table of the package, as they are when the tests are collected."""
    import_everything()
    return tuple(TABLES)


def key_text(key: object) -> str:
    """An operation is named by itself, a statement class or a type by its name."""
    return str(getattr(key, "__name__", None) or getattr(key, "name", None) or key)


def cells() -> Iterator[Any]:
    for table in tables():
        for key in table.keys:
            yield pytest.param(table, key, id=f"{table.name}-{key_text(key)}")


def weak_holes(table: Table[Any, Any]) -> list[str]:
    """Declared holes that are no keys, or that give no reason."""
    return [
        key_text(key)
        for key, reason in table.holes.items()
        if key not in table.keys or len(reason.strip()) < LEAST_REASON
    ]


def keyword(cls: type[Stmt]) -> str:
    """The literal word that a statement's text starts with, after its results; an operation starts with its name."""
    words = [t.text for t in form.tokens(cls) if isinstance(t, form.LiteralToken) and t.text.isidentifier()]
    return words[0] if words else f"(?:{'|'.join(OPS)})"


def statements_shown(text: str) -> set[str]:
    """Names of the statement classes that a text of the IR holds, outside comments."""
    code = "\n".join(line.partition("//")[0] for line in text.splitlines())
    return {
        name for name, cls in STATEMENTS.items() if re.search(rf"(?m)(?:^|=|[{{}}])\s*{keyword(cls)}(?![\w.])", code)
    }


def files_and_operations(files: Iterable[str], operations: Mapping[str, object]) -> list[str]:
    """Operations without a file of their own, and files of no operation."""
    have, want = set(files), set(operations)
    return [
        *(f"tests/ops/{name}.kir is missing" for name in sorted(want - have)),
        *(f"tests/ops/{name}.kir names no operation" for name in sorted(have - want)),
    ]


def kir_files() -> list[Path]:
    return [path for path in tree.project_files() if path.suffix == ".kir"]


def test_every_module_can_be_imported() -> None:
    assert import_everything() == {}


@pytest.mark.parametrize(("table", "key"), list(cells()))
def test_row(table: Table[Any, Any], key: object) -> None:
    where = f"{table.unwritten_at.get(key, table.module)}: {table.about}"
    assert key not in table.missing(), f"table {table.name} has no row for {key_text(key)} or a hole; {where}"


@pytest.mark.parametrize("name", OPS)
def test_edge_cases_are_described(name: str) -> None:
    assert not OPS[name].edges.startswith(UNWRITTEN), (
        f"the row of {name} in {result_type.__module__}:OPS is not written"
    )


def test_every_table_says_what_its_rows_mean() -> None:
    assert not [table.name for table in tables() if len(table.about) < LEAST_REASON]


def test_unwritten_rows_are_missing_and_say_where_they_are() -> None:
    table = detached_table()
    table.update({"sin": 1, "tan": 3})
    row = table.unwritten("cos")
    table["cos"] = row  # type: ignore[assignment]
    assert table.missing() == ["cos"]
    with pytest.raises(NotImplementedError, match=r"table test: the row of 'cos' .*test_tables.py:"):
        row(1.0)


def test_there_are_tables() -> None:
    names = [table.name for table in tables()]
    assert len(names) == len(set(names)), "two tables of one name"
    assert len(names) >= 4


def test_holes_are_declared_with_a_reason() -> None:
    assert {t.name: weak_holes(t) for t in tables() if weak_holes(t)} == {}


def test_every_operation_has_its_file() -> None:
    found = [path.stem for path in kir_files() if tree.relative(path.parent) == "tests/ops"]
    wrong = files_and_operations(found, OPS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", list(STATEMENTS))
def test_every_statement_is_shown(name: str) -> None:
    assert any(name in shown for shown in map(_shown, kir_files())), f"no .kir file under tests/ contains {name}"


@cache
def _shown(path: Path) -> frozenset[str]:
    return frozenset(statements_shown(path.read_text(encoding="utf-8")))


def detached_table(holes: dict[str, str] | None = None) -> Table[str, int]:
    """A table that is not among TABLES."""
    table: Table[str, int] = Table("test", ("sin", "cos", "tan"), holes, about="a number")
    TABLES.remove(table)
    return table


def test_missing_rows_are_found() -> None:
    table = detached_table({"cos": "has no meaning on this target"})
    table["sin"] = 1
    assert table.missing() == ["tan"]
    assert weak_holes(table) == []


def test_weak_holes_are_found() -> None:
    assert weak_holes(detached_table({"cos": "later", "sinh": "has no meaning on this target"})) == ["cos", "sinh"]


def test_files_and_operations_are_compared() -> None:
    assert files_and_operations(["sin", "sinus"], {"sin": 0, "cos": 0}) == [
        "tests/ops/cos.kir is missing",
        "tests/ops/sinus.kir names no operation",
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("%1: f32 = get x", {"Get"}),
        ("%1: f32 = get_element x[%0]", {"GetElement"}),
        ("%1: f32 = adstack_load_top_adj s", {"StackTopAdjoint"}),
        ("%1: f32 = sin %0 // get x", {"Op"}),
        ("  if %1 {\n    return\n  }", {"If", "Return"}),
        ("if %1 { break 1 }", {"If", "Break"}),
        ("// return", set()),
        ("set get, %1", {"Set"}),
    ],
)
def test_statements_are_recognized(text: str, names: set[str]) -> None:
    assert statements_shown(text) == names


def test_every_form_has_a_word_of_its_own() -> None:
    words = [keyword(cls) for cls in STATEMENTS.values()]
    assert len(words) == len(set(words))
