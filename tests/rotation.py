"""Choose the part of large families of tests that one run executes.

A test marked `rotating` belongs to a family in which many tests show the same thing on other inputs. A run executes one
in four of them; the day decides which, so four days execute all. STACKGRAD_TESTS=all executes all in one run, as every
row of ci/matrix.toml does, and STACKGRAD_TESTS=0 (to 3) executes the part of that number.
"""

from __future__ import annotations

import os
import time
import zlib

import pytest

PARTS = 4
VARIABLE = "STACKGRAD_TESTS"
DAY = 86_400
"""Seconds of a day."""


def turn_of(wanted: str, seconds: float) -> int | None:
    """Return the part that a run executes, or None for all. wanted: content of the variable. seconds: since 1970."""
    if wanted == "all":
        return None
    if wanted not in ("", *map(str, range(PARTS))):
        raise pytest.UsageError(f"{VARIABLE} is {wanted!r}; cure: all, or a number below {PARTS}")
    return int(wanted) if wanted else int(seconds // DAY) % PARTS


def part_of(name: str) -> int:
    """Return the part to which a test belongs, by its name alone."""
    return zlib.crc32(name.encode()) % PARTS


def settle() -> None:
    """Fix the part for this process and for the processes that it starts, so that midnight divides no run."""
    turn = turn_of(os.environ.get(VARIABLE, ""), time.time())
    os.environ[VARIABLE] = "all" if turn is None else str(turn)


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rotating tests of other parts; a test that is named on the command line stays."""
    turn = turn_of(os.environ.get(VARIABLE, ""), time.time())
    if turn is None or any("::" in argument for argument in config.args):
        return
    others = [i for i in items if i.get_closest_marker("rotating") and part_of(i.nodeid) != turn]
    if others:
        left_out = set(others)
        items[:] = [i for i in items if i not in left_out]
        config.hook.pytest_deselected(items=others)
