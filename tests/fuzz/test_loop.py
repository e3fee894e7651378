"""Test the fuzzing loop: statistics add up, the seed determines a run, and a killed process is only a finding."""

from __future__ import annotations

import contextlib
import math
import signal

import pytest
from fuzz_support import CRASHES, HANGS, hostile, small
from stackgrad.harness.tools.fuzz.loop import fuzz
from stackgrad.harness.tools.fuzz.statistics import Statistics

BATCHES, CASES = 8, 40
"""Seeds are fixed, so that the same programs run each time; nights and campaigns draw others."""

OPEN_SHARE = 0.2
"""Greatest share of cases that no oracle decides, in the long run; 320 cases have 0.15."""

DEVIATION = math.sqrt(OPEN_SHARE * (1 - OPEN_SHARE) / CASES)
"""Standard deviation of the share of one batch, as of a binomial distribution: 6 points."""


@pytest.mark.rotating
@pytest.mark.parametrize("batch", range(BATCHES))
def test_fuzzing_finds_nothing(batch: int) -> None:
    """Every executor of this machine that is quick to compile for; most cases are decided, and need adstacks.

    Three cases of ten have nests; shares of a batch differ by 5 points.
    """
    found = fuzz(cases=CASES, seed=batch * CASES, processes=0)
    assert [f.title for f in found.findings] == []
    assert found.cases == sum(found.outcomes.values()) == len(found.milliseconds) == CASES
    assert found.open_share <= OPEN_SHARE + DEVIATION
    assert found.comparisons["reverse", "dual", "ok"] >= CASES // 2
    assert found.stacked >= 0.4 * CASES
    assert found.nested >= 0.2 * CASES


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (fuzz(cases=4, seed=7, processes=0, sample=small) for _ in range(2))
    assert first.comparisons == second.comparisons
    assert first.by_trips == second.by_trips


@pytest.mark.expensive
def test_crash_and_hang_are_findings() -> None:
    found = fuzz(cases=6, seed=0, processes=1, sample=hostile, hang=12.0)
    by_seed = {f.seed: f for f in found.findings}
    assert set(by_seed) == {CRASHES, HANGS}
    assert by_seed[CRASHES].crash == "the process died: exit status 3"
    assert "no answer within 12 s" in by_seed[HANGS].crash
    assert (found.crashes, found.cases) == (2, 4)
    assert found.outcomes["ok"] == 4
    assert by_seed[CRASHES].program == hostile(CRASHES)


def test_time_ends_a_run() -> None:
    found = fuzz(seconds=0.0, seed=0, processes=0, sample=small)
    assert found.cases == 1


def test_a_run_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds or cases"):
        fuzz()


def test_the_table_of_statistics() -> None:
    found = fuzz(cases=3, seed=0, processes=0, sample=small)
    rows = dict(found.table())
    assert rows["cases"].startswith("3 in ")
    assert rows["  ok"] == "3 (100%)"
    assert rows["1 trips or more"] == "2 of 2 decided"
    assert rows["2 trips or more"] == "1 of 1 decided"
    assert rows["adstacks in use"] == "100%"
    assert Statistics().open_share == 0.0


@pytest.mark.expensive
def test_an_interrupt_loses_no_finding() -> None:
    def interrupt(statistics: Statistics) -> None:
        if statistics.findings:
            raise KeyboardInterrupt

    found = fuzz(cases=6, seed=0, processes=1, sample=hostile, hang=12.0, progress=interrupt, keep_interrupted=True)
    assert found.interrupted and len(found.findings) == 1


def test_an_interrupt_that_python_drops_ends_the_run() -> None:
    """An exception in a destructor is dropped; so is a KeyboardInterrupt that Ctrl-C raises there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored

    def interrupt(statistics: Statistics) -> None:
        if statistics.cases == 2:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    try:
        found = fuzz(cases=6, seed=0, processes=0, sample=small, progress=interrupt, keep_interrupted=True)
    finally:
        after = signal.signal(signal.SIGINT, before)
    assert found.interrupted and found.cases == 2
    assert after is signal.default_int_handler


@pytest.mark.rotating
@pytest.mark.parametrize("processes", [0, 1])
def test_an_interrupt_reaches_callers_that_did_not_ask(processes: int) -> None:
    def interrupt(statistics: Statistics) -> None:
        raise KeyboardInterrupt

    found = fuzz(cases=6, seed=0, processes=processes, sample=small, progress=interrupt, keep_interrupted=True)
    assert found.interrupted and found.cases == 1
    with pytest.raises(KeyboardInterrupt):
        fuzz(cases=6, seed=0, processes=processes, sample=small, progress=interrupt)
