"""Test that the generator draws each shape of program at a minimum rate, and that most gradients have adstacks.

The rates hold over fixed seeds, so a change of the generator that loses a shape fails here, and nothing else does.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable, Unsupported
from stackgrad.harness.tools.model import Program, load, render_ir
from stackgrad.harness.tools.model.nodes import RESULT
from stackgrad.harness.tools.strategies import SHAPES, SMOOTH, coverage, coverage_table, sample, shapes

COUNT = 1200
COMPILED = 80

LEAST: dict[str, float] = {
    "sibling loops": 0.06,
    "triangular loop": 0.3,
    "data-dependent loop": 0.3,
    "nest of depth 2": 0.25,
    "nest of depth 3": 0.015,
    "gated loop": 0.1,
    "while": 0.3,
    "negative step": 0.15,
    "reversed range": 0.05,
    "zero-trip loop": 0.05,
    "unrolled loop": 0.05,
    "several axes": 0.15,
    "loop over a field without axes": 0.02,
    "break in nested if": 0.05,
    "break": 0.2,
    "continue": 0.15,
    "return of the kernel": 0.015,
    "early return in a function": 0.05,
    "function without decorator": 0.02,
    "recurrence": 0.4,
    "value before a loop, used in it": 0.12,
    "own element in place": 0.15,
    "gather with duplicates": 0.12,
    "scatter with duplicates": 0.25,
    "atomic min or max": 0.06,
    "no lanes": 0.03,
    "several tasks": 0.15,
    "reduction into a local of the kernel": 0.1,
    "serial loop of the kernel": 0.01,
    "swap": 0.005,
    "ternary": 0.25,
    "short circuit": 0.15,
    "chained comparison": 0.1,
    "cast": 0.5,
    "walrus": 0.07,
    "argument": 0.4,
    "boolean local": 0.08,
    "vectors": 0.1,
    "field of vectors": 0.07,
    "matrix": 0.007,
    "vector @ vector": 0.004,
    "vector changed in a loop": 0.05,
    "entry at a dynamic index": 0.04,
    "part of a vector assigned": 0.02,
    "swizzle or slice": 0.03,
    "norm": 0.015,
    "product of vectors": 0.05,
    "comprehension": 0.02,
    "function of vectors": 0.005,
    "atomic on a vector": 0.002,
    "index vector": 0.06,
    "array argument": 0.25,
    "result of the kernel": 0.05,
    "random number": 0.02,
    "stop_grad": 0.015,
    "store through a permutation": 0.02,
    "claim of unique indices": 0.005,
    "function written in the language": 0.03,
    "i64": 0.2,
    "f16": 0.02,
    "f32": 0.3,
    "f64": 0.3,
    "struct": 0.06,
    "struct changed in a loop": 0.04,
    "struct in a struct": 0.004,
    "vector in a struct": 0.01,
    "struct as a whole": 0.02,
    "struct given to a function": 0.008,
    "field of structs": 0.025,
    "field with an offset": 0.035,
    "negative first index": 0.025,
    "view": 0.05,
    "views of one array": 0.015,
    "step of the launch": 0.05,
    "atomic exchange": 0.015,
    "atomic cas": 0.015,
    "value of an atomic": 0.035,
    "local array": 0.08,
    "local array of a loop": 0.02,
    "local array of integers": 0.02,
    "local array read in its iteration": 0.02,
    "local started in an iteration": 0.06,
    "extreme of one side": 0.035,
    "deep branches": 0.006,
    "local named like a field": 0.02,
    "local named like a function": 0.02,
}


@cache
def samples() -> tuple[Program, ...]:
    return tuple(sample(seed) for seed in range(COUNT))


@cache
def rates() -> dict[str, float]:
    return coverage(samples())


def test_every_shape_has_a_least_rate() -> None:
    assert set(LEAST) == set(SHAPES)


@pytest.mark.rotating
@pytest.mark.parametrize("name", LEAST)
def test_rate(name: str) -> None:
    assert rates()[name] >= LEAST[name], coverage_table(samples())


def test_nests_of_loops_are_common() -> None:
    assert rates()["nest of depth 2"] >= 0.2


def test_no_shape_is_everywhere() -> None:
    """A program without a shape exists for every shape, so each predicate can say no."""
    assert [name for name, rate in rates().items() if rate == 1.0] == []


@cache
def gradients() -> Counter[str]:
    """Return the numbers of smooth programs whose gradient has adstacks, has none, or is refused."""
    found: Counter[str] = Counter()
    for seed in range(COMPILED):
        try:
            lowered = prepare_reverse(load(sample(seed, SMOOTH))[0])
        except (NotDifferentiable, Unsupported):
            found["refused"] += 1
        else:
            found["plain" if lowered.counting is None else "stacks"] += 1
    return found


@pytest.mark.expensive
def test_gradients_need_adstacks() -> None:
    assert gradients()["stacks"] >= (COMPILED - gradients()["refused"]) / 2


def test_few_programs_are_refused() -> None:
    assert gradients()["refused"] <= COMPILED / 5


def test_inputs_fit_their_fields() -> None:
    for program in samples():
        arrays = program.arrays()
        assert list(arrays) == [f.name for f in program.fields] + [RESULT] * (program.kernel.result is not None)
        assert set(program.seeds()) == {f.name for f in program.fields if f.grad}
        views = [f"{v.name}.{part}" for f in program.fields for v in f.views for part in ("offset", "size")]
        assert list(program.scalars()) == [name for p in program.arguments for name in p.entries] + views


def test_smooth_programs_have_distinct_lanes() -> None:
    lanes = [p.arrays()["x"] for p in samples() if p.profile == SMOOTH and "x" in p.arrays()]
    assert all(len(np.unique(x)) == len(x) for x in lanes)
    assert sum(len(x) > 2 for x in lanes) > COUNT / 3


def test_outputs_start_with_something() -> None:
    outputs = [p.arrays()[name] for p in samples() for name in "yzosr" if name in p.arrays()]
    assert sum(bool(np.any(array != 0)) for array in outputs) > len(outputs) / 2


def test_the_same_seed_gives_the_same_program() -> None:
    assert [sample(seed) for seed in range(20)] == list(samples()[:20])
    assert len({sample(seed) for seed in range(20)}) == 20


def test_shapes_of_one_program() -> None:
    """Predicates agree with a look at the kernel itself."""
    for program in samples()[:40]:
        tasks = [t for t in render_ir(program).tasks if t.is_parallel]
        assert ("several tasks" in shapes(program)) == (len(tasks) > 1)
