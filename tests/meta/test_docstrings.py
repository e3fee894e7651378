"""Test that docstrings exist where docs/style.md asks for them, and begin with a line that can be a sentence.

A reader must judge whether the sentence is true and plain; ruff's rules D judge layout and imperative mood.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import project_tree as tree
import pytest

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Described = Documented | ast.Module

UNJUDGED = ("tests/", "examples/", "docs/")
"""Folders whose docstrings are not held to docs/style.md."""

OPENER = re.compile(r"(?!(?:What|Whether|Of|As|Where|How|Why|Also|Those|Such)\b)[A-Z0-9`]")
"""Beginning of a docstring: no word that stands in place of a subject or verb."""


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


def badly_begun(source: ast.Module) -> Iterator[str]:
    """Yield each docstring of a module, class or function whose first line begins or ends as no sentence does."""
    for node in ast.walk(source):
        if isinstance(node, Described) and (text := ast.get_docstring(node)) is not None:
            line = text.partition("\n")[0]
            if not OPENER.match(line) or not line.endswith((".", ":")):
                yield f"{getattr(node, 'lineno', 1)}: {getattr(node, 'name', 'module')}: {line}"


def test_modules() -> None:
    wrong = [tree.relative(p) for p in tree.python_files() if not ast.get_docstring(tree.syntax(p))]
    assert not wrong, "no module docstring:\n" + "\n".join(wrong)


def judged_files() -> dict[str, ast.Module]:
    paths = {tree.relative(path): path for path in tree.python_files()}
    return {name: tree.syntax(path) for name, path in paths.items() if not name.startswith(UNJUDGED)}


def test_public_names() -> None:
    wrong = [f"{path}:{name}" for path, source in judged_files().items() for name in undocumented(source)]
    assert not wrong, "no docstring:\n" + "\n".join(wrong)


def test_first_lines() -> None:
    files = judged_files()
    assert len(files) > 500
    wrong = [f"{path}:{line}" for path, source in files.items() for line in badly_begun(source)]
    assert not wrong, "see docs/style.md:\n" + "\n".join(wrong)


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


def test_bad_first_lines_are_found() -> None:
    bad = [
        *(f"{word} the words count." for word in "What Whether Of As Where How Why Also Those Such".split()),
        "return the depth.",
        "_cut: set the indices.",
        "",
        "Return the depth",
        "Return the depth of each\nadstack.",
    ]
    good = ["Return the depth.", "`x` is read.", "Ask for a depth.", "2 is the depth.", "Do one of these:\n\n    a"]
    for node in ("{}", "class A:\n    {}", "def f():\n    {}", "class A:\n  async def _f():\n    def g():\n      {}"):
        assert [line for line in bad if not list(badly_begun(ast.parse(node.format(repr(line)))))] == []
        assert [line for line in good if list(badly_begun(ast.parse(node.format(repr(line)))))] == []
