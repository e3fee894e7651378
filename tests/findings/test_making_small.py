"""Test the reducer on planted examples: it leaves a few lines, which still contain the planted construct."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from findings_support import V, X, Y, assign, loop, program, sine
from stackgrad.compiler.errors import StackgradError
from stackgrad.harness.tools.findings.draw import sample_for_peers
from stackgrad.harness.tools.findings.families import LINES, lines_of
from stackgrad.harness.tools.findings.hunt import plan_for_peers, small_finding
from stackgrad.harness.tools.findings.traits import traits
from stackgrad.harness.tools.fuzz.edits import inline_locals
from stackgrad.harness.tools.fuzz.result import CaseResult, JudgedComparison
from stackgrad.harness.tools.fuzz.slices import slices
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.fuzz.worker import Job
from stackgrad.harness.tools.model import Program, load
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.walk import walk_program
from stackgrad.harness.tools.peers import PEERS

PEER = PEERS[0]
PLANTED = ("a value from before a loop", "an entry at a dynamic index", "an atomic product")


def wrong_on(trait: str) -> Callable[[Job], CaseResult]:
    """Return a simulated peer whose gradient is wrong for programs that can be traced and have this trait."""

    def execute(job: Job) -> CaseResult:
        assert job.program is not None
        try:
            load(job.program)
        except (StackgradError, SyntaxError):  # an edit may leave no text
            return CaseResult((JudgedComparison("load", "frontend", "the compiler", "unsupported"),))
        wrong = trait in traits(job.program) and any(any(s) for _, s in job.program.inputs.seeds)
        return CaseResult(
            (JudgedComparison("reverse", PEER, "lean", "disagree" if wrong else "ok", "x.grad: 1 against 2"),)
        )

    return execute


@pytest.mark.rotating
@pytest.mark.parametrize("trait", PLANTED)
def test_a_planted_trait_is_made_small(trait: str) -> None:
    drawn = (sample_for_peers(seed, PEERS) for seed in range(400))
    large = [p for p in drawn if trait in traits(p) and lines_of(p) > LINES][:1]
    assert large, "the generator draws no long program with this trait"
    execute = wrong_on(trait)
    finding = Finding(large[0], plan_for_peers((), (PEER,)), execute(Job(0, large[0])).judged)
    small = small_finding(finding, execute, 60.0)
    assert small is not None and trait in traits(small.program)
    assert lines_of(small.program) <= LINES - 3
    assert not any(f.argument for f in small.program.fields), "fields are what a reader knows best"


def test_what_does_not_fail_again_is_dropped() -> None:
    right = program(assign(Y, sine(X)))
    finding = Finding(
        right, plan_for_peers((), (PEER,)), (JudgedComparison("reverse", PEER, "lean", "disagree", "1 against 2"),)
    )
    assert small_finding(finding, wrong_on("nested loops"), 5.0) is None


def test_a_slice_keeps_what_a_result_depends_on() -> None:
    w, z = m.Name("w"), m.Element("z", (m.Name("i"),))
    other = loop(assign(w, sine(w)))
    whole = program(assign(V, X), assign(w, X), other, loop(assign(V, sine(V))), assign(Y, V), assign(z, w))
    fields = (*whole.fields, m.Field("z", whole.default_fp, (2,), True))
    inputs = m.Inputs((*whole.inputs.arrays, ("z", (0.0, 0.0))), (), (*whole.inputs.seeds, ("z", (1.0, 1.0))))
    whole = Program(whole.kernel, fields, (), inputs, whole.default_fp)
    of_y, of_z, both = slices(whole)
    assert lines_of(both) == lines_of(whole)
    assert lines_of(of_y) == lines_of(of_z) == lines_of(whole) - 4
    assert [n.name for n in walk_program(of_y) if n == w] == [] and {f.name for f in of_y.fields} == {"x", "y"}
    assert dict(of_z.inputs.seeds) == {"x": (0.0, 0.0), "z": (1.0, 1.0)}


def test_a_local_is_written_where_it_is_read() -> None:
    whole = program(assign(V, sine(X)), assign(Y, m.Binary("*", V, V)))
    (made,) = inline_locals(whole)
    assert made == program(assign(Y, m.Binary("*", sine(X), sine(X))))
