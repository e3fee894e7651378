"""Test random kernels of many tasks and random loop nests: each is differentiated right or refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.compiler.ir.verify import verify


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


support, programs, sweeps = _load("hostile_support"), _load("random_programs"), _load("random_sweeps")


def judged(kernel, state):
    """Return True if the kernel has a gradient; assert that the gradient is right."""
    verify(kernel, "source")
    try:
        support.judge_ir(kernel, *state)
    except (sg.NotDifferentiable, sg.Unsupported):
        return False
    return True


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs(first):
    seeds = range(first, first + 10)
    accepted = [judged(programs.make_program(seed), programs.make_state(seed)) for seed in seeds]
    assert sum(accepted) >= 3


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_random_sweeps(first):
    seeds = range(first, first + 15)
    accepted = [judged(sweeps.make_sweep(seed), sweeps.make_state(seed)) for seed in seeds]
    assert sum(accepted) >= 3
