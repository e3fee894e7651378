"""The examples as programs: they converge, and what they call the gradient belongs to the whole program.

It is judged by values of the loss alone, in f64 along one random direction, by the order of the Taylor
remainder; the losses come from the cpu backend, the gradient from each backend in turn.
"""
from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.oracles.taylor import taylor_order

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))

FALLS = {
    "mass_spring_walker": ({"steps": 96, "iterations": 16}, lambda first, last: last < first - 0.01),
    "mpm_throw": (
        {"side": 8, "cells": 16, "steps": 128, "iterations": 25}, lambda first, last: last < first / 20
    ),
    "pendulum_chain": ({"chains": 8, "iterations": 25}, lambda first, last: last < first / 1e4),
}
"""A small size of main, and what its losses must do."""

BUILDS = {
    "mass_spring_walker": {"steps": 24},
    "mpm_throw": {"side": 4, "cells": 16, "steps": 48, "fp": sg.f64},
    "pendulum_chain": {"chains": 4, "duration": 1.0},
}
"""A small size of build. The walker stands on the ground, the block is thrown against it."""

Run = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From the unknowns to loss and gradient."""


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module of an example, loaded from its file."""
    name = f"stackgrad_example_{request.param}"
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{request.param}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def size_of(table: dict, example: ModuleType) -> dict:
    return table[example.__name__.removeprefix("stackgrad_example_")]


def test_sizes_are_arguments(example):
    """What `stackgrad check` runs is a size of main."""
    inspect.signature(example.main).bind(**example.CHECK)
    assert "iterations" in example.CHECK and example.__doc__


def test_loss_falls(example, capsys):
    arguments, fell = size_of(FALLS, example)
    losses = example.main(**arguments, report=False)
    assert len(losses) == arguments["iterations"] and np.isfinite(losses).all()
    assert fell(losses[0], losses[-1]), losses
    assert capsys.readouterr().out == ""


def test_report_prints(example, capsys):
    """`report=True`, at the size that `stackgrad check` runs."""
    losses = example.main(**example.CHECK)
    assert len(losses) == example.CHECK["iterations"]
    assert "iteration   0" in capsys.readouterr().out


def program(example: ModuleType, backend: object) -> tuple[np.ndarray, Run]:
    """The unknowns of a small build as one vector, and the function from them to loss and gradient."""
    sg.init(arch=backend, default_fp=sg.f64)
    unknowns, evaluate, *_ = example.build(**size_of(BUILDS, example))

    def run(x: np.ndarray) -> tuple[float, np.ndarray]:
        for field, part in zip(unknowns, np.split(x, np.cumsum([f.memory.size for f in unknowns])[:-1])):
            field.from_numpy(part.reshape(field.shape))
        loss = evaluate()
        return loss, np.concatenate([f.grad.to_numpy().ravel() for f in unknowns])

    return np.concatenate([f.to_numpy().ravel() for f in unknowns]), run


def test_gradient_of_the_whole_program(example):
    """Order 2 with the gradients of both backends; a slope that is wrong by 1 % shows as order 1."""
    rng = np.random.default_rng(1)
    x, run = program(example, sg.reference)
    x = x + rng.normal(0.0, 0.1, x.shape)
    direction = rng.normal(0.0, 1.0, x.shape)
    slopes = {"reference": run(x)[1] @ direction}
    _, run = program(example, sg.cpu)
    slopes["cpu"] = run(x)[1] @ direction
    losses: dict[bytes, float] = {}  # the Taylor tests ask for the same points

    def loss(y: np.ndarray) -> float:
        if y.tobytes() not in losses:
            losses[y.tobytes()] = run(y)[0]
        return losses[y.tobytes()]

    def order(slope: float) -> float:
        return taylor_order(loss, x, direction, slope)

    orders = {name: order(slope) for name, slope in slopes.items()}
    assert all(1.9 < found < 2.1 for found in orders.values()), orders
    assert 0.9 < order(1.01 * slopes["cpu"]) < 1.1
