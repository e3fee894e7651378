"""Write a scaffold for a new operation: table entries that fail until they are filled in, and a test file.

Every entry is valid Python, so that the package can be imported and the tests name one missing entry after the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from typing import Any

from ....compiler.ir import ops
from ....compiler.ir.ops import OPS, OpInfo
from ....compiler.ir.table import Table
from .insertion import Insertion, operation_row, row_of_table
from .steps import OPERATION_STEPS, UNWRITTEN, Step
from .tables import of_kind, place, place_of, root
from .text_test import kir_path, kir_text

DEFAULT_LIKE = {1: "sqrt", 2: "atan2"}
"""The operation that a new one is like, by the number of operands."""


class ScaffoldError(Exception):
    """Signal that an operation cannot be scaffolded; the message says why."""


@dataclass(frozen=True)
class Change:
    """Represent one change of a file that the scaffold of a new operation makes.

    Attributes:
        path: file, from the root of the checkout.
        line: number of the first new line.
        title: name of the table or of the file.
        about: what somebody has to write there.
        text: the file with the change.
    """

    path: str
    line: int
    title: str
    about: str
    text: str


@dataclass(frozen=True)
class Plan:
    """Represent the changes for a new operation: those that the scaffold makes, and those that its author makes.

    Attributes:
        changes: places that the scaffold writes.
        derived: reason for each table whose entry follows from something else, by the name of the table.
        steps: what the author must do beside filling in the entries.
    """

    changes: tuple[Change, ...]
    derived: dict[str, str]
    steps: tuple[Step, ...]


def plan(name: str, arity: int | None = None, like: str = "") -> Plan:
    """Return the changes of files that add an operation of this name, modeled on a similar operation.

    Args:
        name: name of the operation in IR text.
        arity: number of operands; None for that of `like`, or 1.
        like: an operation with the same types and the same kind; empty for a smooth function of reals.

    Raises:
        ScaffoldError: the name is taken or no identifier, or `like` does not fit.
    """
    model = _model(name, arity, like)
    known: dict[Path, str] = {}
    changes = [_described(name, model, known)]
    derived = {}
    for table in of_kind("operation"):
        if reason := _reason(table, model, name):
            derived[table.name] = reason
        elif not table.optional:
            changes.append(_row(table, name, model, known))
    changes.append(Change(kir_path(name), 1, "test file", "edge values and adjoints", kir_text(name, model)))
    return Plan(tuple(changes), derived, OPERATION_STEPS)


def write(made: Plan) -> None:
    """Write the changed files of a plan into the checkout."""
    for change in made.changes:
        (root() / change.path).write_text(change.text, encoding="utf-8")


def report(made: Plan, name: str) -> str:
    """Return a text that lists the remaining edits for a new operation, with file and line."""
    lines = ["rows to write:"]
    lines += [f"  {change.path}:{change.line}: {change.title}: {change.about}" for change in made.changes]
    lines += ["rows that follow from others:"]
    lines += [f"  {table}: {reason}" for table, reason in made.derived.items()]
    lines += ["rows that may be missing:"]
    for table in of_kind("operation"):
        if table.optional:
            where = place_of(table)
            lines.append(f"  {where.relative()}:{where.line}: {table.name}: {table.about}; without it {table.optional}")
    lines += ["beside the tables:"]
    lines += [f"  {step.where(name)}: {step.about.format(name=name)}" for step in made.steps]
    return "\n".join(lines)


def _model(name: str, arity: int | None, like: str) -> OpInfo:
    """Return the existing operation on which a new operation is modeled."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ScaffoldError(f"{name!r} is no name of an operation; cure: lower-case letters, digits and underscores")
    if name in OPS:
        raise ScaffoldError(f"there is an operation {name} already; cure: choose another name")
    chosen = like or DEFAULT_LIKE.get(arity or 1, "")
    if chosen not in OPS:
        raise ScaffoldError(f"there is no operation {chosen!r}; cure: name one of {', '.join(OPS)}")
    model = OPS[chosen]
    wanted = arity or "1 or 2"
    if model.arity not in DEFAULT_LIKE or arity not in (None, model.arity):
        raise ScaffoldError(f"{chosen} takes {model.arity} operands; cure: name an operation that takes {wanted}")
    return model


def _reason(table: Table[Any, Any], model: OpInfo, name: str) -> str:
    """Return a text that says why a new operation needs no entry in a table, or "" if it needs one."""
    # A table of some operations alone takes them by what their names begin with.
    prefix = commonprefix(list(table.keys))
    if not name.startswith(prefix) or model.name not in table.keys:
        return f"the table has only operations whose names begin with {prefix}"
    return table.derived(model.name)


def _described(name: str, model: OpInfo, known: dict[Path, str]) -> Change:
    """Return the change that adds the entry of the new operation to OPS."""
    where = place(ops, "_ROWS")
    text = where.path.read_text(encoding="utf-8")
    edges = f"{UNWRITTEN} say in one sentence what happens in edge cases."
    insertion = operation_row(text, model.name, name, edges)
    about = f"name, arity, types, kind, edge cases, ulps, safe intervals; now those of {model.name}"
    return _change(where.path, insertion, "OPS", about, known)


def _row(table: Table[Any, Any], name: str, model: OpInfo, known: dict[Path, str]) -> Change:
    """Return the change that adds the entry of the new operation to one table."""
    where = place_of(table)
    text = known.get(where.path) or where.path.read_text(encoding="utf-8")
    row = table.blank.format(todo=f'{where.name}.unwritten("{name}")', arity=model.arity)
    insertion = row_of_table(text, where.name, model.name, name, row)
    return _change(where.path, insertion, f"table {table.name}", table.about, known)


def _change(path: Path, insertion: Insertion, title: str, about: str, known: dict[Path, str]) -> Change:
    """Return the change that inserts a row of the new operation into a file, which `known` has with earlier changes."""
    text = insertion.apply(known.get(path) or path.read_text(encoding="utf-8"))
    known[path] = text
    return Change(path.relative_to(root()).as_posix(), insertion.line, title, about, text)
