"""Make the text of docs/recipes.md, the page on how to add an operation, statement, pass or backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ....compiler import driver
from ....compiler.ir.table import Table
from .backend_names import names, places
from .steps import BACKEND_STEPS, OPERATION_STEPS, PASS_STEPS, STATEMENT_STEPS, Step
from .tables import coverage, of_kind, place_of, root

HEAD = """\
# Recipes

How to add an operation, a statement, a pass or a backend: every place that is touched. The page is generated from the
tables themselves; after a change of one, run `python -m stackgrad.harness.tools.recipes`. A test fails while the page
is stale. `tests/meta/test_tables.py` names each row that is missing.
"""
OPERATION = """\
## An operation

`stackgrad new-op NAME --like OTHER` writes the rows of these tables, each of which fails with its place until somebody
writes it, and `tests/ops/NAME.kir`. It then prints what is left, with file and line; `--dry-run` writes nothing.
`tests/cli/test_new_op.py` adds an operation to a copy of the checkout by this recipe, so nothing is left off.

First comes the row of `compiler/ir/ops.py:OPS`: arity, types, kind, edge cases, ulps, safe intervals.
"""
STATEMENT = """\
## A statement

Begin with the class. A table with holes takes a reason in place of a row.
"""
PASS = """\
## A pass
"""
BACKEND = """\
## A backend

Every `.kir` test and every differential test runs on a backend where its `probe()` says that it is available.
"""


def path() -> Path:
    """Return the path of the file docs/recipes.md."""
    return root() / "docs" / "recipes.md"


def text() -> str:
    """Return the text of the page docs/recipes.md."""
    parts = [
        HEAD,
        OPERATION,
        *_tables("operation"),
        "Beside the tables:\n",
        *_steps(OPERATION_STEPS),
        STATEMENT,
        *_steps(STATEMENT_STEPS),
        *_tables("statement"),
        PASS,
        *_steps(PASS_STEPS),
        *_pipelines(),
        BACKEND,
        *_steps(BACKEND_STEPS),
        *_backends(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _tables(kind: str) -> Iterator[str]:
    """Yield Markdown tables of the compiler's tables: those that must get an entry for a new `kind`, then others."""
    tables = of_kind(kind)
    yield from _rows("table", "a row says", "keys", (t for t in tables if not t.optional), _keys)
    yield f"A row may be missing in these; what holds then stands beside it. The {kind} is right without them.\n"
    yield from _rows("table", "a row says", "without a row", (t for t in tables if t.optional), lambda t: t.optional)


def _rows(first: str, second: str, third: str, tables: Iterable[Table[Any, Any]], note: Any) -> Iterator[str]:
    """Yield the lines of a Markdown table with one row for each table of the compiler."""
    yield f"| {first} | {second} | {third} |"
    yield "| --- | --- | --- |"
    for table in tables:
        where = place_of(table)
        yield f"| `{where.relative()}:{where.name}` | {table.about} | {note(table)} |"
    yield ""


def _keys(table: Table[Any, Any]) -> str:
    """Return a note for people on the keys of a table, and on the entries that it derives by itself."""
    follow = any(table.derived(key) for key in table.keys)
    return f"{coverage(table) or 'all'}{'; some rows follow by themselves' if follow else ''}"


def _steps(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the lines of a Markdown list with the edits that an author must make by hand."""
    for step in steps:
        yield f"* {step.link()}: {step.about.format(name='NAME')}"
    yield ""


def _pipelines() -> Iterator[str]:
    """Yield the lines of a Markdown table of the driver's pipelines and their passes."""
    yield "Then one line in one of the pipelines of the driver; an order is decided nowhere else:\n"
    yield "| pipeline | passes |"
    yield "| --- | --- |"
    file = Path(driver.__file__).resolve().relative_to(root())
    for name, value in vars(driver).items():
        if isinstance(value, list) and value and all(isinstance(row, tuple) and callable(row[1]) for row in value):
            yield f"| `{file}:{name}` | {', '.join(row[0] for row in value)} |"
    yield ""


def _backends() -> Iterator[str]:
    """Yield Markdown tables of the code that names a backend outside of its folders: project first, then tests."""
    for title, are_tests in (("Places that name a backend today", False), ("Tests that name one", True)):
        yield f"{title} ({', '.join(names())}), apart from its own folders:\n"
        yield "| file | where | names |"
        yield "| --- | --- | --- |"
        for file, found in places().items():
            if file.startswith("tests/") == are_tests:
                where = ", ".join(f"`{name}`" for name in found if name) or "the file"
                named = sorted({name for some in found.values() for name in some})
                yield f"| `{file}` | {where} | {', '.join(named)} |"
        yield ""
