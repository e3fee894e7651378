"""Test the examples as programs of the dialect: they converge in the interpreter, too, and `stackgrad check` passes.

Also test that one import decides on which package an example runs.
"""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.cli.check import check_program

FALLS = {
    "billiards": ({"rows": 1, "steps": 20, "cue": (0.47, 0.465), "iterations": 12, "rate": 0.01}, 10.0),
    "cloth": ({"n": 3, "steps": 6, "height": 0.41, "iterations": 6, "rate": 1.0}, 5.0),
    "rigid_chain": ({"arms": 2, "iterations": 20, "rate": 0.1}, 5.0),
    "rnn": ({"sequences": 3, "iterations": 15, "rate": 0.1}, 5.0),
    "smoke": ({"cells": 5, "steps": 2, "sweeps": 2, "iterations": 8, "rate": 0.05}, 2.5),
    "wave": ({"cells": 7, "steps": 6, "gauges": 6, "iterations": 20, "rate": 0.03}, 10.0),
}
"""A size of main that the interpreter carries out in seconds, and by what factor its loss falls."""

each = pytest.mark.parametrize("example", FALLS, indirect=True)


def name_of(example: ModuleType) -> str:
    return example.__name__.removeprefix("stackgrad_example_")


@pytest.mark.rotating
@each
def test_the_interpreter_descends_like_the_cpu(example):
    """The loss falls; and both executors go the same way down."""
    arguments, factor = FALLS[name_of(example)]
    losses = example.main(**arguments, arch=sg.reference, report=False)
    assert losses[-1] < losses[0] / factor, losses
    np.testing.assert_allclose(example.main(**arguments, arch=sg.cpu, report=False), losses, rtol=1e-6)


@pytest.mark.rotating
@each
def test_check_passes(example, folder):
    report = check_program(folder / f"{name_of(example)}.py", 1)
    assert report.passed and report.error is None, [(row.kernel, row.verdict, row.reasons) for row in report.rows]
    both = {row.kernel for row in report.rows if row.direction == "reverse"}
    assert {row.kernel for row in report.rows} == both != set()
    assert "cpu" in report.executors and report.counts.total() > 0


@each
def test_kernels_know_one_name(example, folder):
    """The package is imported in one line, under one name, and used through that name alone."""
    tree = ast.parse((folder / f"{name_of(example)}.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = [alias for node in imports for alias in node.names if alias.name.startswith("stackgrad")]
    assert [(alias.name, alias.asname) for alias in named] == [("stackgrad", "sg")]
    assert not [n for n in imports if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("stackgrad")]
    inspect.signature(example.main).bind(**example.SMALL)


def run(folder: Path, *arguments: str, path: Path | None = None) -> str:
    """Run an example as a script, and return its output."""
    paths = [str(path)] if path else []
    environment = {"PATH": "", "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)])}
    command = [sys.executable, str(folder / "rnn.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.expensive
def test_command_line(folder, tmp_path):
    """`--import` replaces the package: here by a module that says so and gives the package back."""
    stand_in = "import sys, stackgrad\nprint('another package')\nsys.modules['quadrants'] = stackgrad\n"
    (tmp_path / "quadrants.py").write_text(stand_in)
    small = ("--size", "small", "--steps", "2")
    printed = run(folder, *small, "--arch", "reference")
    assert "after 2 steps" in printed and "another package" not in printed
    replaced = run(folder, *small, "--import", "quadrants", path=tmp_path)
    assert replaced.splitlines()[0] == "another package"
    assert replaced.splitlines()[-1][:24] == printed.splitlines()[-1][:24]
