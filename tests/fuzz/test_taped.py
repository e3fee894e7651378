"""Programs under tapes beside the program of a case: what they mean, that the runtime gets them right, and mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends
from stackgrad.harness.tools.fuzz import tape_programs
from stackgrad.harness.tools.fuzz.case import FuzzPanel, run_case
from stackgrad.harness.tools.fuzz.plan import FuzzPlan, plan_for
from stackgrad.harness.tools.mutants import MUTANTS
from stackgrad.harness.tools.strategies import sample
from stackgrad.harness.tools.tapes.programs import (
    COPIES,
    KERNELS,
    WRITES,
    TapeProgram,
    TapeStep,
    draw_program,
    loss_and_gradient,
)
from stackgrad.harness.tools.tapes.run import TapeBench

NAMES = ("tapes-of-all-threads", "copy-without-adjoint", "gradient-read-late")
CONTENT = ((1, 2, -1), (2, 0, 1), (-2, 1, 2))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    sg.reset()


@pytest.mark.parametrize(
    ("steps", "gradient"),
    [
        ((TapeStep("copy", 1, 0),), [[2, 4, 6], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("square", 1, 0),), [[3, 10, -3], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("copy", 1, 0), TapeStep("element", 1, 0, 2, 5)), [[2, 4, 3], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("fill", 1, 0, 0, 5), TapeStep("copy", 2, 1)), [[1, 2, 3], [2, 4, 6], [0, 0, 0]]),
        ((TapeStep("multiply", 1, 0), TapeStep("copy", 0, 0)), [[3, 2, 6], [1, 4, -3], [1, 2, 3]]),
    ],
)
def test_meanings(steps: tuple[TapeStep, ...], gradient: list[list[float]]) -> None:
    """By hand: the loss is the sum of (i + 1) x[i] of all fields."""
    assert loss_and_gradient(TapeProgram(CONTENT, steps))[1].tolist() == gradient


@pytest.mark.parametrize(
    ("steps", "gradient"),
    [
        ((TapeStep("copy", 1, 0),), [[2 + 3, 4 + 1, 6 - 2], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("weigh_by_gradient", 1, 0),), [[1 + 2 + 4, 2, 3 - 2 + 12], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("use_up_gradient", 1, 0),), [[1 + 2, 2, 3 - 6], [0, 0, 0], [1, 2, 3]]),
        ((TapeStep("choose_by_gradient", 1, 0),), [[1 + 2 + 1, 2, 3 - 2], [0, 2, 3], [1, 2, 3]]),
    ],
)
def test_gradients_that_are_kept(steps: tuple[TapeStep, ...], gradient: list[list[float]]) -> None:
    """By hand: x.grad is constant where it is read, and an adjoint of what x holds at the end."""
    held = ((2, 0, -2), (0, 0, 0), (0, 0, 0)) if steps[0].kind != "copy" else ((1, -1, 1), (2, 2, -3), (0, 0, 0))
    assert loss_and_gradient(TapeProgram(CONTENT, steps, held), carried=True)[1].tolist() == gradient


def test_all_kinds_are_drawn_and_numbers_stay_exact() -> None:
    programs = [draw_program(random.Random(number)) for number in range(300)]
    kinds = {step.kind for program in programs for step in program.steps}
    assert kinds == {*KERNELS, *WRITES, *COPIES}
    found = [loss_and_gradient(program) for program in programs]
    assert max(abs(loss) + np.abs(gradient).max() for loss, gradient in found) < 2**40
    assert np.mean([bool(gradient.any()) for _, gradient in found]) > 0.9


@pytest.mark.rotating
@pytest.mark.parametrize("arch", ["reference", "cpu", "vulkan"])
def test_the_runtime_agrees_with_dual_numbers(arch: str) -> None:
    if arch == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    bench = TapeBench()
    assert [wrong for number in range(1, 16) if (wrong := bench.check(number, arch))] == []


@pytest.mark.rotating
@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_seen_and_leave_nothing_behind(name: str) -> None:
    with MUTANTS[name].planted():
        sg.reset()
        found = [
            list(tape_programs.compare(FuzzPlan(("cpu",), tapes=number), FuzzPanel({}))) for number in range(1, 12)
        ]
    verdicts = [judged.verdict for (judged,) in found]
    assert "disagree" in verdicts, name
    sg.reset()
    bench = TapeBench()
    assert [bench.check(number, "cpu") for number in range(1, 4)] == ["", "", ""]


def test_what_fails_is_a_finding_that_stays_when_the_program_shrinks() -> None:
    plan = replace(FuzzPlan(("cpu",)), tapes=1, forward=False, reverse=False)
    with MUTANTS["copy-without-adjoint"].planted():
        panel = FuzzPanel({})
        (judged,) = tape_programs.compare(plan, panel)
        assert judged.verdict == "disagree" and judged.key == ("tapes", "cpu") and "the gradient is" in judged.reason
        result = run_case(sample(1), plan.narrowed(judged.key), panel)
        assert [j.key for j in result.judged] == [("tapes", "cpu")] and result.disagreements
    assert plan.narrowed(("forward", "cpu")).tapes == 0


def test_errors_are_findings() -> None:
    class Broken(TapeBench):
        def check(self, number: int, arch: str) -> str:
            raise ValueError("odd")

    (judged,) = tape_programs.compare(FuzzPlan(("cpu-masked",), tapes=1), FuzzPanel({}, tapes=Broken()))
    assert judged.verdict == "disagree" and judged.executor == "reference" and "ValueError: odd" in judged.reason
    assert not list(tape_programs.compare(FuzzPlan(("cpu",)), FuzzPanel({}, tapes=Broken())))


def test_share() -> None:
    assert 0.05 < np.mean([plan_for(seed, ("cpu",)).tapes > 0 for seed in range(600)]) < 0.11
