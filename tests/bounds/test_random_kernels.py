"""Test that no executor and no run in double precision leaves the error bounds, on random kernels and gradients.

Bounds for precise code are compared with the cpu backend and the reference in another order; the others with the
widened kernel and with cpu code that may contract. More than 10^5 elements in f32, fewer in f16 and f64.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable
from stackgrad.compiler.ir.types import adjoint_type, f16, f32, f64
from stackgrad.compiler.passes.widen import widen
from stackgrad.harness.testing.bounds import BoundedKernel, histogram, judge, overall, run_bounded
from stackgrad.reference.launch import run

_spec = importlib.util.spec_from_file_location("random_bounded", Path(__file__).with_name("random_bounded.py"))
assert _spec and _spec.loader
random_bounded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_bounded)

GRAD = ".grad"
SAMPLES = {"f32": (f32, range(8), 512), "f16": (f16, range(100, 103), 64), "f64": (f64, range(200, 203), 64)}


@dataclass
class Tally:
    """Collect results of many runs: ratios of bound to true error, and shares of undecided elements."""

    elements: int = 0
    outside: list = field(default_factory=list)
    ratios: list = field(default_factory=list)
    results: list = field(default_factory=list)
    undecided: int = 0
    refused: int = 0


def directions(seed, dtype, lanes, tally):
    """Yield (lowered kernel, arrays, names to compare): the forward kernel, then its gradient at the result."""
    kernel = random_bounded.make_kernel(seed, dtype, lanes)
    arrays, rng = random_bounded.make_arrays(seed, dtype, lanes), np.random.default_rng(seed)
    forward = prepare_forward(kernel)
    yield forward, arrays, list(arrays)
    final = {name: array.copy() for name, array in arrays.items()}
    run(forward.kernel, final, {})
    seeds = {name + GRAD: rng.normal(size=lanes).astype(adjoint_type(dtype).dtype) for name in random_bounded.REALS}
    try:
        yield prepare_reverse(kernel), final | seeds, list(seeds)
    except NotDifferentiable:
        tally.refused += 1


def copied(arrays, wide=False):
    return {
        name: array.astype(np.float64) if wide and array.dtype.kind == "f" else array.copy()
        for name, array in arrays.items()
    }


def others(lowered, arrays, precise):
    """Yield (name, arrays) for each run whose results must lie within the bounds."""
    found = []
    launcher = Launcher(lowered, registry.get("cpu"), Options(precise=precise))
    found.append(("cpu", copied(arrays)))
    launcher.run(found[-1][1], {})
    found.append(("reordered", copied(arrays)) if precise else ("double", copied(arrays, wide=True)))
    kernel, order = (lowered.kernel, "reverse") if precise else (widen(lowered.kernel), "vector")
    run(kernel, found[-1][1], {}, order=order)
    return found


def examine(lowered, arrays, names, tally, label):
    program = BoundedKernel(lowered.kernel)
    for precise in (True, False):
        found = run_bounded(program, arrays, {}, precise=precise)
        if found.poisoned is not None:
            tally.results.append((found.trips, "poisoned"))
            continue
        mine = {name: found.arrays[name] for name in names}
        verdicts = {}
        for who, other in others(lowered, arrays, precise):
            verdicts = judge(mine, other, found.errors)
            tally.outside += [(label, who, v.reason) for v in verdicts.values() if v.state == "disagree"]
            tally.elements += sum(v.elements for v in verdicts.values())
            tally.undecided += sum(v.undecided for v in verdicts.values())
            if who == "double":
                tally.ratios += tightness(mine, other, found.errors)
        tally.results.append((found.trips, overall(verdicts)))


def tightness(mine, exact, errors):
    with np.errstate(invalid="ignore"):
        gaps = {name: np.abs(array.astype(float) - exact[name]) for name, array in mine.items()}
    return [r for name, gap in gaps.items() for r in errors[name][gap > 0] / gap[gap > 0] if np.isfinite(r)]


@cache
def tally_of(name):
    dtype, seeds, lanes = SAMPLES[name]
    tally = Tally()
    for seed in seeds:
        for lowered, arrays, names in directions(seed, dtype, lanes, tally):
            examine(lowered, arrays, names, tally, seed)
    return tally


@pytest.mark.rotating
@pytest.mark.parametrize("name", ["f32", "f16", "f64"])
def test_nothing_leaves_its_bound(name):
    assert tally_of(name).outside == []


@pytest.mark.expensive
def test_the_proof_is_large_and_says_something(capsys):
    """Few runs are poisoned, most are decided, bounds are within two digits of what is reached."""
    tally = tally_of("f32")
    with capsys.disabled():
        print()
        histogram(tally.results)
        print(
            f"{tally.elements} elements, {tally.undecided / tally.elements:.2%} undecided, {tally.refused} refused; "
            f"bound / error: median {np.median(tally.ratios):.0f}, 95 % below {np.percentile(tally.ratios, 95):.0f}"
        )
    assert tally.elements > 100_000
    states = [state for _, state in tally.results]
    assert states.count("poisoned") < len(states) / 5
    assert states.count("agree") > len(states) * 0.7
    assert np.median(tally.ratios) < 100


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_constant_is_found(seed):
    """A result that is off by a thousandth in one lane is outside its bound wherever that bound decides."""
    lowered, arrays, names = next(directions(seed, f32, 32, Tally()))
    found = run_bounded(lowered.kernel, arrays, {})
    assert found.poisoned is None
    wrong = copied(found.arrays)
    wrong["z"][3] *= np.float32(1.002)
    states = {name: v.state for name, v in judge(found.arrays, wrong, found.errors).items()}
    assert states.pop("z") == "disagree" and "disagree" not in states.values()


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(300, 312))
def test_both_lowerings_agree_within_the_sum_of_their_bounds(seed):
    """Twins compute the same gradient by other operations: each within its bound of the exact one."""
    kernel, rng = random_bounded.make_kernel(seed, f32, 16, wild=0.0), np.random.default_rng(seed)
    start = run_bounded(prepare_forward(kernel).kernel, random_bounded.make_arrays(seed, f32, 16), {}, precise=False)
    arrays = start.arrays | {n + GRAD: rng.normal(size=16).astype(np.float32) for n in random_bounded.REALS}
    try:
        grads = [prepare_reverse(kernel, lowering).kernel for lowering in ("lean", "classic")]
    except NotDifferentiable:
        return
    lean, classic = (run_bounded(grad, arrays, {}, errors=start.errors, precise=False) for grad in grads)
    if lean.poisoned or classic.poisoned or start.poisoned:
        return
    verdicts = judge(lean.arrays, classic.arrays, lean.errors, classic.errors)
    assert overall(verdicts) != "disagree", verdicts
    for name in random_bounded.REALS:
        if lean.arrays[name + GRAD].any():
            wrong = {name + GRAD: lean.arrays[name + GRAD] * np.float32(1.01)}
            sure = lean.errors[name + GRAD] + classic.errors[name + GRAD] < 0.004 * np.abs(wrong[name + GRAD])
            found = judge(wrong, classic.arrays, lean.errors, classic.errors)[name + GRAD]
            assert found.state == "disagree" or not sure.any()
