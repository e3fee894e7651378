"""Test the way from a planted mistake to its line: it is found, reduced, stored, replayed and bisected."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from fuzz_support import first_finding, loop_program, wrong_backend, wrong_derivative
from stackgrad.backends.base import Draws
from stackgrad.compiler.errors import KernelNameError, KernelSyntaxError, KernelTypeError, Unsupported
from stackgrad.harness.tools.fuzz import corpus
from stackgrad.harness.tools.fuzz.bisect import Bisector, Suspect, name_of
from stackgrad.harness.tools.fuzz.edits import EDITS
from stackgrad.harness.tools.fuzz.instrument import MOVE, boxes, offset_values, trace_values
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.reduce import distinct, program_size, reduce
from stackgrad.harness.tools.fuzz.replay import replay
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.fuzz.worker import CaseRunner, WorkerSetup
from stackgrad.harness.tools.model import load
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.model.tidy import tidy
from stackgrad.reference.launch import run

Plant = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Story:
    """Hold the results of the commands that found, reduced and bisected a planted mistake."""

    found: Finding
    small: Finding
    folder: Path
    again: Finding | None
    suspect: Suspect | None
    pass_: Suspect | None
    name: str


def tell(plant: Plant, root: Path) -> Story:
    runner = CaseRunner(WorkerSetup())
    with plant():
        found, _ = first_finding(seed=1)
        small = reduce(found, runner.run, seconds=60.0)
        folder = corpus.write(root, small)
        again = next(f for _, f in replay([root], ("cpu",), runner.run))
        key = corpus.failed_key(small.judged)
        assert key is not None
        bisector = Bisector(small.program, small.plan, key, runner.panel)
        return Story(
            found, small, folder, again, bisector.statement(), bisector.first_pass(), name_of(small, runner.panel)
        )


@pytest.fixture(scope="module")
def derivative(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(wrong_derivative, tmp_path_factory.mktemp("derivative"))


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(wrong_backend, tmp_path_factory.mktemp("backend"))


@pytest.mark.expensive
def test_a_wrong_derivative_becomes_a_few_lines(derivative: Story) -> None:
    text = definitions(derivative.small.program)
    assert len(text.splitlines()) <= 10
    assert " -" in text
    assert corpus.failed_key(derivative.small.judged) == ("reverse", "dual")
    assert program_size(derivative.small.program) < program_size(derivative.found.program)


def test_a_wrong_derivative_is_bisected_to_its_statement(derivative: Story) -> None:
    assert derivative.suspect is not None
    assert ": f" in derivative.suspect.text and " = sub " in derivative.suspect.text
    assert " -" in derivative.suspect.place
    assert derivative.pass_ is not None
    assert derivative.pass_.text == "reverse (lean)"


@pytest.mark.expensive
def test_a_wrong_backend_is_bisected_to_its_statement(backend: Story) -> None:
    assert len(definitions(backend.small.program).splitlines()) <= 10
    key = corpus.failed_key(backend.small.judged)
    assert key is not None and key[1] == "cpu"
    assert backend.suspect is not None
    assert " = tanh " in backend.suspect.text
    assert "tanh" in backend.suspect.place


def test_both_fail_again_when_replayed_and_pass_when_cured(derivative: Story, backend: Story) -> None:
    assert derivative.again is not None and backend.again is not None
    for story in (derivative, backend):
        (passed,) = [f for _, f in replay([story.folder], ("cpu",), CaseRunner(WorkerSetup()).run)]
        assert passed is None


def test_what_is_kept_of_a_finding(derivative: Story) -> None:
    entry = corpus.read(derivative.folder)
    assert entry.program == derivative.small.program
    assert entry.key == ("reverse", "dual")
    assert {p.name for p in derivative.folder.iterdir()} == {
        "case.py",
        "kernel.ir",
        "plan.json",
        "program.json",
        "verdict.txt",
    }
    lines = (derivative.folder / "verdict.txt").read_text().splitlines()
    assert lines[0].split() == ["direction", "executor", "against", "verdict", "reason"]
    assert [line for line in lines if line.split()[3] == "disagree"]
    compile((derivative.folder / "case.py").read_text(), "case.py", "exec")
    assert "kernel k(" in (derivative.folder / "kernel.ir").read_text()


def test_findings_of_one_mistake_are_one(derivative: Story, backend: Story) -> None:
    assert derivative.name != backend.name
    assert " = sub " in derivative.name
    kept = distinct([derivative.found, derivative.small, backend.small], lambda f: str(corpus.failed_key(f.judged)))
    assert kept == [derivative.small, backend.small]


def test_what_does_not_fail_again_is_left_as_it_is() -> None:
    finding = Finding(loop_program(), FuzzPlan(), (JudgedComparison("reverse", "dual", "lean", "disagree"),))
    assert reduce(finding, CaseRunner(WorkerSetup()).run, 5.0) is finding


def test_no_entry_no_replay(tmp_path: Path) -> None:
    assert list(replay([tmp_path], ("cpu",), CaseRunner(WorkerSetup()).run)) == []
    (tmp_path / corpus.PROGRAM).write_text("{}")
    with pytest.raises(ValueError, match="no part of a corpus"):
        list(corpus.entries([tmp_path]))


# ---- parts ------------------------------------------------------------------------------------------------------


def test_edits_give_programs_that_are_different_and_mostly_valid() -> None:
    program = loop_program()
    valid = total = 0
    for edit in EDITS:
        for candidate in edit(program):
            total += 1
            assert candidate == tidy(candidate)
            try:
                load(candidate)
                valid += 1
            except Exception as error:
                assert isinstance(error, (KernelNameError, KernelTypeError, KernelSyntaxError, Unsupported)), error
    assert valid >= 30
    assert total - valid < total / 2


def test_tracing_changes_nothing_and_sees_every_value() -> None:
    kernel, arrays, scalars = load(loop_program())
    plain = Lowerings(kernel).plain.kernel
    of = boxes(plain, arrays, scalars, Draws())
    assert of == [((0,), (4,))]
    made = trace_values(plain, of)
    memory = {**{k: a.copy() for k, a in arrays.items()}, **made.arrays}
    run(made.kernel, memory, scalars)
    run(plain, arrays, scalars)
    assert np.array_equal(memory["y"], arrays["y"])
    sines = [s for s in made.slots if getattr(s.stmt, "op", "") == "sin"]
    assert len(sines) == 1
    traced_y = memory["$real"][sines[0].number]
    assert traced_y[1:].astype(np.float32).tolist() == arrays["y"][1:].tolist()
    assert traced_y[0] == 0.0  # no trip, no value


def test_moving_a_value_moves_what_is_made_of_it() -> None:
    kernel, arrays, scalars = load(loop_program((1, 1)))
    plain = Lowerings(kernel).plain.kernel
    made = offset_values(plain, boxes(plain, arrays, scalars, Draws()))
    sine = next(s for s in made.slots if getattr(s.stmt, "op", "") == "sin")
    made.arrays[MOVE][sine.number] = (0.0, 0.5)
    memory = {**{k: a.copy() for k, a in arrays.items()}, **made.arrays}
    run(made.kernel, memory, scalars)
    run(plain, arrays, scalars)
    assert (memory["y"] - arrays["y"]).tolist() == [0.0, 0.5]
