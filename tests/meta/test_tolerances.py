"""Tests of backends choose no tolerances: results are within error bounds (recorded_support.py), or equal."""
from __future__ import annotations

import ast
from collections.abc import Iterator

import project_tree as tree
import pytest

JUDGED = ("backends", "cuda", "findings", "frontend", "metal", "spirv", "vulkan")
FOLDERS = tuple(f"tests/{name}" for name in JUDGED)
COMPARING = {"allclose", "approx", "assert_allclose", "isclose"}
"""Functions that take a tolerance, or have one if they are given none."""


def chosen(source: ast.AST) -> Iterator[int]:
    """Lines that compare within a tolerance."""
    for node in ast.walk(source):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in COMPARING:
            yield node.lineno


def test_no_tolerance_is_chosen() -> None:
    judged = {tree.relative(p): p for p in tree.python_files() if tree.relative(p).startswith(FOLDERS)}
    assert {name.rsplit("/", 1)[0] for name in judged} >= set(FOLDERS)
    found = [f"{name}:{line}" for name, path in judged.items() for line in chosen(tree.syntax(path))]
    assert not found, "compare within error bounds, `near` of tests/recorded_support.py: " + ", ".join(found)


@pytest.mark.parametrize(("line", "count"), [
    ("np.testing.assert_allclose(a, b, rtol=1e-6)", 1), ("assert a == pytest.approx(b)", 1), ("math.isclose(a, b)", 1),
    ("from numpy import allclose as same\nsame(a, b)", 0), ("assert np.allclose(a, b)", 1),
    ("near(known, name, a)", 0), ("np.testing.assert_array_equal(a, b)", 0),
])  # fmt: skip
def test_choices_are_seen(line: str, count: int) -> None:
    assert len(list(chosen(ast.parse(line)))) == count
