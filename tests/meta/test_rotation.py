"""Which tests of a large family a run executes: each of them on one day of four, and all on request."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import project_tree as tree
import pytest
import rotation
from rotation import DAY, PARTS, VARIABLE, deselect, part_of, turn_of

NAMES = [f"tests/a.py::test_b[{k}]" for k in range(400)]


class Item:
    """A stand-in for a test."""

    def __init__(self, nodeid: str, marked: bool) -> None:
        self.nodeid, self.marked = nodeid, marked

    def get_closest_marker(self, name: str) -> str | None:
        return name if self.marked and name == "rotating" else None


def run(monkeypatch: pytest.MonkeyPatch, wanted: str, marked: bool = True, args: tuple[str, ...] = ()) -> list[str]:
    """The names that a run of 400 tests executes."""
    monkeypatch.setenv(VARIABLE, wanted)
    left: list[Any] = []
    items: list[Any] = [Item(name, marked) for name in NAMES]
    config: Any = SimpleNamespace(
        args=list(args), hook=SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    )
    deselect(config, items)
    assert len(items) + len(left) == len(NAMES)
    return [item.nodeid for item in items]


def test_the_day_decides_unless_the_environment_does() -> None:
    assert [turn_of("", day * DAY + 5.0) for day in range(5)] == [0, 1, 2, 3, 0]
    assert turn_of("all", 0.0) is None and turn_of("3", 0.0) == 3
    for wrong in ("4", "-1", "some"):
        with pytest.raises(pytest.UsageError, match=VARIABLE):
            turn_of(wrong, 0.0)


def test_four_days_execute_every_test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [run(monkeypatch, str(k)) for k in range(PARTS)]
    assert sorted(name for part in parts for name in part) == sorted(NAMES)
    assert all(60 <= len(part) <= 140 for part in parts)
    assert parts[1] == [name for name in NAMES if part_of(name) == 1]


def test_others_and_named_ones_always_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "0", marked=False) == NAMES
    assert run(monkeypatch, "0", args=("tests/a.py::test_b",)) == NAMES
    assert run(monkeypatch, "all") == NAMES


def test_midnight_divides_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    rotation.settle()
    assert turn_of(os.environ[VARIABLE], 0.0) in range(PARTS)


def test_the_mark_stands_on_families_alone() -> None:
    """In front of a parametrized test, which has many members."""
    for path in tree.python_files():
        if tree.relative(path).startswith("tests/") and path.name != "test_rotation.py":
            for part in path.read_text(encoding="utf-8").split("@pytest.mark." + "rotating\n")[1:]:
                assert any(word in part.split("def ")[0] for word in ("parametrize", "EACH")), path
