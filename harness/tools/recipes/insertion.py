"""Insert entries into tables in the source text of Python modules.

A new entry goes after the entry of a similar operation, because tables keep similar operations together. Tables are
written as `TABLE.update({...})` with an entry on each line, or as `TABLE["name"] = ...`; an entry that stands elsewhere
(after a decorator or in another dictionary) is no neighbor, and the new entry then goes after the last entry of the
table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


class NoPlace(Exception):
    """Signal that a source text has no position at which the table entry can be inserted."""


@dataclass(frozen=True)
class Insertion:
    """Represent lines of text to be inserted after a certain line of a file.

    Attributes:
        after: number of the line after which they are inserted.
        lines: the lines to insert.
    """

    after: int
    lines: tuple[str, ...]

    @property
    def line(self) -> int:
        """Return the number that the first inserted line has in the new text."""
        return self.after + 1

    def apply(self, text: str) -> str:
        """Return the text of a file after the insertion of the lines."""
        lines = text.splitlines(keepends=True)
        new = [f"{line}\n" for line in self.lines]
        return "".join([*lines[: self.after], *new, *lines[self.after :]])


def row_of_table(text: str, table: str, like: str, key: str, row: str) -> Insertion:
    """Return the insertion that adds an entry to a table in a source text, next to a similar entry.

    Args:
        text: source text of the module.
        table: name of the variable that holds the table.
        like: key of the entry after which the new one goes.
        key: key of the new entry.
        row: Python text of the new entry.

    Raises:
        NoPlace: the module adds no entry to the table.
    """
    statements = ast.parse(text).body
    items = [item for node in statements for item in _items(node, table)]
    assignments = [node for node in statements if _assigned(node, table) is not None]
    for name, value in items:
        if name == like:
            return _item(text, value, key, row)
    for node in assignments:
        if _assigned(node, table) == like:
            return _assignment(node, table, key, row)
    if items:
        return _item(text, items[-1][1], key, row)
    last = [node for node in statements if _adds(node, table)]
    if not last:
        raise NoPlace(f"no row is added to {table}")
    return _assignment(last[-1], table, key, row)


def _items(node: ast.stmt, table: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keys and values that a statement `table.update({...})` of a module adds to a table."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_update(node.value.func, table)):
        return
    for argument in node.value.args:
        if isinstance(argument, ast.Dict):
            for name, value in zip(argument.keys, argument.values):
                if isinstance(name, ast.Constant):
                    yield str(name.value), value


def _is_update(function: ast.expr, table: str) -> bool:
    """Return True if an expression is `table.update`, the method that adds entries to this table."""
    return ast.unparse(function) == f"{table}.update"


def _assigned(node: ast.stmt, table: str) -> str | None:
    """Return the key of an assignment `table["key"] = ...`, or None for any other statement."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        if ast.unparse(target.value) == table and isinstance(target.slice, ast.Constant):
            return str(target.slice.value)
    return None


def _adds(node: ast.stmt, table: str) -> bool:
    """Return True if a top-level statement adds entries to a table."""
    if isinstance(node, ast.FunctionDef):
        return any(ast.unparse(decorator).startswith(f"{table}.row(") for decorator in node.decorator_list)
    is_update = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_update(node.value.func, table)
    return is_update or _assigned(node, table) is not None


def _item(text: str, value: ast.expr, key: str, row: str) -> Insertion:
    """Return the insertion of `"key": row` into a dictionary display, right after the item with this value."""
    last = value.end_lineno or value.lineno
    first = text.splitlines()[value.lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    return Insertion(last, (f'{indent}"{key}": {row},',))


def _assignment(node: ast.stmt, table: str, key: str, row: str) -> Insertion:
    """Return the insertion of `table[key] = row` after a statement of the module."""
    return Insertion(node.end_lineno or node.lineno, (f'{table}["{key}"] = {row}',))


def operation_row(text: str, like: str, key: str, edges: str) -> Insertion:
    """Return the insertion of an entry into OPS: a copy of another entry with new name and edge-case text.

    Args:
        text: source text of the module of OPS.
        like: the operation whose entry is copied.
        key: name of the new operation.
        edges: sentence on the edge cases.

    Raises:
        NoPlace: the text has no such entry.
    """
    for node in ast.walk(ast.parse(text)):
        # Rows have at least five arguments; a call with fewer that begins with the same name is something else.
        if isinstance(node, ast.Call) and len(node.args) > 4 and ast.unparse(node.args[0]) == repr(like):
            return _copied_row(text, node, {0: key, 4: edges})
    raise NoPlace(f"no row describes {like}")


def _copied_row(text: str, row: ast.Call, changes: dict[int, str]) -> Insertion:
    """Return the insertion of a copy of a table entry in which some arguments are replaced."""
    arguments = [ast.get_source_segment(text, argument) or "" for argument in row.args]
    for position, value in changes.items():
        arguments[position] = f'"{value}"'
    arguments += [f"{k.arg}={ast.get_source_segment(text, k.value)}" for k in row.keywords]
    written = f"{ast.unparse(row.func)}({', '.join(arguments)}),"
    return Insertion(row.end_lineno or row.lineno, (" " * row.col_offset + written,))
