"""Which tests of a large family a run executes: each of them on one day of eight, and all on request."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import Any

import effort
import project_tree as tree
import pytest
import rotation
import run_kir
from rotation import DAY, PARTS, TURNS, VARIABLE, deselect, parts_of, turn_of

NAMES = [f"tests/a.py::test_b[{k}]" for k in range(400)]

FIXTURES = r"\w+\((example|column)\b"
"""Heads of tests that take a fixture with several values."""


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
    assert [turn_of("", day * DAY + 5.0) for day in range(TURNS + 2)] == [*range(TURNS), 0, 1]
    assert turn_of("all", 0.0) is None and turn_of("3", 0.0) == 3
    for wrong in (str(TURNS), "-1", "some"):
        with pytest.raises(pytest.UsageError, match=VARIABLE):
            turn_of(wrong, 0.0)


def test_eight_days_execute_every_test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(TURNS):
        parts = [run(monkeypatch, str((first + k) % TURNS)) for k in range(PARTS)]
        assert sorted(name for part in parts for name in part) == sorted(NAMES)
        assert [len(part) for part in parts] == [len(NAMES) // PARTS] * PARTS


@pytest.mark.parametrize(
    ("args", "count"),
    [((), 50), (("tests",), 50), (("tests/a.py",), 400), (("tests/a.py::test_b",), 400), (("tests", "x.kir"), 400)],
)
def test_all_tests_of_a_named_file_run(monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], count: int) -> None:
    assert len(run(monkeypatch, "2", args=args)) == count


def test_families_take_turns_by_themselves() -> None:
    """Tests between those of a family change nothing; checks of a .kir file are one family for each kind."""
    family = [f"tests/a.py::test_b[{k}]" for k in range(8)]
    others = [f"tests/a.py::test_c[{k}]" for k in range(8)]
    mixed = [name for pair in zip(family, others) for name in pair]
    assert parts_of(mixed)[::2] == parts_of(family) and parts_of(mixed)[1::2] == parts_of(others)
    assert sorted(parts_of([f"tests/ops/sin.kir::run{k}[vulkan-f32]" for k in (1, 2, 3, 14)])) == sorted(
        parts_of([f"tests/ops/sin.kir::run{k}[vulkan-f32]" for k in range(4)])
    )


@pytest.mark.parametrize("name", NAMES[:40])
def test_every_test_meets_full_effort(name: str) -> None:
    """One that always runs within four days, one that rotates on one of 32; with all, every time."""
    assert effort.is_full(name, None)
    full = [turn for turn in range(TURNS) if effort.is_full(name, turn)]
    assert len(full) == PARTS == len({turn % PARTS for turn in full}), "on each day of a rotating test once"
    eights = [[turn for turn in full if turn // PARTS == eight] for eight in range(effort.QUARTERS)]
    assert [len(turns) for turns in eights] == [PARTS // effort.QUARTERS] * effort.QUARTERS, "twice in each eight days"


def test_effort_is_lowered_for_folders_of_tests() -> None:
    assert all((tree.ROOT / "tests" / folder).is_dir() for folder in effort.FOLDERS)
    assert not effort.FOLDERS & {"backends", "runtime", "mutants", "cuda", "vulkan", "cache"}


@pytest.mark.parametrize("path", ["ops/sin.kir", "statements/atomic.kir", "ad/nested.kir", "ad/memory.kir"])
def test_each_line_of_a_kir_file_runs_every_day(path: str, request: pytest.FixtureRequest) -> None:
    """On the reference and on the CPU, gradients by both lowerings; on other backends on one day of eight."""
    file = run_kir.KirFile.from_parent(request.session, path=tree.ROOT / "tests" / path)
    items = list(file.collect())
    rotating = [item for item in items if item.get_closest_marker("rotating")]
    always = [item for item in items if not item.get_closest_marker("rotating")]
    assert {item.name.partition("[")[0] for item in always} == {item.name.partition("[")[0] for item in items}
    assert {item.backend for item in always} == {"", *run_kir.STRICT}
    assert not [item for item in rotating if item.backend == "cpu" or item.lowering == "" == item.backend]
    assert set(parts_of([item.nodeid for item in rotating])) == set(range(PARTS)) or not rotating


def test_effort_zero_is_what_llvm_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only inside of the block, whatever the options ask for."""
    from stackgrad.backends.host import jit

    asked: list[int] = []
    monkeypatch.setattr(jit, "_image", lambda generated, effort: asked.append(effort) or b"")
    made: Any = None
    with effort.without_optimizing():
        jit._image(made, 2)
    jit._image(made, 2)
    assert asked == [0, 2]


def test_others_and_named_ones_always_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "0", marked=False) == NAMES
    assert run(monkeypatch, "0", args=("tests/a.py::test_b",)) == NAMES
    assert run(monkeypatch, "all") == NAMES


def test_midnight_divides_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    rotation.settle()
    assert turn_of(os.environ[VARIABLE], 0.0) in range(TURNS)


def test_the_mark_stands_on_families_alone() -> None:
    """On a parametrized test, or one that takes a fixture with many values."""
    for path in tree.python_files():
        if tree.relative(path).startswith("tests/") and path.name != "test_rotation.py":
            for part in path.read_text(encoding="utf-8").split("@pytest.mark." + "rotating\n")[1:]:
                decorators, _, head = f"\n{part}".partition("\ndef ")
                assert re.search(r"parametrize|^@(EACH|each)$", decorators, re.M) or re.match(FIXTURES, head), path


def test_an_expensive_test_takes_turns_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of forty runs on one day of eight, whatever tests stand beside it, and no day gets half of them."""
    parts = parts_of([f"tests/a{k}.py::test_whole_command" for k in range(40)])
    assert [parts_of([f"tests/a{k}.py::test_whole_command"])[0] for k in range(40)] == parts
    assert max(parts.count(day) for day in range(PARTS)) <= 20 and set(parts) == set(range(PARTS))


def test_eight_days_go_through_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(range(11))
    seen = []
    for day in range(PARTS):
        monkeypatch.setenv(rotation.VARIABLE, str(day))
        seen += rotation.share(rows)
    assert sorted(seen) == rows
    monkeypatch.setenv(rotation.VARIABLE, "all")
    assert rotation.share(iter(rows)) == rows


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [("all", {}, {}), ("3", {}, {"GALLIVM_PERF": "nopt"}), ("3", {"GALLIVM_PERF": "x"}, {"GALLIVM_PERF": "x"})],
)
def test_lavapipe_is_told_its_effort(
    monkeypatch: pytest.MonkeyPatch, wanted: str, before: dict[str, str], after: dict[str, str]
) -> None:
    """Full with all tests; otherwise none, unless the user has chosen."""
    monkeypatch.setenv(VARIABLE, wanted)
    environment = dict(before)
    effort.settle(environment)
    assert environment == after
