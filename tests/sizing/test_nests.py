"""Size expressions against the truth: random loop nests, on the interpreter that counts what is really pushed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nests import Nest, make_nest
from stackgrad.backends import registry
from stackgrad.backends.base import SLABS, Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import Lowering, prepare_reverse
from stackgrad.compiler.ir.nodes import StackAlloca
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.compiler.sizing.counting_kernel import OUTPUTS, stack_names
from stackgrad.compiler.sizing.evaluate import Evaluator, InexactSizes, sizes
from stackgrad.compiler.sizing.sizes import KernelSizes, estimate
from stackgrad.compiler.sizing.to_kernel import INEXACT, size_kernel
from stackgrad.reference.launch import run

SEEDS = st.integers(0, 2**32 - 1)


def truth(nest: Nest, lowered: Lowering) -> list[int]:
    """Depths as the interpreter reaches them; totals and rows by the counting kernel."""
    launcher = Launcher(replace(lowered, sizes=None), registry.get("reference"), Options())
    launcher.measure({k: a.copy() for k, a in nest.arrays.items()}, nest.scalars)
    counted = launcher._last
    assert launcher.stats.countings == 1
    report = run(lowered.kernel, {k: a.copy() for k, a in nest.arrays.items()}, nest.scalars, counted)
    names = stack_names(lowered.kernel)
    depths = [report.deepest.get(name, 0) for name in names]
    assert depths == [counted.capacities[name] for name in names], "the counting kernel counts what is pushed"
    tasks = range(len(lowered.kernel.tasks))
    return [*depths, *(counted.totals[name] for name in names), *(counted.rows[t, s] for t in tasks for s in SLABS)]


def native(sized: KernelSizes, nest: Nest, lowered: Lowering, backend: str) -> list[int] | None:
    """What the kernel of the expressions finds; None if it says that they do not hold."""
    kernel = size_kernel(lowered.kernel, sized)
    verify(kernel, "adjoint")
    count = len(sized.depths)
    own = {name: np.zeros(max(count, len(sized.rows)), np.int64) for name in (*OUTPUTS, INEXACT)}
    memory = {name: own[name] if name in own else nest.arrays[name] for name in kernel.array_types()}
    scalars = {name: nest.scalars[name] for name in kernel.scalar_types()}
    registry.get(backend).compile(kernel, Options(effort=0)).run(memory, scalars, Sizes(), Draws())
    if own[INEXACT][0]:
        return None
    depths, rows, totals = (own[name] for name in OUTPUTS)
    return [*depths[:count].tolist(), *totals[:count].tolist(), *rows[: len(sized.rows)].tolist()]


@pytest.mark.expensive
@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(["lean", "classic"]))
def test_expressions_are_exact(seed: int, lowering: str) -> None:
    """Where there are sizes, all executors find what is pushed; where there is a bound, no more is pushed."""
    nest = make_nest(seed)
    lowered = prepare_reverse(nest.kernel, lowering)
    if lowered.counting is None:
        return
    right = truth(nest, lowered)
    evaluator = Evaluator(nest.arrays, nest.scalars)
    for found, depth in zip(estimate(lowered.kernel), right):
        if found.depth is not None:
            bound = evaluator.number(found.depth)
            assert bound == depth if found.exact else bound >= depth, (nest.text, found.stack)
    assert (lowered.sizes is not None) or nest.hard, nest.text
    if lowered.sizes is not None:
        sized = lowered.sizes.sized()
        assert sizes(sized, nest.arrays, nest.scalars) == right, nest.text
        assert native(sized, nest, lowered, "reference") == right, nest.text


def test_machine_code_finds_the_same() -> None:
    for seed in range(12):
        nest = make_nest(seed, easy=True)
        lowered = prepare_reverse(nest.kernel)
        if lowered.sizes is not None:
            sized = lowered.sizes.sized()
            expected = sizes(sized, nest.arrays, nest.scalars)
            assert native(sized, nest, lowered, "cpu") == expected, nest.text


@pytest.mark.expensive
def test_most_nests_have_expressions() -> None:
    """At least 95 of 100 nests with adstacks need no count; stacks of all kinds are among them."""
    exact, types = [], set()
    for seed in range(120):
        lowered = prepare_reverse(make_nest(seed).kernel)
        if lowered.counting is not None:
            exact.append(lowered.sizes is not None)
            types |= {s.dtype.name for s in walk_kernel(lowered.kernel) if isinstance(s, StackAlloca)}
    assert sum(exact) >= 0.95 * len(exact) and len(exact) > 80
    assert not all(exact), "nests that end early are counted"
    assert {"f32", "f64", "i32"} <= types


@pytest.mark.parametrize("seed", range(8))
def test_other_data_is_found_with_the_same_expressions(seed: int) -> None:
    """One lowering, many states; an element outside its array is not read."""
    nest = make_nest(seed, easy=True)
    lowered = prepare_reverse(nest.kernel)
    if lowered.sizes is None:
        return
    sized = lowered.sizes.sized()
    rng = np.random.default_rng(seed)
    for m in (-3, 0, 7):
        nest.scalars["m"] = m
        nest.arrays["cnt"][:] = rng.integers(-1, 4, nest.arrays["cnt"].size)
        nest.arrays["p"][:] = rng.random(nest.arrays["p"].size) > 0.3
        assert sizes(sized, nest.arrays, nest.scalars) == truth(nest, lowered), nest.text
    nest.arrays["idx"][:] = 1000
    try:
        found = sizes(sized, nest.arrays, nest.scalars)
    except InexactSizes:
        found = None
    assert native(sized, nest, lowered, "reference") == found
