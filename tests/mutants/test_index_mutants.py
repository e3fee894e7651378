"""Test mutants of index checks, which allow indices outside of arrays: a relation must find them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.analysis.index_checks import index_checks
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.harness.testing.executors import PRECISE, backend_by_name
from stackgrad.harness.testing.guard_pages import GuardedArrays
from stackgrad.harness.testing.outcome import TrapOutcome
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.relation_checks import relations_of
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.mutants import MUTANTS
from stackgrad.harness.tools.relations import out_of_bounds
from stackgrad.harness.tools.relations.chain import LaunchChain, RelationExecutor
from stackgrad.harness.tools.strategies import sample, shapes

BELOW = out_of_bounds.WAYS.index(out_of_bounds._mirrored)
"""A way that leads to bytes in front of an array, which may be touched: the process lives on."""


@pytest.fixture
def kernel() -> Kernel:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, 8, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k():
        for i in x:
            y[i] = 2.0 * x[i]

    return k.ir()


def verdicts(kernel: Kernel, backend: str) -> set[str]:
    """What the relation says where the one load goes astray below zero, forward and in reverse."""
    loads = [s for s in walk_kernel(kernel) if isinstance(s, (n.Load, n.Store))]
    arrays = {s.array: np.arange(8.0) for s in loads}
    seeds = {f"{name}.grad": np.ones(8) for name in arrays}
    chain = LaunchChain((Lowerings(kernel),), arrays, {}, seeds)
    on = RelationExecutor(backend, backend_by_name(backend), PRECISE)
    return {judged.verdict for judged in out_of_bounds.check(chain, on, BELOW * len(loads), True)}


@pytest.mark.parametrize("backend", ["cpu", "cpu-masked"])
def test_an_index_below_zero_that_passes_is_seen(kernel: Kernel, backend: str) -> None:
    with MUTANTS["negative-index-passes"].planted():
        assert "disagree" in verdicts(kernel, backend)
    assert verdicts(kernel, backend) == {"ok"}


@pytest.fixture(params=["local-position-passes", "view-twice-as-long"])
def position(request: pytest.FixtureRequest) -> tuple[str, Kernel]:
    """A mutant of positions, and a kernel that has one of the kind."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, 8, needs_grad=True) for _ in range(2))
    at = sg.field(sg.i32, 8)

    @sg.kernel
    def local():
        for i in y:
            v = sg.Vector([x[i], x[i] * x[i], 1.0])
            y[i] = v[at[i] % 3]

    @sg.kernel
    def view():
        for i in y:
            v = sg.BufferView(x, 1, at[i] + 2)
            y[i] = v[at[i]]

    return request.param, (local if request.param.startswith("local") else view).ir()


def draw_of(kernel: Kernel, kind: str, way: out_of_bounds.Way) -> int:
    """The number that moves the last index of a kind in this way."""
    found = out_of_bounds.index_places(kernel)
    kinds = [name for name in out_of_bounds.KINDS if found[name]]
    last = len(found[kind]) - 1
    return kinds.index(kind) + len(kinds) * (last + len(found[kind]) * out_of_bounds.WAYS.index(way))


def chain_of(kernel: Kernel) -> LaunchChain:
    arrays = {"x": np.arange(8.0), "y": np.zeros(8), "at": np.zeros(8, np.int32)}
    arrays = {p.name: arrays[p.name] for p in kernel.params if p.name in arrays}
    return LaunchChain((Lowerings(kernel),), arrays, {}, {f"{name}.grad": np.ones(8) for name in "xy"})


@pytest.mark.rotating
@pytest.mark.parametrize("way", [out_of_bounds._beyond, out_of_bounds._extent])
@pytest.mark.parametrize("backend", ["cpu", "cpu-masked"])
def test_a_position_that_passes_is_seen(position: tuple[str, Kernel], backend: str, way: out_of_bounds.Way) -> None:
    """Where the position goes astray: by as many as there are, or to the first behind them."""
    name, kernel = position
    draw = draw_of(kernel, name.partition("-")[0], way)

    def verdicts() -> set[str]:
        on = RelationExecutor(backend, backend_by_name(backend), PRECISE)
        return {judged.verdict for judged in out_of_bounds.check(chain_of(kernel), on, draw, True)}

    with MUTANTS[name].planted():
        assert "disagree" in verdicts()
    assert verdicts() == {"ok"}


