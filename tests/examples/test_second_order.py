"""Test Hessian-vector products of the examples against JAX or differences of gradients, and their symmetry.

The examples compute their gradients themselves, by a tape or, as the material point method does, by hand; the tests run
them in forward mode, which gives forward over reverse.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("jax_twins", Path(__file__).with_name("jax_twins.py"))
assert _spec is not None and _spec.loader is not None
twins = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = twins
_spec.loader.exec_module(twins)

BUILDS: dict[str, dict[str, Any]] = {
    "billiards": {"rows": 2, "steps": 8, "cue": (0.45, 0.485)},
    "cloth": {"n": 3, "steps": 4, "height": 0.4005},
    "mass_spring_walker": {"steps": 4},
    "mpm_throw": {"side": 3, "cells": 16, "steps": 24, "fp": sg.f64},
    "pendulum_chain": {"chains": 2, "duration": 0.25},
    "rigid_chain": {"arms": 2},
    "rnn": {"sequences": 3},
    "smoke": {"cells": 5, "steps": 2, "sweeps": 1},
    "wave": {"cells": 7, "steps": 5, "gauges": 6},
}
"""A small size of build: the walker touches the ground, the middle of the cloth the ball, balls meet."""
STIR = {"billiards": 0.001}
COMPILED = ("wave", "rigid_chain", "cloth")
ON_REFERENCE = ("rnn", "pendulum_chain", "rigid_chain")


class Example:
    """Represent an example with unknowns near its first guess."""

    def __init__(self, module: ModuleType, arch: Any) -> None:
        self.name = module.__name__.removeprefix("stackgrad_example_")
        sg.init(arch=arch, default_fp=sg.f64)
        self.unknowns, self.evaluate, *_ = module.build(**BUILDS[self.name])
        rng = np.random.default_rng(1)
        stir = STIR.get(self.name, 0.1)
        self.point = [f.to_numpy() + stir * rng.normal(size=f.to_numpy().shape) for f in self.unknowns]
        self.directions = [rng.normal(size=(2, *x.shape)) for x in self.point]

    def gradient(self, point: list[np.ndarray]) -> list[np.ndarray]:
        for field, content in zip(self.unknowns, point):
            field.from_numpy(np.asarray(content))
        self.evaluate()
        return [np.array(f.grad.to_numpy()) for f in self.unknowns]

    def second(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The gradient, and H v of each direction."""
        for field, content in zip(self.unknowns, self.point):
            field.from_numpy(np.asarray(content))
        gradients = [f.grad for f in self.unknowns]
        with sg.ad.FwdMode(gradients, list(self.unknowns), self.directions) as mode:
            self.evaluate()
        return [np.array(g.to_numpy()) for g in gradients], [mode.jacobian(g) for g in gradients]


def check_symmetry(e: Example, along: list[np.ndarray]) -> None:
    crossed = sum(h.reshape(2, -1) @ v.reshape(2, -1).T for h, v in zip(along, e.directions))
    assert abs(crossed[0, 1] - crossed[1, 0]) <= 1e-8 * np.abs(crossed).max()
    assert np.abs(crossed).max() > 1e-9


def close(found: list[np.ndarray], want: Any, rtol: float) -> None:
    scale = max(float(np.abs(np.asarray(w)).max()) for w in want)
    for one, expected in zip(found, want):
        np.testing.assert_allclose(one, np.asarray(expected), rtol, rtol * scale)


def by_jax(example: ModuleType, e: Example) -> tuple[Any, list[Any]]:
    """The gradient, and H v of each direction; compiled where that is faster and no branch asks for values."""
    gradient = jax.grad(twins.TWINS[e.name](example, **BUILDS[e.name]), tuple(range(len(e.point))))
    if e.name not in COMPILED:
        exact, push = jax.linearize(gradient, *e.point)
        return exact, [push(*(v[k] for v in e.directions)) for k in range(2)]
    both = jax.jit(lambda x, v: jax.jvp(gradient, x, v))
    found = [both(tuple(e.point), tuple(v[k] for v in e.directions)) for k in range(2)]
    return found[0][0], [along for _, along in found]


@pytest.mark.rotating
@pytest.mark.parametrize("example", twins.TWINS, indirect=True)
def test_hessian_vector_products_agree_with_jax(example: ModuleType) -> None:
    e = Example(example, sg.cpu)
    exact, want = by_jax(example, e)
    archs = (sg.cpu, sg.reference) if e.name in ON_REFERENCE else (sg.cpu,)
    for arch in archs:
        e = Example(example, arch)
        gradient, along = e.second()
        close(gradient, exact, 1e-9)
        for k in range(2):
            close([h[k] for h in along], want[k], 1e-8)
        check_symmetry(e, along)


@pytest.mark.rotating
@pytest.mark.parametrize("example", sorted(set(BUILDS) - set(twins.TWINS)), indirect=True)
def test_hessian_vector_products_are_differences_of_gradients(example: ModuleType) -> None:
    e = Example(example, sg.cpu)
    gradient, along = e.second()
    close(gradient, e.gradient(e.point), 1e-12)
    check_symmetry(e, along)
    for k in range(2):
        sides = [e.gradient([x + h * v[k] for x, v in zip(e.point, e.directions)]) for h in (1e-6, -1e-6)]
        close([h[k] for h in along], [(a - b) / 2e-6 for a, b in zip(*sides)], 1e-6)


def test_every_example_is_judged(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.py")} - {"common"} == BUILDS.keys()
