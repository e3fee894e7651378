"""Test `sg.ad.hvp` of whole programs against JAX, by symmetry and by Taylor remainders, in both lowerings."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler import driver


def loaded(name: str) -> Any:
    """Import a module of this folder and register it, so that other modules can import it by its name."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


support, _ = (loaded(name) for name in ("second_order_programs", "second_order_reductions"))
PROGRAMS = support.PROGRAMS


@pytest.fixture(params=["lean", "classic"])
def lowering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the policy by which the gradients of the test are lowered, and return its name."""
    chosen: str = request.param
    monkeypatch.setattr(driver, "prepare_reverse", functools.partial(driver.prepare_reverse, lowering=chosen))
    return chosen


BY_JAX: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}


def by_jax(name: str, case: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradient, three directions v, and H v of each, by JAX; results are cached by program."""
    if name not in BY_JAX:
        v = np.random.default_rng(3).normal(size=(3, *case.content.shape))
        gradient, along = jax.linearize(jax.grad(case.twin), case.content)
        BY_JAX[name] = np.asarray(gradient), v, np.stack([along(one) for one in v])
    return BY_JAX[name]


@pytest.mark.rotating
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_jax(name: str, lowering: str) -> None:
    """Three directions in a batch, and <u, H v> = <v, H u>; the rest is as a plain tape leaves it."""
    case = PROGRAMS[name](sg.f64)
    want = case.gradient()
    exact, v, expected = by_jax(name, case)
    np.testing.assert_allclose(want, exact, 1e-9, 1e-10)
    left = case.x.to_numpy().copy(), case.loss.to_numpy().copy()
    case.begin()
    found = sg.ad.hvp(case.loss, case.x, case.run, v)
    assert found.shape == v.shape and found.dtype == np.float64
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, 1e-8, 1e-8 * np.abs(expected).max())
    crossed = found.reshape(3, -1) @ v.reshape(3, -1).T
    np.testing.assert_allclose(crossed, crossed.T, 1e-8, 1e-9 * np.abs(crossed).max())
    np.testing.assert_allclose(case.x.grad.to_numpy(), want, 1e-12, 1e-13)
    np.testing.assert_allclose(case.x.to_numpy(), left[0], 1e-13)
    np.testing.assert_allclose(case.loss.to_numpy(), left[1], 1e-13)


@pytest.mark.rotating
@pytest.mark.parametrize("name", PROGRAMS)
def test_single_precision(name: str) -> None:
    case = PROGRAMS[name](sg.f32)
    _, v, expected = by_jax(name, case)
    case.begin(case.content.astype(np.float32))
    found = sg.ad.hvp(case.loss, case.x, case.run, v)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, 2e-3, 2e-4 * np.abs(expected).max())


@pytest.mark.expensive
def test_the_hessian_of_vectors_is_symmetric() -> None:
    """Of a program whose state is made of vectors, in batches that do not divide the number of elements."""
    case = PROGRAMS["springs"](sg.f64)
    case.begin()
    found = sg.ad.hessian(case.loss, case.x, case.run, batch=4)
    assert found.shape == case.content.shape * 2
    square = found.reshape(case.content.size, -1)
    np.testing.assert_allclose(square, square.T, 1e-9, 1e-10 * np.abs(square).max())
    _, v, expected = by_jax("springs", case)
    np.testing.assert_allclose(np.tensordot(v, found, 2), expected, 1e-8, 1e-9)


@pytest.mark.parametrize("name", ["while_and_break", "overwritten_in_place", "extremes_and_sums"])
def test_taylor_order(name: str) -> None:
    """g(x + h v) - g(x) - h H v is of second order in h."""
    case = PROGRAMS[name](sg.f64)
    v = np.random.default_rng(5).normal(size=case.content.shape)
    case.begin()
    along, at = sg.ad.hvp(case.loss, case.x, case.run, v), case.gradient()
    rest = [np.abs(case.gradient(case.content + h * v) - at - h * along).max() for h in (2e-4, 1e-4, 5e-5)]
    assert all(3.6 < a / b < 4.4 for a, b in zip(rest, rest[1:])), rest


def test_random_draws_are_those_of_the_launch() -> None:
    x, y, loss = support.reals(sg.f64, support.N, support.N, ())
    x.from_numpy(support.X)

    @sg.kernel
    def noisy():
        for i in x:
            v = x[i] * (0.5 + sg.random(sg.f64))
            for _ in range(i):
                if sg.random(sg.f64) < 0.7:
                    v = v * (0.5 + sg.random(sg.f64))
            y[i] = v
            loss[None] += v**3

    found = sg.ad.hvp(loss, x, noisy, np.ones(support.N))
    factor = y.to_numpy() / support.X
    assert len(set(factor)) == support.N
    np.testing.assert_allclose(found, 6 * factor**3 * support.X, 1e-12)


def test_a_step_behind_a_loop_serialized_for_an_extreme_has_dynamic_stacks() -> None:
    """An extreme of what a loop makes: the winner's adjoint goes into the reverse of a loop with an adstack."""
    x, top, loss = support.reals(sg.f64, 4, 2, ())
    group = support.numbers([0, 1, 0, 1])
    x.from_numpy(np.array([0.5, 0.7, 0.9, 0.3]))

    @sg.kernel
    def find():
        for i in x:
            v = x[i]
            while v < 3.0:
                v = v * v + 0.6 + x[i]
            sg.atomic_max(top[group[i]], v)

    @sg.kernel
    def total():
        for i in top:
            loss[None] += top[i] ** 2

    def run() -> None:
        find()
        total()

    def twin(x: Any) -> Any:
        ends = []
        for i in range(4):
            v = x[i]
            while v < 3.0:
                v = v * v + 0.6 + x[i]
            ends.append(v)
        return sum(max(ends[g::2]) ** 2 for g in range(2))

    v = np.array([1.0, -2.0, 0.5, 3.0])
    want = jax.jvp(jax.grad(twin), (x.to_numpy(),), (v,))[1]
    top.fill(-1.0)
    np.testing.assert_allclose(sg.ad.hvp(loss, x, run, v), want, 1e-9)
