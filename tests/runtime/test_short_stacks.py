"""Stacks with too few slots end in an AdstackOverflow on every way through the code, never in a stray write.

Each run is a process of its own, short_stacks.py: what writes outside its slab dies there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("short_stacks.py")
WAYS = {
    "branching": [],
    "debug": ["--debug"],
    "threads": ["--threads", "2"],
    "lanes": ["--lanes", "4"],
    "both": ["--lanes", "2", "--threads", "2"],
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STACKGRAD_CACHE": "0"}
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment, check=False)


@pytest.mark.rotating
@pytest.mark.parametrize("way", WAYS)
def test_every_short_stack_overflows(way: str) -> None:
    done = run("kir", "raw", "programs", "many", "--count", "25", *WAYS[way])
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-3000:]}"
    counts = json.loads(done.stdout)
    assert counts["kernels"] > 80 and counts["overflows"] > 190, counts
    assert (counts["spread"] > 0) == ("--threads" in WAYS[way]), counts
    assert (counts["masked"] > 60) == ("--lanes" in WAYS[way]), counts


@pytest.mark.rotating
@pytest.mark.parametrize(("source", "way"), [("kir", "branching"), ("raw", "lanes"), ("programs", "threads")])
def test_code_that_does_not_look_is_found_out(source: str, way: str) -> None:
    done = run(source, "--unchecked", *WAYS[way])
    assert done.returncode != 0 and "overflows" not in done.stdout
    assert done.returncode < 0 or "no overflow of" in done.stderr or "belongs to no stack" in done.stderr, done.stderr
