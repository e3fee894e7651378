"""Importing the package is cheap: no NumPy, no code generator, no JAX; and names are there when they are used."""

from __future__ import annotations

import statistics
import subprocess
import sys

import stackgrad as sg

HEAVY = ("numpy", "llvmlite", "jax", "torch", "hypothesis", "rich")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_nothing_heavy_is_loaded() -> None:
    loaded = run("import stackgrad, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))").split()
    assert "stackgrad" in loaded and not set(HEAVY) & set(loaded)


def test_seconds_beyond_those_of_numpy() -> None:
    def seconds(statement: str) -> float:
        code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        return statistics.median(float(run(code)) for _ in range(3))

    assert seconds("import stackgrad") < seconds("import numpy") + 0.1


def test_every_name_is_found() -> None:
    for name in dir(sg):
        assert getattr(sg, name) is not None
