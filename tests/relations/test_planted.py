"""Test that each relation alone, on one executor without an oracle, finds mistakes planted in the compiler."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import pytest
import stackgrad as sg
from relation_kernels import KERNELS
from relation_support import chain_of, executor, reference, said, traced
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.ad.statements import Handler
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.types import f32, i32
from stackgrad.harness.tools.fuzz.bisect import Bisector
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.reduce import program_size, reduce
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.mutants import MUTANTS
from stackgrad.harness.tools.mutants.planting import patched_handler, patched_rule
from stackgrad.harness.tools.relations.table import TABLE

FINDS = {
    "loop-split": [
        ("for-misses-first", "loop"),
        ("rest-inside-loop", "nested"),
        ("siblings-forward", "nested"),
        ("last-iteration-read", "descending"),
        ("adjoints-outlive-iterations", "branch"),
    ],
    "permuted": [("shared-element-plain-add", "sums"), ("shared-element-plain-add", "box")],
    "kernel-split": [
        ("tasks-forward", "tasks"),
        ("prelude-missing", "temporaries"),
        ("earlier-tasks-not-repeated", "overwriting"),
    ],
}
"""Mutants by the relation that must fail, with a kernel on which it does."""


@pytest.mark.parametrize(
    ("relation", "mutant", "kernel"),
    [(relation, mutant, kernel) for relation, rows in FINDS.items() for mutant, kernel in rows],
)
def test_finds_a_mutant(relation: str, mutant: str, kernel: str) -> None:
    ir = traced(kernel, sg.f64)
    with MUTANTS[mutant].planted():
        wrong = [j for j in said(relation, ir, reference()) if j.verdict == "disagree"]
    assert any(j.key == ("reverse", relation) and "bound" in j.reason for j in wrong)
    assert not [j for j in said(relation, ir, reference()) if j.verdict == "disagree"], "nothing stays behind"


# ---- mistakes that are no mutants, for every other judge finds the first and none the second --------------------


def clipped_seed() -> AbstractContextManager[object]:
    """Plant a mistake: the reverse of a store limits the adjoint to 1, which is right for most seeds of tests."""

    def change(right: Handler) -> Handler:
        def wrong(r, stmt, path, position):  # type: ignore[no-untyped-def]
            take = r.take
            r.take = lambda value: r.b.op("min", take(value), r.b.const(1.0, value.type))
            try:
                right(r, stmt, path, position)
            finally:
                del r.take

        return wrong

    return patched_handler(n.Op, change)


def rule_of_single_precision() -> AbstractContextManager[None]:
    """Plant a mistake: in f32, the derivative of sin is a short series in place of cos."""
    right = VJP["sin"][0]
    assert right is not None

    def wrong(b, g, a, r):  # type: ignore[no-untyped-def]
        if a[0].type != f32:
            return right(b, g, a, r)
        half = b.op("mul", b.const(0.5, f32), b.op("mul", a[0], a[0]))
        return b.op("mul", g, b.op("sub", b.const(1.0, f32), half))

    return patched_rule("sin", 0, wrong)


@pytest.mark.parametrize("kernel", ["straight", "nested", "overwriting"])
def test_a_seed_that_is_clipped_is_not_linear(kernel: str) -> None:
    with clipped_seed():
        judged = said("linear", traced(kernel, sg.f64), reference(), draws=(0, 1))
    assert [j.verdict for j in judged] == ["disagree"] * 2


@pytest.mark.rotating
@pytest.mark.parametrize("on", ["reference", "cpu"])
def test_a_rule_that_is_wrong_in_one_type_is_seen_in_the_other(on: str) -> None:
    with rule_of_single_precision():
        judged = said("widened", traced("straight", sg.f32), executor(on), np.float32, draws=(1,))
        others = [
            j
            for r in TABLE
            if r != "widened"
            for j in said(r, traced("straight", sg.f32), executor(on), np.float32, draws=(0, 1))
        ]
    assert {j.direction: j.verdict for j in judged} == {"forward": "ok", "reverse": "disagree"}
    assert {j.verdict for j in others} == {"ok"}


def test_bounds_are_asked_only_where_results_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs most is left out of every check that finds nothing."""
    monkeypatch.setattr("stackgrad.harness.tools.relations.chain.launch_bounded", None)
    for relation in ("loop-split", "kernel-split"):
        assert {j.verdict for j in said(relation, traced("tasks", sg.f64), reference())} == {"ok"}
    with MUTANTS["for-misses-first"].planted(), pytest.raises(TypeError):
        said("loop-split", traced("tasks", sg.f64), reference())


# ---- as findings of a case --------------------------------------------------------------------------------------


KEY = ("reverse", "loop-split")
PLAN = FuzzPlan((), twins=False, again=False, tangents=False, classic=False, policy="", relations=("loop-split",))


def looped() -> m.Program:
    """Return a program that computes y[i] = sin(... sin(x[i]²)² ...), repeated n[i] times."""
    i, v = m.Name("i"), m.Name("v")
    body = (
        m.Assign((v,), (m.Element("x", (i,)),)),
        m.For(("j",), m.Range(None, m.Element("n", (i,))), (m.Assign((v,), (m.Call("sin", (m.Binary("*", v, v),)),)),)),
        m.Assign((m.Element("y", (i,)),), (v,)),
    )
    reals = (0.5, 0.75, 1.0)
    fields = (m.Field("x", f32, (3,), True), m.Field("n", i32, (3,)), m.Field("y", f32, (3,), True))
    inputs = m.Inputs((("x", reals), ("n", (3, 1, 2)), ("y", (0.0,) * 3)), (), (("x", reals), ("y", reals)))
    return m.Program(m.Kernel("k", (m.For(("i",), m.Over("x"), body),)), fields, (), inputs)


def test_a_finding_is_replayed_reduced_and_bisected() -> None:
    program = looped()
    assert not CaseRunner(WorkerSetup(())).run(Job(0, program, PLAN.narrowed(KEY))).disagreements
    with MUTANTS["for-misses-first"].planted():
        runner = CaseRunner(WorkerSetup(()))
        judged = runner.run(Job(0, program, PLAN.narrowed(KEY))).judged
        assert {j.key for j in judged if j.verdict == "disagree"} == {KEY}
        small = reduce(Finding(program, PLAN, judged), runner.run, 2.0)
        assert program_size(small.program) < program_size(program)
        assert KEY in {j.key for j in small.judged if j.verdict == "disagree"}
        assert runner.run(Job(0, small.program, small.plan.everything)).disagreements, "a replay asks for everything"
        suspect = Bisector(program, PLAN, KEY, runner.panel).statement()
    assert suspect is not None and "adjoint" in suspect.reason


def test_every_kernel_is_used() -> None:
    assert {kernel for rows in FINDS.values() for _, kernel in rows} <= set(KERNELS)
    assert chain_of(traced("sums", sg.f64)).seeds
