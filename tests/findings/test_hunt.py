"""Test a whole search for wrong gradients: the peer is this package with a planted mistake, which must be found."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from findings_support import V, X, Y, assign, loop, program, sine, wrong_python
from stackgrad.harness.tools.findings.evidence import evidence
from stackgrad.harness.tools.findings.families import Families, Family
from stackgrad.harness.tools.findings.hunt import NEVER, Hunt, PeerCounts, hunt, plan_for_peers
from stackgrad.harness.tools.findings.script import can_be_written, script
from stackgrad.harness.tools.findings.store import name_of, write
from stackgrad.harness.tools.findings.traits import traits
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding, Statistics
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.peers import PYTHON

MUTANT = "sub-without-sign"
J = m.Name("j")
MINUS = program(assign(Y, m.Binary("-", sine(X), m.Binary("*", X, X))))


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a command that runs Python with a mistake planted in this package."""
    python = wrong_python(tmp_path, MUTANT)
    monkeypatch.setenv(PYTHON, python)
    return python


def subtractions(seed: int, peers: tuple[str, ...]) -> Program:
    """Return a long program with subtractions, a different one for each seed."""
    steps = [assign(V, m.Binary("+", sine(V), m.Number(0.25 * k))) for k in range(seed % 3 + 1)]
    last = m.Binary("-", m.Binary("*", V, V), X) if seed % 2 else m.Binary("+", V, X)
    return program(assign(V, X), *steps, loop(assign(V, sine(V))), assign(Y, last))


@pytest.mark.expensive
def test_a_mistake_is_found_made_small_and_written(wrong: str, tmp_path: Path) -> None:
    found = hunt(60.0, ("stackgrad",), 1, (), 3, sample=subtractions)
    counts = found.counts["stackgrad"]
    assert counts.asked == 3 and counts.wrong >= 1 and not found.statistics.findings
    (family,) = found.families.wrong_gradients
    assert family.signature.traits == {"the derivative of -"}
    (written,) = write(tmp_path / "findings", [family])
    assert written.said.endswith("wrong\n") and "WRONG" in written.said
    right = subprocess.run([sys.executable, str(written.path)], capture_output=True, text=True)
    assert right.returncode == 0 and right.stdout.endswith("right\n"), right.stdout + right.stderr
    assert json.loads(written.path.with_suffix(".json").read_text())
    assert written.path.name in (tmp_path / "findings" / "FOUND.md").read_text()


def family_of(found: Program) -> Family:
    judged = (JudgedComparison("reverse", "stackgrad", "lean", "disagree", "x.grad[0]: 1 against 2"),)
    families = Families()
    families.add(Finding(found, plan_for_peers((), ("stackgrad",)), judged))
    return families.wrong_gradients[0]


@pytest.mark.expensive
def test_what_is_not_wrong_is_not_written(tmp_path: Path) -> None:
    family = family_of(MINUS)
    assert write(tmp_path, [family]) == []
    assert not (tmp_path / f"{name_of(family)}.py").exists()


@pytest.mark.expensive
def test_a_script_whose_numbers_are_not_those_of_differences_says_so(tmp_path: Path) -> None:
    known = evidence(MINUS)
    assert known is not None and known.judges == ("dual", "jax")
    text = script(MINUS, "stackgrad", known, "a difference", "0")
    path = tmp_path / "script.py"
    path.write_text(text.replace('RIGHT = {"x": [', 'RIGHT = {"x": [1.0 + '))
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert found.returncode == 2 and "central differences" in found.stdout


def test_there_is_no_evidence_for_a_kernel_that_overwrites_what_it_read() -> None:
    assert evidence(MINUS) is not None
    squared = program(assign(X, m.Binary("*", X, X)))
    asked = replace(squared, inputs=replace(squared.inputs, seeds=(("x", (1.0, 1.0)), ("y", (0.0, 0.0)))))
    assert evidence(asked) is None


