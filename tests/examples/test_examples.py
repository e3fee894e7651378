"""Test that the examples converge, and that their gradient is the derivative of the whole program.

Values of the loss judge it, in f64 along one random direction, by the order of the Taylor remainder. The losses come
from the cpu backend, the gradient from each backend in turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import bounded, verdicts
from stackgrad.backends.registry import probe_all
from stackgrad.capture import capture
from stackgrad.harness.testing.oracles.taylor import taylor_order

FALLS = {
    "billiards": ({"rows": 2, "steps": 50, "iterations": 60}, lambda first, last: last < first / 50),
    "cloth": ({"n": 5, "steps": 30, "iterations": 30}, lambda first, last: last < first / 50),
    "mass_spring_walker": ({"steps": 96, "iterations": 16}, lambda first, last: last < first - 0.01),
    "mpm_throw": ({"side": 8, "cells": 16, "steps": 128, "iterations": 25}, lambda first, last: last < first / 20),
    "pendulum_chain": ({"chains": 8, "iterations": 25}, lambda first, last: last < first / 1e4),
    "rigid_chain": ({"arms": 6, "iterations": 40}, lambda first, last: last < first / 50),
    "rnn": ({"sequences": 12, "iterations": 40}, lambda first, last: last < first / 30),
    "smoke": ({"cells": 8, "steps": 3, "sweeps": 4, "iterations": 30}, lambda first, last: last < first / 6),
    "wave": ({"cells": 12, "steps": 16, "gauges": 12, "iterations": 30}, lambda first, last: last < first / 20),
}
"""A small size of main, and what its losses must do."""

BUILDS = {
    "billiards": {"rows": 2, "steps": 14, "cue": (0.42, 0.48)},
    "cloth": {"n": 3, "steps": 8, "height": 0.41},
    "mass_spring_walker": {"steps": 24},
    "mpm_throw": {"side": 4, "cells": 16, "steps": 48, "fp": sg.f64},
    "pendulum_chain": {"chains": 4, "duration": 1.0},
    "rigid_chain": {"arms": 3},
    "rnn": {"sequences": 5},
    "smoke": {"cells": 6, "steps": 2, "sweeps": 3},
    "wave": {"cells": 9, "steps": 8, "gauges": 8},
}
"""A small size of build. The walker stands on the ground, the block is thrown against it, the cloth upon the ball; the
cue ball is about to meet the rack.
"""

STIR = {"billiards": 0.01}
"""By how much the first guess is changed, 0.1 if not said: a cue ball that is moved further misses."""


@pytest.fixture
def vulkan() -> object:
    """Return the Vulkan backend, or skip the test if there is no device."""
    probe = probe_all()["vulkan"]
    if not probe.available:
        pytest.skip(f"{probe.reason}; {probe.cure}")
    return sg.vulkan


Run = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From the unknowns to loss and gradient."""


def size_of(table: dict, example: ModuleType, otherwise: Any = None) -> Any:
    return table.get(example.__name__.removeprefix("stackgrad_example_"), otherwise)


def test_sizes_are_arguments(example):
    """What `stackgrad check` runs is a size of main."""
    inspect.signature(example.main).bind(**example.CHECK)
    assert "iterations" in example.CHECK and example.__doc__


@pytest.mark.rotating
def test_loss_falls(example, capsys):
    arguments, fell = size_of(FALLS, example)
    losses = example.main(**arguments, report=False)
    assert len(losses) == arguments["iterations"] and np.isfinite(losses).all()
    assert fell(losses[0], losses[-1]), losses
    assert capsys.readouterr().out == ""


@pytest.mark.rotating
def test_report_prints(example, capsys):
    """`report=True`, at the size that `stackgrad check` runs."""
    losses = example.main(**example.CHECK)
    assert len(losses) == example.CHECK["iterations"]
    assert "iteration   0" in capsys.readouterr().out


def program(example: ModuleType, backend: object) -> tuple[np.ndarray, Run]:
    """Return the unknowns of a small build as one vector, and a function from this vector to loss and gradient."""
    sg.init(arch=backend, default_fp=sg.f64)
    unknowns, evaluate, *_ = example.build(**size_of(BUILDS, example))
    ends = np.cumsum([f.to_numpy().size for f in unknowns])

    def run(x: np.ndarray) -> tuple[float, np.ndarray]:
        for field, part in zip(unknowns, np.split(x, ends[:-1])):
            field.from_numpy(part.reshape(field.to_numpy().shape))
        loss = evaluate()
        return loss, np.concatenate([f.grad.to_numpy().ravel() for f in unknowns])

    return np.concatenate([f.to_numpy().ravel() for f in unknowns]), run


@pytest.mark.rotating
def test_gradient_of_the_whole_program(example):
    """Order 2 with the gradients of all backends here; a slope that is wrong by 1 % shows as order 1."""
    rng = np.random.default_rng(1)
    x, run = program(example, sg.reference)
    x = x + rng.normal(0.0, size_of(STIR, example, 0.1), x.shape)
    direction = rng.normal(0.0, 1.0, x.shape)
    slopes = {"reference": run(x)[1] @ direction}
    if probe_all()["vulkan"].available:
        slopes["vulkan"] = program(example, sg.vulkan)[1](x)[1] @ direction
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


OPEN = {"pendulum_chain": "swing"}
"""A kernel that ends where `left - h` is 0 because h is left: bounds, which take errors as independent, cannot know."""


@pytest.mark.rotating
def test_launches_on_a_gpu_are_within_their_bounds(example, vulkan):
    """The first launches of each kernel in the whole program, forward and reverse, each on the memory that it found."""
    x, run = program(example, vulkan)
    with capture(4) as recorded:
        run(x + np.random.default_rng(1).normal(0.0, size_of(STIR, example, 0.1), x.shape))
    sg.reset()
    assert {launch.kind for launch in recorded.launches} == {"forward", "reverse"}
    known = [(launch, bounded(launch)) for launch in recorded.launches]
    open_ = {launch.kernel.name for launch, found in known if found.poisoned}
    assert open_ == {size_of(OPEN, example)} - {None}
    rows = [
        (launch.kernel.name, launch.kind, name, verdict)
        for launch, found in known
        if not found.poisoned
        for name, verdict in verdicts(found, launch.after).items()
    ]
    assert not [row for row in rows if row[-1].state == "disagree"]
    assert sum(v.undecided for *_, v in rows) <= sum(v.elements for *_, v in rows) / 100
