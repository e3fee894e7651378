"""Test steered cases: properties that a run has not reached yet come more often, and cases are reproducible."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest
from fuzz_support import small, wrong_derivative
from stackgrad.cli import CommandError, build_parser
from stackgrad.cli.fuzz import _again, _cases, report
from stackgrad.harness.tools.fuzz.guide import CANDIDATES, EVERY, TRACKS, SeedTracks, choose
from stackgrad.harness.tools.fuzz.loop import fuzz
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from stackgrad.harness.tools.strategies import sample, shapes

CASES = 1000
RARE = 0.03
"""Share of programs below which a shape counts as rare."""


@cache
def plain() -> tuple[frozenset[str], ...]:
    """Return the properties of programs that the strategies draw without steering."""
    return tuple(shapes(sample(seed)) for seed in range(CASES))


@cache
def steered() -> tuple[frozenset[str], ...]:
    """Return the properties of programs of a steered run with the same number of cases."""
    tracks, found = SeedTracks(iter(range(CASES))), []
    while (taken := tracks.take()) is not None:
        program, its, _ = choose(sample, *taken)
        assert its == shapes(program)
        tracks.end(taken[0], its)
        found.append(its)
    assert len(found) == CASES
    return tuple(found)


def counts(programs: tuple[frozenset[str], ...]) -> Counter[str]:
    return Counter(name for found in programs for name in found)


def rare() -> list[str]:
    return [name for name, count in counts(plain()).items() if count <= RARE * CASES]


@pytest.mark.expensive
def test_rare_shapes_become_more_frequent() -> None:
    before, after = counts(plain()), counts(steered())
    assert len(rare()) > 10
    assert sum(after[name] for name in rare()) >= 1.3 * sum(before[name] for name in rare())


@pytest.mark.expensive
def test_rare_shapes_appear_sooner() -> None:
    def cases_to(programs: tuple[frozenset[str], ...], name: str) -> int:
        """Until the fifth program with it: of one in a hundred the first are luck."""
        found = [k for k, its in enumerate(programs) if name in its]
        return found[4] if len(found) > 4 else CASES

    waits = [sum(cases_to(run, name) for name in rare()) for run in (plain(), steered())]
    assert waits[1] < 0.9 * waits[0]


@pytest.mark.expensive
def test_an_unreached_shape_is_preferred() -> None:
    """The case draws several programs; all that it draws but one shape was reached often, so that shape decides."""
    decided = 0
    for seed in range(0, EVERY * TRACKS * 40, EVERY * TRACKS):
        drawn = [choose(partial(_candidate, seed, k), seed, {})[1] for k in range(CANDIDATES)]
        for name in drawn[-1] - drawn[0]:
            if sum(name in its for its in drawn) == 1:
                reached = dict.fromkeys(frozenset().union(*drawn) - {name}, 9999)
                assert name in choose(sample, seed, reached)[1]
                decided += 1
    assert decided > 20


def _candidate(seed: int, number: int, asked: int):  # type: ignore[no-untyped-def]
    """The candidate of this number in the place of every one."""
    from stackgrad.harness.tools.fuzz.guide import STEP

    return sample(seed + number * STEP)


def test_other_cases_draw_the_program_of_their_seed() -> None:
    for seed in range(TRACKS, 2 * TRACKS):
        assert choose(sample, seed, {})[0] == sample(seed)


def test_a_track_has_one_case_at_a_time() -> None:
    tracks = SeedTracks(iter(range(3 * TRACKS)))
    first = [tracks.take() for _ in range(TRACKS)]
    assert [taken and taken[0] for taken in first] == list(range(TRACKS))
    assert tracks.take() is None
    tracks.end(5, frozenset({"while"}))
    assert tracks.take() == (TRACKS + 5, {"while": 1})
    assert tracks.take() is None


def test_a_finding_holds_the_program_that_ran() -> None:
    """Also that of a case late in its track."""
    runner, tracks = CaseRunner(WorkerSetup(())), SeedTracks(iter(range(7, 7 + TRACKS * 3)))
    late = 0
    while (taken := tracks.take()) is not None:
        job = Job(taken[0], reached=taken[1])
        chosen = runner.setup.choose(job.seed, job.reached)
        again = runner.setup.choose(job.seed, dict(job.reached))
        assert again == chosen
        late += chosen.program != sample(job.seed)
        tracks.end(job.seed, chosen.shapes)
    assert late > 2


@pytest.mark.expensive
def test_the_number_of_processes_changes_nothing() -> None:
    runs = [fuzz(cases=24, seed=31, processes=count) for count in (0, 2)]
    assert runs[0].comparisons == runs[1].comparisons
    assert runs[0].features == runs[1].features


def test_equal_programs_are_those_of_their_seeds() -> None:
    for seed in range(40):
        assert choose(small, seed, {"while": 3})[0] == small(seed)


def steered_findings(cases: int) -> list[Finding]:
    """Of a run with a mistake: those of cases that ran another program than they do without the cases before them."""
    with wrong_derivative():
        found = fuzz(cases=cases, seed=0, processes=0).findings
    return [f for f in found if f.seed is not None and choose(sample, f.seed, {}).candidate != f.candidate]


@pytest.mark.expensive
def test_a_finding_names_its_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is printed runs the same program again, also of a case that was steered by those before it."""
    found = steered_findings(3 * EVERY * TRACKS)
    assert found
    for finding in found:
        with wrong_derivative():
            again = fuzz(cases=1, seed=finding.seed, candidate=finding.candidate, processes=0).findings
        assert [(f.program, f.judged, f.case) for f in again] == [(finding.program, finding.judged, finding.case)]
    given = build_parser().parse_args(["fuzz", "--thorough", "--profile", "smooth", "--backends", "cpu"])
    report(found[0], tmp_path, _again(found[0], given, ("cpu",)))
    told = capsys.readouterr().out
    assert f"seed {found[0].seed}, candidate {found[0].candidate}, kept in {tmp_path}" in told
    words = told.partition("again: stackgrad ")[2].splitlines()[0].split()
    asked = build_parser().parse_args(words)
    assert (asked.seed, asked.candidate, asked.backends) == (found[0].seed, found[0].candidate, "cpu")
    assert asked.thorough and asked.profile == "smooth" and _cases(asked) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--candidate", "1"], "--seed S names that"),
        (["--candidate", "1", "--seed", "3", "--cases", "2"], "--seed S names that"),
        (["--candidate", str(CANDIDATES), "--seed", "3"], f"a case draws {CANDIDATES} programs, from 0"),
    ],
)
def test_a_candidate_is_of_one_case(options: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        _cases(build_parser().parse_args(["fuzz", *options]))
