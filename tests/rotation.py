"""Choose the part of large families of tests that one run executes.

A test marked `rotating` belongs to a family of many tests that check the same property on different inputs; a test
marked `expensive` takes seconds, such as that of a whole command. A run executes one in eight of both; the day decides
which, so eight days execute all of them. STACKGRAD_TESTS=all executes all in one run, as every row of ci/matrix.toml
does, and STACKGRAD_TESTS=0 (to 7) executes the part with this number. Days are counted modulo 32, because the choice of
effort.py repeats after 32 days; STACKGRAD_TESTS takes these numbers, too. A run that is given files executes all tests
of these.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

PARTS = 8
TURNS = 4 * PARTS
VARIABLE = "STACKGRAD_TESTS"
MARKS = ("rotating", "expensive")
DAY = 86_400
"""Seconds of a day."""


def turn_of(wanted: str, seconds: float) -> int | None:
    """Return the number of the part that a run executes, or None if it executes all tests."""
    if wanted == "all":
        return None
    if wanted not in ("", *map(str, range(TURNS))):
        raise pytest.UsageError(f"{VARIABLE} is {wanted!r}; cure: all, or a number below {TURNS}")
    return int(wanted) if wanted else int(seconds // DAY) % TURNS


def turn() -> int | None:
    """Return the number of the part that this run executes, or None if it executes all tests."""
    return turn_of(os.environ.get(VARIABLE, ""), time.time())


def family_of(name: str) -> str:
    """Return the name of a test without its parameters and without the number of a line of a .kir file."""
    return name.partition("[")[0].rstrip("0123456789")


def parts_of(names: list[str]) -> list[int]:
    """Return the part of each rotating test: each eight neighbors of a family run on eight days.

    So each day executes an equal share of each family. Random parts would differ, because families are small and some
    of their tests take long.
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        family = family_of(name)
        found.append((zlib.crc32(family.encode()) + seen[family]) % PARTS)
        seen[family] += 1
    return found


def settle() -> None:
    """Fix the number of the part for this process and its children, so that midnight does not change it."""
    now = turn()
    os.environ[VARIABLE] = "all" if now is None else str(now)


def share(rows: Iterable[T]) -> list[T]:
    """Return the part of a long table that one test goes through today; eight days cover the whole table."""
    now = turn()
    return list(rows) if now is None else list(rows)[now % PARTS :: PARTS]


def is_file(argument: str) -> bool:
    """Return True if an argument of pytest names a file of tests, or a test in it, not a folder."""
    return "::" in argument or argument.endswith((".py", ".kir"))


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rotating and expensive tests of other parts, except those whose file the command line names."""
    now = turn()
    if now is None or any(is_file(argument) for argument in config.args):
        return
    rotating = [item for item in items if any(map(item.get_closest_marker, MARKS))]
    parts = parts_of([item.nodeid for item in rotating])
    others = [item for item, part in zip(rotating, parts) if part != now % PARTS]
    if others:
        left_out = set(others)
        items[:] = [i for i in items if i not in left_out]
        config.hook.pytest_deselected(items=others)
