"""Raw adstack kernels beside the program of a case: drawn by the plan, judged on backends, kept in findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.harness.testing.executors import backend_by_name
from stackgrad.harness.testing.outcome import OkOutcome, Outcome, TrapOutcome
from stackgrad.harness.tools.fuzz import raw_stacks
from stackgrad.harness.tools.fuzz.case import FuzzPanel, run_case
from stackgrad.harness.tools.fuzz.plan import FuzzPlan, plan_for
from stackgrad.harness.tools.strategies import sample, sample_adstacks
from stackgrad.harness.tools.strategies.adstacks import EMPTY, OVERFLOW, read_as_zero
from stackgrad.reference.launch import run


@pytest.mark.expensive
def test_backends_agree_with_the_language() -> None:
    backends = {name: backend_by_name(name) for name in ("cpu", "cpu-masked")}
    seen = set()
    for number in range(1, 25):
        found = list(raw_stacks.compare(FuzzPlan(stacks=number, effort=0), backends))
        assert [j.verdict for j in found] == ["ok", "ok"], f"{number}: {found}"
        seen.add(sample_adstacks(number).trap)
    assert seen == {None, EMPTY, OVERFLOW}


def test_a_kernel_that_reads_an_empty_stack_goes_on_with_zero() -> None:
    cases = [case for case in map(sample_adstacks, range(80)) if case.trap == EMPTY]
    assert len(cases) > 5
    for case in cases:
        run(read_as_zero(case.kernel), case.memory(), {})


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (TrapOutcome("AdstackOverflow", "adstack s overflowed: it holds 3 values and a push made it 4"), ""),
        (
            TrapOutcome(
                "AdstackOverflow", "adstack s overflowed: it holds 3 values and the loop of the push made it 9"
            ),
            "",
        ),
        (
            TrapOutcome("AdstackOverflow", "adstack s overflowed: it holds 3 values and a push made it 2"),
            "numbers of two threads",
        ),
        (TrapOutcome("OutOfBounds", "index 3"), "the language: AdstackOverflow"),
        (OkOutcome({}), "the language: AdstackOverflow"),
    ],
)
def test_reports_of_overflows(found: Outcome, reason: str) -> None:
    said = raw_stacks._misreported(found)
    assert (reason in said) if reason else not said


class Torn:
    """Represent a wrong backend, whose overflow messages have the numbers of another adstack."""

    name = "torn"

    def compile(self, *args: object) -> object:
        raise AdstackOverflow("adstack s overflowed: it holds 3 values and a push made it 7")


def test_what_fails_is_a_finding_that_stays_when_the_program_shrinks() -> None:
    number = next(n for n in range(1, 80) if sample_adstacks(n).trap == OVERFLOW)
    panel = FuzzPanel({"torn": Torn()})  # type: ignore[dict-item]
    plan = replace(FuzzPlan(("torn",)), stacks=number, forward=False, reverse=False)
    (judged,) = (j for j in raw_stacks.compare(plan, panel.backends))
    assert judged.verdict == "disagree" and judged.key == ("stacks", "torn")
    for seed in (1, 2):
        result = run_case(sample(seed), plan.narrowed(judged.key), panel)
        assert [j.key for j in result.judged] == [("stacks", "torn")] and result.disagreements
    assert plan.narrowed(("forward", "torn")).stacks == 0


def test_shares() -> None:
    """Seldom on the CPU, whose stacks have tests of their own; in every second case of a device."""
    rare, often = (
        np.mean([plan_for(seed, backends).stacks > 0 for seed in range(400)]) for backends in (("cpu",), ("vulkan",))
    )
    assert 0.02 < rare < 0.12 and 0.4 < often < 0.6
