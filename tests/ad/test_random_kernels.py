"""Test gradients of random kernels by dual numbers, for both lowerings on the reference and for the CPU backend.

One random direction t and one random seed c judge a whole gradient: <c, J t> by dual numbers must equal <Jᵀ c, t>.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable
from stackgrad.compiler.ir.verify import verify
from stackgrad.harness.testing.oracles import dual

_spec = importlib.util.spec_from_file_location("random_kernels", Path(__file__).with_name("random_kernels.py"))
assert _spec and _spec.loader
random_kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_kernels)

REALS, LANES = random_kernels.REALS, random_kernels.LANES
SEEDS = range(60)
EPS = np.finfo(np.float64).eps


def launch(lowered, arrays, backend):
    Launcher(lowered, registry.get(backend), Options(debug=True)).run(arrays, {})


def adjoints(kernel, arrays, seeds, lowering, backend):
    """Return the adjoints after the grad kernel ran on `arrays`, which the forward kernel has written."""
    state = {k: v.copy() for k, v in arrays.items()} | {f"{k}.grad": v.copy() for k, v in seeds.items()}
    launch(prepare_reverse(kernel, lowering, check=True), state, backend)
    for name in arrays:
        assert np.array_equal(state[name], arrays[name]), f"the grad kernel changed the primal {name}"
    return {k: state[f"{k}.grad"] for k in seeds}


@pytest.mark.rotating
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_a_random_kernel(seed):
    kernel, arrays = random_kernels.make_kernel(seed), random_kernels.make_arrays(seed)
    verify(kernel, "tasks")
    rng = np.random.default_rng(seed)
    tangents, cotangents = ({k: rng.normal(size=LANES) for k in REALS} for _ in range(2))
    final, moved = dual.jvp(kernel, arrays, {}, tangents)
    forward = {k: v.copy() for k, v in arrays.items()}
    launch(prepare_forward(kernel, check=True), forward, "reference")
    for name in REALS:
        np.testing.assert_allclose(forward[name], final[name], rtol=1e4 * EPS, atol=1e4 * EPS)
    want = sum(cotangents[k] @ moved[k] for k in REALS)
    for lowering, backend in (("lean", "reference"), ("classic", "reference"), ("lean", "cpu")):
        try:
            got = adjoints(kernel, forward, cotangents, lowering, backend)
        except NotDifferentiable:
            continue
        size = 1 + sum(np.abs(got[k] * tangents[k]).sum() for k in REALS)
        assert abs(sum(got[k] @ tangents[k] for k in REALS) - want) < 1e6 * EPS * size, (lowering, backend)


def test_few_kernels_are_refused():
    """The random kernels test something: most have a gradient, and most of those need adstacks."""
    refused = stacked = 0
    for seed in SEEDS:
        try:
            stacked += prepare_reverse(random_kernels.make_kernel(seed)).counting is not None
        except NotDifferentiable:
            refused += 1
    assert refused < len(SEEDS) // 4
    assert stacked > len(SEEDS) // 3
