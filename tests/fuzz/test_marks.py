"""Test gradients whose correctness depends on data: they are judged if marks find no conflict, else refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stackgrad.backends import registry
from stackgrad.compiler.ir.types import f64, i32
from stackgrad.harness.tools.fuzz import case, reduce
from stackgrad.harness.tools.fuzz.case import FuzzPanel, run_case
from stackgrad.harness.tools.fuzz.plan import FuzzPlan, plan_for
from stackgrad.harness.tools.fuzz.result import CaseResult
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.strategies import sample
from stackgrad.harness.tools.strategies.shapes import shapes

JUDGES = {"counted", "cpu", "classic", "dual", "jax"}
DIFFERENT, REPEATED = (2, 0, 3, 1), (2, 0, 2, 1)


def program(places: tuple[int, ...], claim: bool = False, scale: float = 0.5) -> Program:
    """Return the program y[t[i]] = scale * sin(y[t[i]]); with scale = 0 every order gives the same."""
    i, k = m.Name("i"), m.Name("k")
    place: m.Expr = m.Element("t", (i,))
    element = m.Element("y", (k,))
    value = m.Binary("*", m.Call("sin", (element,)), m.Number(scale))
    body = (m.Assign((k,), (m.Call("assume_unique", (place,)) if claim else place,)), m.Assign((element,), (value,)))
    loop = m.For(("i",), m.Over("x"), body)
    fields = (m.Field("x", f64, (4,)), m.Field("t", i32, (4,)), m.Field("y", f64, (4,), True))
    numbers = (0.25, 0.5, 0.75, 1.25)
    inputs = m.Inputs((("x", numbers), ("t", places), ("y", numbers)), (), (("y", numbers),))
    return m.Program(m.Kernel("k", (loop,)), fields, (), inputs, f64)


def judged(of: Program, plan: FuzzPlan) -> CaseResult:
    return run_case(of, plan, FuzzPanel({"cpu": registry.get("cpu")}))


def reverse(result: CaseResult) -> dict[str, str]:
    return {j.executor: j.verdict for j in result.judged if j.direction == "reverse"}


@pytest.mark.parametrize("claim", [False, True])
@pytest.mark.parametrize("launches", [1, 2])
def test_judged_where_marks_find_nothing(claim: bool, launches: int) -> None:
    found = reverse(judged(program(DIFFERENT, claim), FuzzPlan(oracle=True, launches=launches)))
    assert found.keys() >= JUDGES | {"marks"} and set(found.values()) == {"ok"}


@pytest.mark.parametrize("claim", [False, True])
def test_refused_where_iterations_meet(claim: bool) -> None:
    result = judged(program(REPEATED, claim, scale=0.0), FuzzPlan(oracle=True))
    assert reverse(result) == {"marks": "ok", "lean": "refused"}
    reason = next(j.reason for j in result.judged if j.executor == "lean")
    assert ("assume_unique does not hold" if claim else "iteration 0 of this parallel loop reads y[2]") in reason


def test_a_gradient_that_is_wrong_where_marks_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks that see nothing let a wrong gradient through to the judges, and a backend that sees more disagrees."""
    same = program(REPEATED, scale=0.0)
    monkeypatch.setattr(case, "marking_refusal", lambda lean, backend, launches, scalars: None)
    assert reverse(judged(same, FuzzPlan(oracle=True)))["marks"] == "ok"
    monkeypatch.setattr(
        case, "marking_refusal", lambda lean, backend, *rest: ValueError("seen") if backend.name == "cpu" else None
    )
    result = judged(same, FuzzPlan(oracle=True))
    reason = next(j.reason for j in result.judged if j.executor == "marks")
    assert reverse(result)["marks"] == "disagree" and reason == "cpu: seen; the reference: no iterations meet"


def test_reductions_stay_with_iterations_apart() -> None:
    """A permutation may not be reduced to something else: with places that repeat, the order of iterations decides."""
    right = program(DIFFERENT)
    assert not reduce.iterations_meet(right)
    assert reduce.iterations_meet(program(REPEATED))
    constant = m.Assign((m.Name("k"),), (m.Number(0),))
    (loop,) = right.kernel.body
    assert isinstance(loop, m.For)
    body = (constant, *loop.body[1:])
    assert reduce.iterations_meet(replace(right, kernel=m.Kernel("k", (replace(loop, body=body),))))


@pytest.mark.expensive
def test_drawn_and_judged() -> None:
    """Permutations of random programs are ones: no launch is refused for them, and most gradients are judged."""
    wanted = {"store through a permutation", "claim of unique indices"}
    seeds = [seed for seed in range(700) if wanted & shapes(sample(seed))]
    found = [judged(sample(seed), plan_for(seed, ("cpu",), ())) for seed in seeds]
    marked = [r for r in found if "marks" in reverse(r)]
    assert len(seeds) >= 8 and len(marked) >= 4
    assert all(r.outcome != "disagreement" for r in found)
    assert all(reverse(r).get("lean") != "refused" for r in marked)


def walk(places: tuple[int, ...]) -> Program:
    """Return the program y[t[i]] = sin(x[i]); w[i] = y[t[i]] y[t[i]], a serial loop."""
    i, trips = m.Name("i"), m.Range(None, m.Number(4))
    element = m.Element("y", (m.Element("t", (i,)),))
    stored = m.Assign((element,), (m.Call("sin", (m.Element("x", (i,)),)),))
    read = m.Assign((m.Element("w", (i,)),), (m.Binary("*", element, element),))
    start = program(places)
    fields = (*(replace(f, grad=f.name != "t") for f in start.fields), m.Field("w", f64, (4,), True))
    numbers = (0.25, 0.5, 0.75, 1.25)
    inputs = m.Inputs((*start.inputs.arrays, ("w", numbers)), (), (("y", numbers), ("w", numbers), ("x", numbers)))
    loop = m.For(("i",), trips, (stored, read), serialize=True)
    return m.Program(m.Kernel("k", (loop,)), fields, (), inputs, f64)


@pytest.mark.parametrize("places", [DIFFERENT, REPEATED])
def test_a_serial_walk_is_judged_by_hand_while_it_stores_each_element_once(places: tuple[int, ...]) -> None:
    """Under a tape it is judged always; by hand the marks of all backends must say the same of it."""
    plan = FuzzPlan(oracle=True)
    result = judged(walk(places), plan)
    found = [(j.reference, j.verdict) for j in result.judged if j.executor == "by-hand"]
    assert found == [("the reference", "ok")] + [("lean", "ok")] * (places == DIFFERENT)
    assert reverse(result).keys() >= JUDGES and set(reverse(result).values()) == {"ok"}