def test_another_index_is_moved_where_one_is_not_reached() -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, 8, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k():
        for i in y:
            if x[i] < -1.0:
                y[i] = x[7 - i]
            y[i] += 1.0

    kernel = k.ir()
    never = [
        out_of_bounds._launch(out_of_bounds._unproved(moved), GuardedArrays.of(chain_of(kernel).initial), *where)
        for moved in (out_of_bounds.strayed(kernel, draw) for draw in range(4))
        for where in [(chain_of(kernel), out_of_bounds._reference())]
    ]
    assert {type(end).__name__ for end in never} == {"OkOutcome", "TrapOutcome"}
    for draw in range(4):
        _, end = out_of_bounds._reached(chain_of(kernel), draw)
        assert isinstance(end, TrapOutcome) and end.kind == out_of_bounds.EXPECTED


def test_positions_are_moved_more_often_than_the_plan_moves_indices(position: tuple[str, Kernel]) -> None:
    name, kernel = position
    plan = FuzzPlan(positions=True)
    assert relations_of(kernel, plan) == ("stray",)
    assert relations_of(kernel, replace(plan, relations=("linear", "stray"))) == ("linear", "stray")
    assert relations_of(kernel, FuzzPlan()) == ()
    moved = [out_of_bounds.index_places(out_of_bounds.strayed(kernel, draw)) for draw in range(6)]
    kind = name.partition("-")[0]
    assert sum(places[kind] != out_of_bounds.index_places(kernel)[kind] for places in moved) == 4


def test_indices_alone_are_no_positions(kernel: Kernel) -> None:
    assert relations_of(kernel, FuzzPlan(positions=True)) == ()
    assert out_of_bounds.has_indices(kernel) and not out_of_bounds.has_positions(kernel)


def test_a_case_moves_an_index_forward_where_its_plan_runs_gradients_only() -> None:
    """The compiler drops a position from the gradient that it does not need; the forward kernel has all of them."""
    plan = FuzzPlan(("cpu",), text=False, twins=False, again=False, tangents=False, forward=False, relations=("stray",))
    program = next(p for p in map(sample, range(100)) if "local array" in shapes(p) and "while" not in shapes(p))
    runner = CaseRunner(WorkerSetup(("cpu",)))
    for reverse, directions in ((False, {"forward"}), (True, {"forward", "reverse"})):
        judged = runner.run(Job(0, program, replace(plan, reverse=reverse))).judged
        assert {j.direction for j in judged if j.executor == "stray"} == directions
    added = runner.run(Job(0, program, replace(plan, relations=(), positions=True))).judged
    assert {j.direction for j in added if j.executor == "stray"} == {"forward"}


def test_a_proof_that_reaches_too_far_drops_a_comparison() -> None:
    """What is not compared then ends the process of the fuzzer at a wall, so nothing is launched here."""
    from stackgrad.compiler.ir.parser import parse_kernel

    text = """kernel k(x: f64[1]) { bounds { %0: i32 = shape x, 0 %1: i32 = const 0 } parallel %2: i32 in %1 .. %0 {
        %3: i32 = const 1 %4: i32 = add %2, %3 %5: f64 = load x[%4] } }"""
    task = parse_kernel(text).tasks[0]
    (load,) = (s for s in task.body if isinstance(s, n.Load))
    with MUTANTS["index-proved-too-far"].planted():
        assert not index_checks(task, True).of(load)
    assert index_checks(task, True).of(load) == {0}


def test_walls_hold() -> None:
    """Arrays between walls are copies; a byte written in front of one shows."""
    given = {"x": np.arange(5, dtype=np.float32), "none": np.zeros((0, 3))}
    guarded = GuardedArrays.of(given)
    assert guarded.is_whole
    np.testing.assert_array_equal(guarded.arrays["x"], given["x"])
    assert guarded.arrays["none"].shape == (0, 3)
    memory, _, start = guarded._memory[0]
    memory[start - 1] = 0
    assert not guarded.is_whole
