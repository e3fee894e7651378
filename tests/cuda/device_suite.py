"""SUITE: the tests that judge a backend, and how to run them on a device.

Tests written for the CPU run there in its place (tests/stand_in.py). What says something about the CPU itself is left
out, with the reason.

    python tests/cuda/device_suite.py            a command line for each part
"""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

FOLDERS = (
    "ops", "statements", "ad", "kernels", "shapes", "vectors", "dialect", "conformance", "examples", "ad_api", "errors",
    "host", "runtime", "sizing",
)  # fmt: skip

NOT_ON_A_DEVICE: dict[str, str] = {}
"""Files, and tests of files, that do not hold there, with the reason."""


def parts() -> Iterator[str]:
    """Paths below tests/, each a process of its own; files of one folder in IR text are one."""
    for folder in FOLDERS:
        if any((TESTS / folder).glob("*.kir")):
            yield f"{folder}/*.kir"
        for path in sorted((TESTS / folder).glob("test_*.py")):
            name = f"{folder}/{path.name}"
            if name not in NOT_ON_A_DEVICE:
                yield name


def arguments(part: str) -> list[str]:
    """Of pytest."""
    folder, _, pattern = part.partition("/")
    paths = [str(p) for p in sorted((TESTS / folder).glob(pattern))]
    chosen = ["--backend", "cuda"] if pattern == "*.kir" else []
    without = [a for n in NOT_ON_A_DEVICE if n.startswith(f"{part}::") for a in ("--deselect", f"tests/{n}")]
    return ["-p", "no:cacheprovider", *paths, *chosen, *without]


def run(part: str, backend: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """One part with this backend in the CPU's place."""
    command = [sys.executable, "-m", "pytest", *arguments(part), *more]
    settings = {**os.environ, "STACKGRAD_STAND_IN": backend}
    return subprocess.run(command, cwd=TESTS.parent, env=settings, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    for one in parts():
        print("pytest", *arguments(one))
