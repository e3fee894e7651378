"""Reduce a finding to the smallest program, found within a time, on which the same two executors still disagree.

Invariant: every step fails as the finding did, in the same comparison, and with the same exception if it ended with
one. So a reduction never wanders from one mistake to another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ....backends.base import Draws, Sizes
from ....compiler.errors import StackgradError
from ....reference.backend import ReferenceBackend
from ....reference.launch import run
from ....reference.traps import TRAPS
from ...testing.cost import may_serialize
from ..model import Program, render_ir
from ..model import nodes as m
from ..model.source import definitions
from ..model.tidy import tidy
from ..model.walk import walk_program
from .corpus import failed_key
from .edits import EDITS
from .lowerings import Lowerings, before_arrays
from .marks import marking_refusal
from .plan import FuzzPlan
from .reference_run import FUEL
from .result import CaseResult, JudgedComparison
from .statistics import Finding
from .worker import Crash, Execute, Job

Size = tuple[int, int, int, int, float]


def program_size(program: Program) -> Size:
    """Return a sort key of a program, smaller for programs that are easier to read.

    The parts are the lines and characters of the text, the count of the inputs' numbers and their characters, and the
    sum of the numbers in the text. Every step of a reduction makes the size smaller, so reductions end.
    """
    text, inputs = definitions(program), program.inputs
    numbers = [v for _, content in (*inputs.arrays, *inputs.seeds) for v in content] + [v for _, v in inputs.scalars]
    plain = [abs(v) for v in numbers if v]
    lines = len([line for line in text.splitlines() if line.strip()])
    literals = sum(abs(float(n.value)) for n in walk_program(program) if isinstance(n, m.Number))
    return lines, len(text), len(numbers), sum(len(f"{v:g}") for v in plain), literals


def _always(program: Program) -> bool:
    return True


@dataclass
class _Reducer:
    """Make a program smaller as long as the same comparison of executors still fails in the same way."""

    execute: Execute
    plan: FuzzPlan
    sign: tuple[str, ...]
    deadline: float
    races: bool = False
    holds: Callable[[Program], bool] = _always
    passed: set[Program] = field(default_factory=set)

    def fails(self, program: Program) -> bool:
        """Return True if a program fails as the finding does, without new conflicts between its iterations.

        A program that does not fail is not run again, because many edits lead to the same program.
        """
        if program in self.passed:
            return False
        failed = sign_of(self.execute(Job(0, program, self.plan))) == self.sign
        found = failed and (self.races or not iterations_meet(program)) and self.holds(program)
        if not found:
            self.passed.add(program)
        return found

    def shrink(self, program: Program) -> Program:
        """Return the smallest program that edits find until no edit helps or the time is up."""
        while True:
            before = program
            for edits in EDITS:
                program = self._exhaust(program, edits)
            if program == before or time.monotonic() > self.deadline:
                return program

    def _exhaust(self, program: Program, edits: Callable[[Program], Iterable[Program]]) -> Program:
        """Repeat edits of one kind as long as they make the failing program smaller, and return the smallest.

        After a success the edits start anew, but skip those that failed before.
        """
        skip = 0
        while True:
            known = program_size(program)
            for number, candidate in enumerate(edits(program)):
                if time.monotonic() > self.deadline:
                    return program
                # Edits before the last success failed before, and seldom succeed now.
                if number >= skip and program_size(candidate) < known and self.fails(candidate):
                    program, skip = candidate, number
                    break
            else:
                if not skip:
                    return program
                skip = 0


def iterations_meet(program: Program) -> bool:
    """Return True if an iteration of a parallel loop may access an element that another iteration stores.

    The result is False if the program cannot be compiled, or if marks of its launch show that no iterations meet.
    """
    try:
        made = Lowerings(render_ir(program))
        if not any(map(may_serialize, made.plain.kernel.tasks)):
            return False
    except StackgradError:
        return False
    try:
        return made.lean.marking is None or _meet(program, made)
    except (StackgradError, *TRAPS):
        return True


def _meet(program: Program, made: Lowerings) -> bool:
    """Return True if the marking kernel of one launch finds two iterations that access the same element."""
    memory, scalars = program.arrays(), program.scalars()
    before = before_arrays(made.lean, program.arrays())
    run(made.plain.kernel, memory, scalars, Sizes(), Draws(), fuel=FUEL)
    memory |= before
    return marking_refusal(made.lean, ReferenceBackend(fuel=FUEL), [memory], scalars) is not None


def sign_of(found: CaseResult | Crash) -> tuple[str, ...]:
    """Return the direction, executor and error class that identify a failure, or an empty tuple if nothing failed."""
    if isinstance(found, Crash):
        return "crash", found.reason.partition(":")[0]
    return sign_of_judged(found.judged)


def sign_of_judged(judged: Iterable[JudgedComparison]) -> tuple[str, ...]:
    """Return direction, executor and error class (or 'value') of the first failed comparison; () if none failed."""
    failed = next((j for j in judged if j.verdict == "disagree"), None)
    if failed is None:
        return ()
    words = failed.reason.replace(";", ":").split(":")[0].removeprefix("ended with ").split()
    ended = len(words) == 1 and words[0].isidentifier()
    return (*failed.key, words[0] if ended else "value")


def reduce(
    finding: Finding, execute: Execute, seconds: float = 30.0, holds: Callable[[Program], bool] = _always
) -> Finding:
    """Return the finding with a smaller program, or unchanged if it does not fail again.

    Args:
        finding: The finding to reduce.
        execute: Function that runs a job.
        seconds: Time for the reduction.
        holds: Predicate that every step must satisfy.
    """
    key = failed_key(finding.judged)
    plan = finding.plan.narrowed(key) if key else finding.plan
    sign = sign_of_judged(finding.judged) if key else sign_of(Crash(Job(), finding.crash))
    reducer = _Reducer(execute, plan, sign, time.monotonic() + seconds, iterations_meet(finding.program), holds)
    start = tidy(finding.program)
    program = start if reducer.fails(start) else finding.program
    # A traced program is simpler because its failing text can be run by anybody.
    for simpler in ({"launches": 1}, {"traced": True}):
        changed = replace(reducer, plan=replace(reducer.plan, **simpler), passed=set())
        reducer = changed if changed.plan != reducer.plan and changed.fails(program) else reducer
    if not reducer.fails(program):
        return finding
    program = reducer.shrink(program)
    return _described(finding, program, replace(reducer.plan, only=None), execute)


def _described(finding: Finding, program: Program, plan: FuzzPlan, execute: Execute) -> Finding:
    """Return the finding with its reduced program and new verdicts of all executors on it."""
    plan = replace(plan, backends=finding.plan.backends, oracle=finding.plan.oracle, forward=True)
    found = execute(Job(0, program, plan))
    if isinstance(found, Crash):
        return replace(finding, program=program, plan=plan, crash=found.reason, judged=())
    return replace(finding, program=program, plan=plan, judged=found.judged)


def distinct(findings: Iterable[Finding], name: Callable[[Finding], str]) -> list[Finding]:
    """Return the smallest finding for each name, in the order in which the names first occur."""
    best: dict[str, Finding] = {}
    for finding in findings:
        called = name(finding)
        known = best.get(called)
        if known is None or program_size(finding.program) < program_size(known.program):
            best[called] = finding
    return list(best.values())
