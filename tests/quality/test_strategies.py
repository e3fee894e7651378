"""Test that strategies draw raw kernels with the outcome that they promise, and that Hypothesis can shrink them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy
from stackgrad.compiler.errors import StackgradError
from stackgrad.compiler.ir.nodes import Op, StackPush
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.types import REALS, SCALARS
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.harness.tools.model.nodes import Program
from stackgrad.harness.tools.model.walk import walk_program
from stackgrad.harness.tools.strategies import (
    RawCase,
    adstack_kernels,
    edge_cases,
    programs,
    sample_adstacks,
    sample_single_op,
    single_op_kernels,
)
from stackgrad.harness.tools.strategies.draw import Chooser, RandomChooser
from stackgrad.harness.tools.strategies.values import EDGES
from stackgrad.reference.launch import run

QUIET = settings(
    max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def trap_of(case: RawCase, stage: str) -> str | None:
    verify(case.kernel, stage)
    try:
        run(case.kernel, case.memory(), {})
    except StackgradError as error:
        return type(error).__name__
    return None


def test_adstack_kernels_end_as_said() -> None:
    cases = [sample_adstacks(seed) for seed in range(150)]
    assert [trap_of(c, "adjoint") for c in cases] == [c.trap for c in cases]
    counts = Counter(c.trap for c in cases)
    assert counts[None] > 60 and counts["AdstackOverflow"] > 15 and counts["EmptyStack"] > 15
    assert all(any(isinstance(s, StackPush) for s in walk_kernel(c.kernel)) for c in cases)


def test_single_operations_end_as_said() -> None:
    cases = list(edge_cases())
    assert [c.kernel.name for c in cases if trap_of(c, "tasks") != c.trap] == []
    assert {s.op for c in cases for s in walk_kernel(c.kernel) if isinstance(s, Op)} == set(OPS)
    assert any(c.trap for c in cases)


def test_sampled_single_operations_end_as_said() -> None:
    cases = [sample_single_op(seed) for seed in range(100)]
    assert [trap_of(c, "tasks") for c in cases] == [c.trap for c in cases]


@given(adstack_kernels())
@settings(QUIET, max_examples=30)
def test_drawn_adstacks(case: RawCase) -> None:
    assert trap_of(case, "adjoint") == case.trap


@given(single_op_kernels())
@settings(QUIET, max_examples=60)
def test_drawn_single_operations(case: RawCase) -> None:
    assert trap_of(case, "tasks") == case.trap


def smallest(strategy: SearchStrategy[Program]) -> Program:
    """Return the smallest program of a strategy, to which Hypothesis shrinks a failure that all programs show."""
    return find(strategy, lambda program: True, settings=settings(QUIET, phases=[Phase.generate, Phase.shrink]))


def test_programs_shrink_to_a_line() -> None:
    program = smallest(programs("smooth"))
    assert len(list(walk_program(program))) < 15
    assert len(program.arrays()["x"]) == 1 and not program.arguments and not program.kernel.functions


def test_an_overflow_shrinks() -> None:
    case = find(adstack_kernels(), lambda c: c.trap == "AdstackOverflow", settings=QUIET)
    assert len(list(walk_kernel(case.kernel))) < 30 and len(case.arrays["x"]) == 1


@pytest.mark.parametrize("dtype", SCALARS.values(), ids=str)
def test_edges_are_values_of_their_type(dtype: object) -> None:
    with np.errstate(over="raise"):
        values = np.array(EDGES[dtype.name], dtype.dtype)  # type: ignore[attr-defined]
    assert len(np.unique(values.view(f"V{values.itemsize}"))) >= min(len(values), 2)
    if dtype in REALS:
        assert np.isnan(values).any() and np.isinf(values).any() and np.signbit(values[values == 0]).any()
        assert ((values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)).any()


def test_a_random_draw_is_fair() -> None:
    draw: Chooser = RandomChooser(1)
    counts = Counter(draw.choice("aab") for _ in range(3000))
    assert 1800 < counts["a"] < 2200 and counts["b"] == 3000 - counts["a"]
    assert {draw.integer(-1, 2) for _ in range(200)} == {-1, 0, 1, 2}
    assert 200 < sum(draw.boolean(0.1) for _ in range(3000)) < 400
