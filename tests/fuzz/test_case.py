"""One case: what is compared, what kind of program it was, and that a mistake is seen by the comparison it concerns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fuzz_support import loop_program, wrong_backend, wrong_derivative
from stackgrad.compiler.ir.types import f64, i32
from stackgrad.harness.testing.outcome import OkOutcome
from stackgrad.harness.tools.fuzz.case import FuzzPanel, run_case
from stackgrad.harness.tools.fuzz.loop import fuzz
from stackgrad.harness.tools.fuzz.plan import BACKENDS, SHARES, FuzzPlan, plan_for
from stackgrad.harness.tools.fuzz.result import CaseResult, JudgedComparison
from stackgrad.harness.tools.fuzz.retry import calm_program, second_plan
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.model import load
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.peers import Peer, PeerAnswer
from stackgrad.harness.tools.strategies import sample

ALL = {
    ("forward", "text"),
    ("forward", "optimized"),
    ("forward", "cpu"),
    ("reverse", "counted"),
    ("reverse", "cpu"),
    ("reverse", "classic"),
    ("reverse", "dual"),
    ("reverse", "jax"),
    ("reverse", "types"),
    ("reverse", "text"),
    ("reverse", "tangent"),
    ("reverse", "policy"),
    ("forward", "cpu-masked"),
    ("reverse", "cpu-masked"),
    ("reverse", "again"),
    ("reverse", "sizes"),
}


@pytest.fixture(scope="module")
def runner() -> CaseRunner:
    return CaseRunner(WorkerSetup())


def verdicts(result: CaseResult) -> dict[tuple[str, str], str]:
    return {j.key: j.verdict for j in result.judged}


@pytest.mark.rotating
@pytest.mark.parametrize("launches", [1, 2])
def test_every_comparison_is_made(runner: CaseRunner, launches: int) -> None:
    result = runner.run(Job(0, loop_program(), FuzzPlan(launches=launches, oracle=True, check=True)))
    assert verdicts(result) == dict.fromkeys(ALL, "ok")
    assert result.outcome == "ok"
    assert (result.features.nest, result.features.trips, result.features.depth) == (1, 7, 7)


def test_a_narrowed_plan_makes_one_comparison(runner: CaseRunner) -> None:
    for key in ALL:
        result = runner.run(Job(0, loop_program(), FuzzPlan(oracle=True).narrowed(key)))
        assert verdicts(result) == {key: "ok"}


def test_a_wrong_derivative_is_seen_by_both_oracles(runner: CaseRunner) -> None:
    i = m.Name("i")
    less = m.Assign((m.Element("y", (i,)),), (m.Binary("-", m.Number(1.0), m.Element("x", (i,))),))
    program = replace(loop_program(), kernel=m.Kernel("k", (m.For(("i",), m.Over("x"), (less,)),)))
    with wrong_derivative():
        found = verdicts(runner.run(Job(0, program, FuzzPlan())))
    assert (found["reverse", "dual"], found["reverse", "jax"]) == ("disagree", "disagree")
    assert found["reverse", "classic"] == found["reverse", "cpu"] == "ok"


def test_traps_must_match(runner: CaseRunner) -> None:
    program = loop_program()
    outside = m.For(("i",), m.Over("x"), (m.Assign((m.Element("y", (m.Number(9),)),), (m.Number(1.0),)),))
    result = runner.run(Job(0, replace(program, kernel=m.Kernel("k", (outside,))), FuzzPlan()))
    assert set(verdicts(result)) == {("forward", "text"), ("forward", "optimized"), ("forward", "cpu")}
    assert set(verdicts(result).values()) == {"trap"}
    assert result.outcome == "trap"


def test_a_program_without_adjoints_has_no_gradient(runner: CaseRunner) -> None:
    program = loop_program()
    bare = replace(program, fields=tuple(replace(f, grad=False) for f in program.fields))
    result = runner.run(Job(0, bare, FuzzPlan()))
    assert {j.direction for j in result.judged} == {"forward"}
    assert result.outcome == "ok"


def test_a_backend_that_computes_something_else(runner: CaseRunner) -> None:
    i = m.Name("i")
    bent = m.Assign((m.Element("y", (i,)),), (m.Call("tanh", (m.Element("x", (i,)),)),))
    program = replace(loop_program(), kernel=m.Kernel("k", (m.For(("i",), m.Over("x"), (bent,)),)))
    with wrong_backend():
        result = runner.run(Job(0, program, FuzzPlan(masked=False)))
    assert {j.key for j in result.disagreements} == {("forward", "cpu"), ("reverse", "cpu")}


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (("ok", "unsupported"), "ok"),
        (("unsupported",), "unsupported"),
        (("poisoned", "unsupported"), "poisoned"),
        (("poisoned", "undecided", "unsupported"), "undecided"),
        (("ok", "poisoned"), "ok"),
        (("undecided", "disagree"), "disagreement"),
        (("trap", "trap"), "trap"),
    ],
)
def test_outcomes(found: tuple[str, ...], outcome: str) -> None:
    judged = tuple(JudgedComparison("forward", f"e{k}", "plain", v) for k, v in enumerate(found))  # type: ignore[arg-type]
    assert CaseResult(judged).outcome == outcome


def test_the_worse_direction_counts() -> None:
    forward = JudgedComparison("forward", "cpu", "plain", "ok")
    assert CaseResult((forward, JudgedComparison("reverse", "lean", "the compiler", "refused"))).outcome == "refused"
    poisoned = (
        JudgedComparison("reverse", "dual", "lean", "poisoned"),
        JudgedComparison("reverse", "cpu", "lean", "ok"),
    )
    assert CaseResult((forward, *poisoned)).outcome == "ok"
    assert not CaseResult((forward, *poisoned)).has_oracle
    text = JudgedComparison("forward", "text", "plain", "ok")
    assert CaseResult((text, JudgedComparison("forward", "cpu", "plain", "poisoned"))).outcome == "poisoned"
    assert CaseResult((text, *poisoned)).outcome == "ok"


def test_a_calmer_program_is_shorter_and_double() -> None:
    calm = calm_program(loop_program())
    assert {str(f.dtype) for f in calm.fields} == {"f64", "i32"}
    assert calm.arrays()["n"].tolist() == [0, 1, 2, 2]
    assert calm.arrays()["x"].dtype == np.float64


def test_a_calmer_program_keeps_permutations() -> None:
    """Iterations that write to the elements of a permutation would meet at the least of them."""
    program = replace(loop_program(), inputs=replace(loop_program().inputs, arrays=(("n", (2, 0, 3, 1)),)))
    assert calm_program(program).arrays()["n"].tolist() == [2, 0, 3, 1]
    program = replace(program, inputs=replace(program.inputs, arrays=(("n", (5, 0, 3, 5)),)))
    assert calm_program(program).arrays()["n"].tolist() == [2, 0, 2, 2]


def test_a_calmer_program_keeps_the_types_whose_bits_it_reads() -> None:
    bits = m.Assign((m.Name("k"),), (m.BitCast(m.Element("x", (m.Number(0),)), i32),))
    program = loop_program()
    calm = calm_program(replace(program, kernel=m.Kernel("k", (bits, *program.kernel.body))))
    assert {str(f.dtype) for f in calm.fields} == {"f32", "i32"}
    assert calm.arrays()["n"].tolist() == [0, 1, 2, 2]
    assert load(calm)


def test_plans_depend_on_the_seed_alone_and_differ() -> None:
    plans = [plan_for(seed, BACKENDS) for seed in range(3000)]
    assert plans == [plan_for(seed, BACKENDS) for seed in range(3000)]
    for name, share in SHARES.items():
        values = [getattr(p, _FIELDS.get(name, name)) for p in plans]
        drawn = sum(v not in (False, "", 0, 1) or v is True for v in values)
        assert 2000 * share <= drawn <= 4800 * share, name
    assert all(p.branching or p.masked for p in plans)
    assert 60 <= sum(p.branching and p.masked for p in plans) <= 120


_FIELDS = {"pair": "launches"}


def test_a_backend_that_is_asked_alone_runs_every_gradient() -> None:
    assert all(plan_for(seed, ("other",)).reverse for seed in range(50))
    assert not all(plan_for(seed, ("cpu", "other")).reverse for seed in range(50))


def test_a_thorough_run_has_every_gradient_on_the_backends_and_is_else_the_same() -> None:
    for seed in range(50):
        plan = plan_for(seed, BACKENDS, thorough=True)
        assert plan == replace(plan_for(seed, BACKENDS), reverse=True)
    found = fuzz(None, 8, 3, ("cpu",), 0, thorough=True)
    ran = sum(n for (direction, name, _), n in found.comparisons.items() if (direction, name) == ("reverse", "cpu"))
    assert ran >= found.differentiated > 4


def test_operations_and_extremes_always_run_natively(runner: CaseRunner) -> None:
    quiet = FuzzPlan(traced=False, text=False, forward=False, reverse=False, masked=False, classic=False, twins=False)
    operations = sample(0, "operations")
    assert ("forward", "cpu") in verdicts(runner.run(Job(0, operations, quiet)))
    i = m.Name("i")
    least = m.Evaluate(m.AtomicCall("min", m.Element("y", (m.Number(0),)), m.Element("x", (i,))))
    program = replace(loop_program(), kernel=m.Kernel("k", (m.For(("i",), m.Over("x"), (least,)),)))
    found = {key for key in verdicts(runner.run(Job(0, program, quiet))) if key[0] == "forward"}
    assert found == {("forward", "cpu-masked")}


def test_a_case_that_is_run_again_makes_nothing_otherwise() -> None:
    again = second_plan(FuzzPlan(launches=2, oracle=True))
    assert (again.launches, again.classic, again.twins, again.policy) == (1, False, False, "")
    assert again.reverse and again.tangents
    assert second_plan(FuzzPlan().narrowed(("reverse", "classic"))) == FuzzPlan().narrowed(("reverse", "classic"))


def test_a_small_kink_is_a_kink(runner: CaseRunner) -> None:
    """max(x, 1) at x = 1, where JAX halves the adjoint, as a small part of a gradient."""
    x, y = (m.Element(name, (m.Name("i"),)) for name in "xy")
    largest = m.Binary("*", m.Number(0.0002), m.Call("max", (x, m.Number(1.0))))
    body = m.For(("i",), m.Over("x"), (m.Assign((y,), (m.Binary("+", x, largest),)),))
    fields = (m.Field("x", f64, (2,), True), m.Field("y", f64, (2,), True))
    inputs = m.Inputs((("x", (1.0, 0.5)), ("y", (0.0, 0.0))), (), (("x", (0.0, 0.0)), ("y", (1.0, 1.0))))
    found = runner.run(Job(0, m.Program(m.Kernel("k", (body,)), fields, (), inputs, f64), FuzzPlan(oracle=True)))
    assert verdicts(found)["reverse", "jax"] == "poisoned"
    assert found.outcome == "ok"


class _Playing:
    """Represent a peer that is this package itself, so that the test needs no other package."""

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def begin(self, program: m.Program, alone: bool) -> Callable[[], PeerAnswer]:
        with Peer("stackgrad") as peer:
            found = peer.begin(program, alone)()
        if self.wrong and isinstance(found.gradient, OkOutcome):
            off = {name: array + 1 for name, array in found.gradient.arrays.items()}
            found = PeerAnswer(found.forward, OkOutcome(off))
        return lambda: found


@pytest.mark.parametrize("wrong", [False, True])
def test_peers_are_judged_in_both_directions(wrong: bool) -> None:
    panel = FuzzPanel({}, {"taichi": _Playing(wrong)})  # type: ignore[dict-item]
    found = run_case(loop_program(), FuzzPlan((), peers=("taichi",)), panel)
    assert verdicts(found)["forward", "taichi"] == "ok"
    assert verdicts(found)["reverse", "taichi"] == ("disagree" if wrong else "ok")
    narrow = FuzzPlan((), peers=("taichi",)).narrowed(("reverse", "taichi"))
    assert set(verdicts(run_case(loop_program(), narrow, panel))) == {("reverse", "taichi")}
