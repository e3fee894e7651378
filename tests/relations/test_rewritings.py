"""Test how relations rewrite a kernel, what they leave unchanged, and when a fuzzing plan chooses them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import stackgrad as sg
from relation_support import chain_of, reference, traced
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import i64
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import results, walk_kernel
from stackgrad.harness.testing.launch import array_parameters
from stackgrad.harness.testing.outcome import OkOutcome, RefusedOutcome, TrapOutcome
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.fuzz.plan import BACKENDS, FuzzPlan, plan_for
from stackgrad.harness.tools.fuzz.result import SURE, CaseResult, JudgedComparison
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.relations import RELATIONS, launches, loops, order, widths
from stackgrad.harness.tools.relations.chain import LaunchChain
from stackgrad.harness.tools.relations.judging import RelationQuestion, equal_with_nan
from stackgrad.harness.tools.strategies import sample


def fors(kernel: Kernel) -> list[n.For]:
    return [s for s in walk_kernel(kernel) if isinstance(s, n.For)]


def test_one_loop_becomes_two() -> None:
    kernel = traced("nested", sg.f64)
    for draw, count in ((0, 4), (1, 3)):  # the outer loop takes the inner one along
        made = loops.split(kernel, draw)
        assert made is not None and len(fors(made)) == count
        verify(made, "source")
    assert loops.split(traced("straight", sg.f64), 0) is None


def test_the_second_half_of_a_descending_loop_comes_first() -> None:
    made = loops.split(traced("descending", sg.f64), 0)
    assert made is not None
    first, second = fors(made)[:2]
    assert first.descending and second.end != first.end and first.begin != second.begin
    assert second.begin == fors(traced("descending", sg.f64))[0].begin


def test_a_loop_that_break_ends_stays() -> None:
    kernel = traced("exits", sg.f64)
    assert [bool(loops.has_own_break(s.body)) for s in fors(kernel)] == [False, True]
    assert len(loops.splittable_loops(kernel)) == 1


def test_mirrored_kernels_visit_the_same_points() -> None:
    made = order.reverse_order(traced("box", sg.f64))
    assert made is not None
    verify(made, "source")
    assert order.reverse_order(traced("drawn", sg.f64)) is None, "a random number belongs to its iteration"


@pytest.mark.parametrize(
    ("op", "uses", "sees"), [("add", False, False), ("add", True, True), ("exchange", False, True)]
)
def test_kernels_that_see_the_order(op: str, uses: bool, sees: bool) -> None:
    assert order.sees_order(parse_kernel(ATOMIC.format(op=op, value="%5" if uses else "%3"))) == sees


ATOMIC = """kernel k(x: f64[1] grad, y: f64[1] grad) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = const 4
  }} parallel %2: i32 in %0 .. %1 {{
    %3: f64 = load x[%2]
    %4: i32 = const 0
    %5: f64 = atomic {op} y[%4], %3
    store x[%2], {value}
  }}
}}
"""


def test_integers_become_wide() -> None:
    made = widths.widen_integers(traced("loop", sg.f64))
    assert made is not None
    verify(made, "source")
    whole = {v.type for s in walk_kernel(made) for v in results(s) if v.type.is_int}
    assert whole == {i64} and i64 in {t.dtype for t in made.array_types().values()}


def test_integers_that_overflow_say_nothing() -> None:
    """2 ** 40 by doubling: the narrow one has wrapped, so the relation is silent; up to 2 ** 20 it speaks."""
    for trips, speaks in ((40, False), (20, True)):
        kernel = doubling(trips)
        (name,) = array_parameters(kernel)
        chain = LaunchChain((Lowerings(kernel),), {name: np.array([1], np.int32)}, {}, {})
        assert [j.verdict for j in widths.check(chain, reference(), 0, True)] == (["ok"] if speaks else [])


def doubling(trips: int) -> Kernel:
    sg.init(arch=sg.reference)
    field = sg.field(sg.i32, shape=(1,))

    @sg.kernel
    def k():
        for i in field:
            for _ in range(trips):
                field[i] = field[i] * 2

    return k.ir()


def test_temporaries_that_cross_become_arrays() -> None:
    plain = chain_of(traced("temporaries", sg.f64)).made[0].plain.kernel
    for draw in range(len(plain.tasks) - 1):
        found = launches.split(plain, draw)
        assert found is not None
        (first, second), crossing = found
        assert len(first.tasks) == draw + 1 and len(first.tasks) + len(second.tasks) == len(plain.tasks)
        assert {t.name for t in crossing} <= {p.name for p in first.params} & {p.name for p in second.params}
        for made in (first, second):
            verify(made, "tasks")
    assert launches.split(traced("straight", sg.f64), 0) is None


# ---- verdicts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "near", "same"),
    [
        ([1.0, np.nan], [1.0, np.nan], True, True),
        ([1.0], [1.0 + 2.0**-52], True, False),
        ([1.0], [1.0 + 2.0**-48], False, False),
        ([0.0], [-0.0], True, False),
        ([np.inf], [1.0], False, False),
    ],
)
def test_alike(a: list[float], b: list[float], near: bool, same: bool) -> None:
    left, right = np.array(a), np.array(b)
    assert (equal_with_nan(left, right, False), equal_with_nan(left, right, True)) == (near, same)
    assert equal_with_nan(left.astype(np.float32), left, False), "the coarser type decides"


def test_ends_without_a_result() -> None:
    question, fine = RelationQuestion("reverse", "linear", "cpu"), OkOutcome({"x": np.zeros(1)})
    ask = lambda end: question.compare(fine, end, (None, None)).verdict  # type: ignore[arg-type]  # noqa: E731
    assert ask(TrapOutcome("AdstackOverflow", "")) == "disagree"
    assert ask(TrapOutcome("OutOfFuel", "")) == "unsupported"
    assert ask(RefusedOutcome("no")) == "refused"
    assert question.compare(fine, OkOutcome({"x": np.ones(1)}), (None, None), True).verdict == "disagree"  # type: ignore[arg-type]


# ---- plans ------------------------------------------------------------------------------------------------------


def test_plans_ask_for_relations() -> None:
    plans = [plan_for(seed, BACKENDS) for seed in range(4000)]
    named = Counter(name for plan in plans for name in plan.relations)
    assert set(named) == set(RELATIONS) and min(named.values()) > 20
    strays = named.pop("stray")
    assert 0.045 < sum(named.values()) / len(plans) < 0.08 and 0.08 < strays / len(plans) < 0.12
    assert 0.4 < sum(plan.positions for plan in plans) / len(plans) < 0.5
    assert {plan.relate_on for plan in plans} == {"reference", "backends"}


@pytest.mark.expensive
def test_a_case_asks_every_executor_that_its_plan_has() -> None:
    program = sample(4, "smooth")
    everything = FuzzPlan(BACKENDS, text=False, twins=False, again=False, tangents=False, relations=RELATIONS)
    judged = CaseRunner(WorkerSetup()).run(Job(4, program, everything)).judged
    asked = {j.reference for j in judged if j.executor in RELATIONS}
    assert asked == {"reference", *BACKENDS}
    key = ("reverse", "linear")
    narrow = CaseRunner(WorkerSetup()).run(Job(4, program, everything.narrowed(key))).judged
    assert {j.key for j in narrow} == {key} and len(narrow) == 3


def test_relations_alone_do_not_decide_a_case() -> None:
    said_so, open_ = (
        JudgedComparison("reverse", "linear", "cpu", "ok"),
        JudgedComparison("reverse", "dual", "lean", "undecided"),
    )
    assert set(RELATIONS) <= SURE
    assert CaseResult((said_so, open_)).outcome == "undecided"
