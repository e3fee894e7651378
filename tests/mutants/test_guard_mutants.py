"""Test mutants of guards on Python objects: each makes a launch use an outdated number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample
from stackgrad.backends.host.ready_launch import ReadyLaunch
from stackgrad.compiler.frontend.snapshots import ArraySnapshot, ItemsSnapshot, ValueSnapshot
from stackgrad.harness.tools.mutants import patched
from stackgrad.runtime.guards import EvaluationGuard, NameGuard, PartGuard

sys.path.append(str(Path(__file__).parents[1] / "runtime"))

from constants_support import Program, Step, programs, run  # noqa: E402


def always(*_: Any) -> bool:
    """Return True: a wrong comparison, which finds no change."""
    return True


def as_numbers(self: Any, now: Any) -> bool:
    """Compare the first item only, which is wrong."""
    items = list(now.values()) if isinstance(now, dict) else list(now)
    return len(items) == len(self.parts) and all(part.holds(item) for part, item in zip(self.parts[:1], items))


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "part-guard-dropped": (lambda: patched(PartGuard, "holds", always), "property"),
    "evaluation-not-repeated": (lambda: patched(EvaluationGuard, "holds", always), "lambda"),
    "name-not-compared": (lambda: patched(NameGuard, "holds", always), "list by name"),
    "names-not-pinned": (lambda: patched(ReadyLaunch, "pin", lambda self, pins: None), "name"),
    "array-by-identity": (lambda: patched(ArraySnapshot, "holds", always), "array"),
    "first-item-alone": (lambda: patched(ItemsSnapshot, "holds", as_numbers), "list"),
    "number-by-type": (
        lambda: patched(ValueSnapshot, "holds", lambda self, now: type(now) is type(self.then)),
        "attribute",
    ),
}
"""What is dropped, and a source of numbers that shows it."""


@pytest.fixture(autouse=True)
def on_the_cpu() -> Any:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    yield
    sg.reset()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_source_shows_the_mutant(name: str) -> None:
    plant, source = MUTANTS[name]
    steps = [Step(0, 2.0, "forward", 6), Step(0, 3.0, "forward"), Step(0, 5.0, "gradient")]
    with plant():
        assert "right is" in run([source], steps)
    assert run([source], steps) == "", "nothing stays behind"


@pytest.mark.rotating
@pytest.mark.parametrize("name", MUTANTS)
def test_drawn_programs_find_the_mutant(name: str) -> None:
    options = settings(
        max_examples=120,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with MUTANTS[name][0]():
        try:
            sources, steps = find(programs(), lambda drawn: run(*drawn) != "", settings=options)
        except NoSuchExample:
            pytest.fail("not found")
    assert run(sources, steps) == ""


def test_a_mutant_is_put_back() -> None:
    right = PartGuard.holds
    with pytest.raises(ZeroDivisionError), MUTANTS["part-guard-dropped"][0]():
        assert PartGuard.holds is not right
        raise ZeroDivisionError
    assert PartGuard.holds is right and Program(["name"]).right("gradient")
