"""Test that tests of backends contain no tolerances: results must be equal, or within bounds (recorded_support.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import project_tree as tree
import pytest

JUDGED = ("backends", "cuda", "findings", "frontend", "kernels", "metal", "runtime", "spirv", "vulkan")
FOLDERS = tuple(f"tests/{name}" for name in JUDGED)
WAIVED = {
    "tests/runtime/returned_support.py": "closed forms of programs whose order decides, which have no bounds",
    "tests/runtime/short_stacks.py": "gross differences of wild values, after an overflow on purpose",
    "tests/runtime/test_profile.py": "sums of seconds",
    "tests/runtime/test_state_rules.py": "central differences; a thousand steps of one launch each",
    "tests/runtime/test_tape_overwrites.py": "central differences",
}
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
    found = {name: lines for name, path in judged.items() if (lines := sorted(chosen(tree.syntax(path))))}
    wrong = {name: lines for name, lines in found.items() if name not in WAIVED}
    assert not wrong, f"compare within error bounds, `near` of tests/recorded_support.py: {wrong}"
    assert found.keys() == WAIVED.keys(), "waived, but chooses nothing"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("np.testing.assert_allclose(a, b, rtol=1e-6)", 1),
        ("assert a == pytest.approx(b)", 1),
        ("math.isclose(a, b)", 1),
        ("from numpy import allclose as same\nsame(a, b)", 0),
        ("assert np.allclose(a, b)", 1),
        ("near(known, name, a)", 0),
        ("np.testing.assert_array_equal(a, b)", 0),
    ],
)
def test_choices_are_seen(line: str, count: int) -> None:
    assert len(list(chosen(ast.parse(line)))) == count
