"""Test twins of programs: they are written differently, and have the same results and gradients to the last bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fuzz_support import loop_program, smooth, wrong_derivative
from stackgrad.harness.tools.fuzz.equivalent_programs import TWINS, recompute_values, unroll_loops
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.source import definitions

I, J, V, W = map(m.Name, "ijvw")
X, Y = m.Element("x", (I,)), m.Element("y", (I,))


def over_lanes(*body: m.Stmt) -> Program:
    return replace(loop_program(), kernel=m.Kernel("k", (m.For(("i",), m.Over("x"), body),)))


def counted(*body: m.Stmt, end: int = 3) -> m.For:
    return m.For(("j",), m.Range(None, m.Number(end)), body)


SQUARES = over_lanes(
    m.Assign((V,), (X,)),
    m.Assign((W,), (m.Call("sin", (X,)),)),
    counted(
        m.If(m.Compare((">",), (V, m.Number(2.0))), (m.Break(),)),
        m.Assign((V,), (m.Binary("+", m.Binary("*", V, W), m.Binary("*", m.Number(0.1), J)),)),
    ),
    m.Assign((Y,), (V,)),
)


def lines(program: Program | None) -> list[str]:
    assert program is not None
    return [line.strip() for line in definitions(program).splitlines()]


def test_an_unrolled_loop_keeps_the_type_of_its_index() -> None:
    text = lines(unroll_loops(SQUARES))
    assert "for j in sg.static(range(0, 3, 1)):" in text
    assert "v = (v * w) + (0.1 * sg.i32(j))" in text
    assert lines(SQUARES).count("for i in x:") == text.count("for i in x:") == 1


def test_a_value_is_made_again_in_the_loop() -> None:
    text = lines(recompute_values(SQUARES))
    assert text.count("w = sg.sin(x[i])") == 2 and text.count("v = x[i]") == 1


@pytest.mark.parametrize(
    "program",
    [
        over_lanes(m.Assign((W,), (X,)), counted(m.Assign((X,), (W,)))),
        over_lanes(m.Assign((W,), (m.Random(),)), counted(m.Assign((Y,), (W,)))),
        over_lanes(m.Assign((V,), (X,)), m.Assign((W,), (V,)), counted(m.Augment(V, "+", W), end=9)),
    ],
    ids=["written array", "random number", "operand that changes"],
)
def test_what_would_differ_is_left(program: Program) -> None:
    assert recompute_values(program) is None


def test_long_loops_and_loops_of_the_launch_stay() -> None:
    assert unroll_loops(loop_program()) is None
    assert unroll_loops(over_lanes(counted(m.Assign((Y,), (X,)), end=9))) is None


def test_twins_are_compared_forward_and_reverse() -> None:
    found = {j.key: j.verdict for j in CaseRunner(WorkerSetup()).run(Job(0, SQUARES, FuzzPlan())).judged}
    keys = {(d, name) for d in ("forward", "reverse") for name in (*TWINS, "text")}
    assert {key: found.get(key) for key in keys} == dict.fromkeys(keys, "ok")


@pytest.mark.expensive
def test_twins_of_random_programs_agree() -> None:
    runner, verdicts = CaseRunner(WorkerSetup()), []
    for seed in range(60):
        program = smooth(seed)
        if any(make(program) for make in TWINS.values()):
            verdicts += [j for j in runner.run(Job(seed, program, FuzzPlan(()))).judged if j.executor in TWINS]
    assert [j for j in verdicts if j.verdict == "disagree"] == []
    assert sum(j.verdict == "ok" for j in verdicts) >= 20


def test_a_wrong_twin_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that is none: its loop runs once less."""
    less = over_lanes(
        *SQUARES.kernel.body[0].body[:2],
        counted(*SQUARES.kernel.body[0].body[2].body, end=2),  # type: ignore[attr-defined]
        SQUARES.kernel.body[0].body[3],
    )  # type: ignore[attr-defined]
    monkeypatch.setitem(TWINS, "unrolled", lambda program: less)  # type: ignore[misc]
    judged = CaseRunner(WorkerSetup()).run(Job(0, SQUARES, FuzzPlan())).disagreements
    assert {j.key for j in judged} == {("forward", "unrolled"), ("reverse", "unrolled")}


def test_a_narrowed_plan_asks_one_twin() -> None:
    key = ("reverse", "unrolled")
    with wrong_derivative():
        found = CaseRunner(WorkerSetup()).run(Job(0, SQUARES, FuzzPlan().narrowed(key)))
    assert {j.key for j in found.judged} == {key}
