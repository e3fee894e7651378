"""Test gradients through local arrays: random programs against dual numbers under every policy, and closed forms."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from recorded_support import forward, gradient, near
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.oracles import dual

_spec = importlib.util.spec_from_file_location("random_arrays", Path(__file__).with_name("random_arrays.py"))
assert _spec and _spec.loader
random_arrays = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_arrays)

EPS = np.finfo(np.float64).eps


def launch(lowered, arrays, backend="reference"):
    Launcher(lowered, registry.get(backend), Options(debug=True)).run(arrays, {})


def pullback(kernel, arrays, seed, policy, backend="reference"):
    """Run the forward kernel and its gradient; return x.grad for a cotangent of y."""
    state = {k: v.copy() for k, v in arrays.items()}
    launch(prepare_forward(kernel, check=True), state, backend)
    state |= {"x.grad": np.zeros_like(arrays["x"]), "y.grad": seed.copy()}
    launch(prepare_reverse(kernel, policy, check=True), state, backend)
    return state["x.grad"]


@pytest.mark.rotating
@pytest.mark.parametrize("number", range(40))
def test_a_random_program(number):
    kernel, arrays = parse_kernel(random_arrays.make_text(number)), random_arrays.make_arrays(number)
    rng = np.random.default_rng(number)
    tangent, seed = rng.normal(size=4), rng.normal(size=4)
    _, moved = dual.jvp(kernel, arrays, {}, {"x": tangent, "y": np.zeros(4)})
    want = seed @ moved["y"]
    for policy in POLICIES:
        got = pullback(kernel, arrays, seed, policy)
        size = 1 + np.abs(got * tangent).sum()
        assert abs(got @ tangent - want) < 1e5 * EPS * size, policy
    left = forward(kernel, arrays)
    memory = left.arrays | {"x.grad": np.zeros_like(arrays["x"]), "y.grad": seed}
    near(gradient(kernel, memory, errors=left.errors), "x.grad", pullback(kernel, arrays, seed, "lean", "cpu"))
