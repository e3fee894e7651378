"""Test that files have at most 400 lines, functions at most 40, and the median function at most 10.

Exceptions are listed here with a reason; a listed exception that is no longer needed fails, too.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator, Mapping

import project_tree as tree
import pytest

FILE_LINES = 400
FUNCTION_LINES = 40
MEDIAN_LINES = 10

WAIVED_FILES: dict[str, str] = {}
WAIVED_FUNCTIONS: dict[str, str] = {}


def functions(source: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Qualified name and length of every function, nested ones too; the first line is that of `def`."""
    for node in ast.iter_child_nodes(source):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = f"{prefix}{node.name}" if named else prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, (node.end_lineno or node.lineno) - node.lineno + 1
        yield from functions(node, f"{name}." if named else prefix)


def too_long(lengths: Mapping[str, int], limit: int, waived: Mapping[str, str]) -> list[str]:
    """What exceeds the limit without a waiver, and waivers that nothing needs."""
    over = {name for name, length in lengths.items() if length > limit}
    return [
        *(f"{name}: {lengths[name]} lines, at most {limit}" for name in sorted(over - set(waived))),
        *(f"{name}: waived, but does not exceed {limit} lines" for name in sorted(set(waived) - over)),
    ]


def file_lengths() -> dict[str, int]:
    return {tree.relative(p): len(p.read_text(encoding="utf-8").splitlines()) for p in tree.python_files()}


def function_lengths() -> dict[str, int]:
    return {
        f"{tree.relative(path)}:{name}": length
        for path in tree.python_files()
        for name, length in functions(tree.syntax(path))
    }


def test_files() -> None:
    wrong = too_long(file_lengths(), FILE_LINES, WAIVED_FILES)
    assert not wrong, "\n".join(wrong)


def test_functions() -> None:
    wrong = too_long(function_lengths(), FUNCTION_LINES, WAIVED_FUNCTIONS)
    assert not wrong, "\n".join(wrong)


def test_median_function_of_the_package() -> None:
    lengths = [length for path in tree.modules().values() for _, length in functions(tree.syntax(path))]
    assert len(lengths) > 50
    assert statistics.median(lengths) < MEDIAN_LINES


@pytest.mark.parametrize(
    ("lengths", "waived", "messages"),
    [
        ({"a": 4}, {}, 0),
        ({"a": 5}, {}, 1),
        ({"a": 5}, {"a": "reason"}, 0),
        ({"a": 4}, {"a": "reason"}, 1),
        ({"a": 4}, {"gone": "reason"}, 1),
    ],
)
def test_limit_and_waivers(lengths: dict[str, int], waived: dict[str, str], messages: int) -> None:
    assert len(too_long(lengths, 4, waived)) == messages


def test_functions_are_measured() -> None:
    source = "class A:\n  @d\n  def f(self):\n    def g():\n      pass\n    return g\nif x:\n  def h(): pass"
    assert dict(functions(ast.parse(source))) == {"A.f": 4, "A.f.g": 2, "h": 1}