def test_there_is_no_evidence_at_a_tie() -> None:
    beside, tied = (program(m.Evaluate(m.AtomicCall("max", Y, m.Number(v)))) for v in (-1.0, 0.0))
    assert evidence(beside) is not None and evidence(tied) is None


def test_there_is_evidence_for_a_serial_loop_that_reads_what_it_stored_before() -> None:
    link = m.Assign((m.Element("y", (m.Binary("+", J, m.Number(1)),)),), (sine(m.Element("y", (J,))),))
    one = m.For(("j",), m.Range(None, m.Number(1)), (link,), serialize=True)
    chain = replace(MINUS, kernel=replace(MINUS.kernel, body=(one,)))
    known = evidence(chain)
    assert known is not None and known.judges == ("dual", "jax")
    assert known.right["y"][0] == 1.0 + 2.0 * np.cos(0.0)


def test_structs_and_single_precision_are_not_written() -> None:
    assert can_be_written(MINUS)
    fields = (m.Field("P.mass", MINUS.default_fp, (2,), True, struct="P"), *MINUS.fields)
    assert not can_be_written(Program(MINUS.kernel, fields, (), MINUS.inputs, MINUS.default_fp))


def test_what_a_peer_never_gave_is_hardly_asked() -> None:
    counts, pairs = PeerCounts(), [frozenset({"a branch"}), frozenset({"a branch", "a loop"})]
    for _ in range(NEVER - 1):
        counts.learn(pairs, False)
    assert counts.gives(pairs)
    counts.learn(pairs, False)
    assert not counts.gives(pairs) and counts.gives([frozenset({"a loop"})])
    counts.learn(pairs[:1], True)
    assert counts.gives(pairs[:1]) and not counts.gives(pairs)


def test_what_a_peer_once_gave_is_asked() -> None:
    counts, pairs = PeerCounts(), [frozenset({"a loop"})]
    counts.learn(pairs, True)
    for _ in range(2 * NEVER):
        counts.learn(pairs, False)
    assert counts.gives(pairs)


def test_traits_of_kernels_that_are_mostly_right_foretell_nothing() -> None:
    counts, carried, serial = PeerCounts(), frozenset({"carried"}), frozenset({"serial"})
    assert counts.foretell(carried)
    counts.judged.update([(carried, False)] * 3 + [(carried | serial, True)] * 2)
    assert not counts.foretell(carried) and counts.foretell(serial)
    state = Hunt(("stackgrad",), Statistics(), counts={"stackgrad": PeerCounts()})
    state.families.add(family_of(MINUS).finding)
    state.enter(family_of(MINUS).finding)
    assert state.next() is None
    state.counts["stackgrad"].judged.update([(traits(MINUS), False)] * 2 + [(traits(MINUS), True)])
    assert state.next() is not None, "that it has traits of a known family does not say that it fails for that reason"


def test_what_is_new_is_made_small_and_what_is_known_is_left() -> None:
    state = Hunt(("stackgrad",), Statistics())
    carried = program(assign(V, X), loop(assign(V, sine(V))), assign(Y, V))
    for found in (MINUS, carried):
        state.enter(family_of(found).finding)
    state.families.add(family_of(MINUS).finding)
    first = state.next()
    assert first is not None and first.program == carried and state.next() is None
    assert [f.program for f in state.pending] == [MINUS]


def test_of_what_is_known_a_few_are_made_small_when_nothing_else_waits() -> None:
    state = Hunt(("stackgrad",), Statistics())
    known = family_of(MINUS).finding
    state.families.add(known)
    for seed in range(40):
        state.enter(replace(known, seed=seed))
    carried = program(assign(V, X), loop(assign(V, sine(V))), assign(Y, V))
    state.enter(family_of(carried).finding)
    first = state.next()
    assert first is not None and first.program == carried
    taken = 0
    while state.next() is not None:
        taken += 1
    assert 0 < taken < 20 and len(state.pending) == 40 - taken
