"""docs/teaching/reverse_mode.py runs, needs NumPy alone, differentiates other kernels too, and notices mistakes."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "docs" / "teaching" / "reverse_mode.py"


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file as a module of its own, which a test may spoil."""
    spec = importlib.util.spec_from_file_location("lesson", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def data(*counts: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {"x": rng.normal(size=len(counts)), "n": np.array(counts), "y": rng.normal(size=len(counts))}


def triangular(i, x, n, y):
    v = x[i]
    for j in range(n[i]):
        for k in range(j, n[i]):
            if v * v < 0.3:
                v = v + x[k] * x[j]
            else:
                v = np.sin(v) * 0.9
    y[i] = v


def shrinking(i, x, n, y):
    # bounds that the loop changes, and an element stored several times
    m = n[i]
    v = x[i]
    for _ in range(m):
        m = m - 1
        for k in range(m):
            v = v * x[m] + v / (2.0 + x[k] * x[k])
        y[i] = v * v
    y[i] += v


def crossing(i, x, n, y):
    # two values that change places, in a loop that may be empty
    a = x[i]
    b = np.exp(a)
    for _ in range(1, n[i]):
        c = a
        a = np.cos(b) * b
        b = c * c
    y[n[i]] += a * b


def linear(i, x, n, y):
    once = x[i] * x[i]
    v = once * once
    for j in range(n[i]):
        v = v + x[j]
    y[i] = v


def in_place(i, x, n, y):
    x[i] = np.exp(x[i])


def test_the_file_runs() -> None:
    found = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert "largest difference" in found.stdout


def test_it_is_short_and_needs_numpy_alone() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    nodes = ast.walk(ast.parse(text))
    loaded = {
        (node.module if isinstance(node, ast.ImportFrom) else name.name) or ""
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert {name.split(".")[0] for name in loaded} <= {*sys.stdlib_module_names, "numpy"}


@pytest.mark.parametrize("function", [triangular, shrinking, crossing, linear])
def test_other_kernels(lesson: Any, function: Callable[..., None]) -> None:
    assert lesson.check(function, data(4, 0, 1, 3, 5, 2), np.random.default_rng(3)) < 1e-12


def test_a_kernel_that_overwrites_what_it_reads_is_refused(lesson: Any) -> None:
    with pytest.raises(ValueError, match="overwrites"):
        lesson.gradient(lesson.kernel(in_place))


def test_what_is_not_overwritten_or_not_read_takes_no_stack(lesson: Any) -> None:
    assert lesson.saved(lesson.kernel(linear)[1]) == set()
    assert {"a", "b"} <= lesson.saved(lesson.kernel(crossing)[1])


def no_stacks(lesson: Any) -> None:
    lesson.saved = lambda body: set()


def wrong_rule(lesson: Any) -> None:
    lesson.RULES["sin"] = ("np.sin(x)",)


def loops_forward(lesson: Any) -> None:
    plain = lesson.reverse

    def reverse(block: Any, stacks: Any, count: Any) -> Any:
        return tuple((*s[:5], 1) if s[0] == "for" else s for s in plain(block, stacks, count))

    lesson.reverse = reverse


def adjoint_kept(lesson: Any) -> None:
    plain = lesson.take

    def take(b: Any, to: str, stacks: Any) -> Any:
        share = plain(b, to, stacks)
        b.out.remove(("number", f"{to}.adj", 0.0))
        return share

    lesson.take = take


@pytest.mark.parametrize("spoil", [no_stacks, wrong_rule, loops_forward, adjoint_kept])
def test_mistakes_are_noticed(lesson: Any, spoil: Callable[[Any], None]) -> None:
    """A check that cannot fail proves nothing."""
    spoil(lesson)
    with pytest.raises((AssertionError, OverflowError)):
        lesson.check(triangular, data(4, 0, 1, 3, 5, 2), np.random.default_rng(3))
