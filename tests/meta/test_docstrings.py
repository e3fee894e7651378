"""Every module says what it decides; every public function and class of the package says what it gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import project_tree as tree
import pytest

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_table_row(node: Documented) -> bool:
    """Whether a decorator enters the function in a table (`@TABLE.row(key)`): the table documents its rows."""
    return any(
        isinstance(d, ast.Call) and isinstance(d.func, ast.Attribute) and d.func.attr == "row"
        for d in node.decorator_list
    )


def is_overload(node: Documented) -> bool:
    """Whether the definition tells type checkers one signature: the function itself follows, with its docstring."""
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


def undocumented(source: ast.Module) -> Iterator[str]:
    """Public names at the top of a module that carry no docstring."""
    for node in source.body:
        public = isinstance(node, Documented) and not node.name.startswith("_")
        if public and not ast.get_docstring(node) and not is_table_row(node) and not is_overload(node):
            yield f"{node.lineno}: {node.name}"


def test_modules() -> None:
    wrong = [tree.relative(p) for p in tree.python_files() if not ast.get_docstring(tree.syntax(p))]
    assert not wrong, "no module docstring:\n" + "\n".join(wrong)


def test_public_names_of_the_package() -> None:
    wrong = [
        f"{tree.relative(path)}:{name}" for path in tree.modules().values() for name in undocumented(tree.syntax(path))
    ]
    assert not wrong, "no docstring:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass", ["1: f"]),
        ("class A:\n    x = 1", ["1: A"]),
        ("async def f(): pass", ["1: f"]),
        ('def f():\n    """Gives x."""', []),
        ("def _f(): pass", []),
        ("@TABLE.row('sin')\ndef sin(x): return x", []),
        ("@overload\ndef f(x: int) -> int: ...\n\ndef f(x): return x", ["4: f"]),
        ("@cache\ndef f(x): return x", ["2: f"]),
    ],
)
def test_missing_docstrings_are_found(source: str, names: list[str]) -> None:
    assert list(undocumented(ast.parse(source))) == names
