"""A whole hunt: a peer that is this package with a mistake planted; it is found, made small, and written down."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from findings_support import V, X, Y, assign, loop, program, sine, wrong_python
from stackgrad.harness.findings.evidence import evidence
from stackgrad.harness.findings.families import Families, Family
from stackgrad.harness.findings.hunt import Hunt, hunt, plan_for_peers
from stackgrad.harness.findings.script import can_be_written, script
from stackgrad.harness.findings.store import name_of, write
from stackgrad.harness.fuzz.result import Judged
from stackgrad.harness.fuzz.statistics import Finding, Statistics
from stackgrad.harness.model import Program
from stackgrad.harness.model import nodes as m
from stackgrad.harness.peers import PYTHON

MUTANT = "sub-without-sign"
MINUS = program(assign(Y, m.Binary("-", sine(X), m.Binary("*", X, X))))


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter in which this package is wrong."""
    python = wrong_python(tmp_path, MUTANT)
    monkeypatch.setenv(PYTHON, python)
    return python


def subtractions(seed: int, peers: tuple[str, ...]) -> Program:
    """Long programs of one kind, a different one for each seed."""
    steps = [assign(V, m.Binary("+", sine(V), m.Number(0.25 * k))) for k in range(seed % 3 + 1)]
    last = m.Binary("-", m.Binary("*", V, V), X) if seed % 2 else m.Binary("+", V, X)
    return program(assign(V, X), *steps, loop(assign(V, sine(V))), assign(Y, last))


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
    judged = (Judged("reverse", "stackgrad", "lean", "disagree", "x.grad[0]: 1 against 2"),)
    families = Families()
    families.add(Finding(found, plan_for_peers((), ("stackgrad",)), judged))
    return families.wrong_gradients[0]


def test_what_is_not_wrong_is_not_written(tmp_path: Path) -> None:
    family = family_of(MINUS)
    assert write(tmp_path, [family]) == []
    assert not (tmp_path / f"{name_of(family)}.py").exists()


def test_a_script_whose_numbers_are_not_those_of_differences_says_so(tmp_path: Path) -> None:
    known = evidence(MINUS)
    assert known is not None and known.judges == ("dual", "jax")
    text = script(MINUS, "stackgrad", known, "a difference", "0")
    path = tmp_path / "script.py"
    path.write_text(text.replace("RIGHT = {\"x\": [", "RIGHT = {\"x\": [1.0 + "))
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert found.returncode == 2 and "central differences" in found.stdout


def test_there_is_no_evidence_for_a_kernel_that_overwrites_what_it_read() -> None:
    assert evidence(MINUS) is not None
    assert evidence(program(assign(X, m.Binary("*", X, X)))) is None


def test_structs_and_single_precision_are_not_written() -> None:
    assert can_be_written(MINUS)
    fields = (m.Field("P.mass", MINUS.default_fp, (2,), True, struct="P"), *MINUS.fields)
    assert not can_be_written(Program(MINUS.kernel, fields, (), MINUS.inputs, MINUS.default_fp))


def test_what_is_new_is_made_small_first() -> None:
    state = Hunt(("stackgrad",), Statistics())
    carried = program(assign(V, X), loop(assign(V, sine(V))), assign(Y, V))
    for found in (MINUS, carried):
        state.enter(family_of(found).finding)
    state.families.add(family_of(MINUS).finding)
    first, second = state.next(), state.next()
    assert first is not None and first.program == carried
    assert second is not None and second.program == MINUS and state.next() is None
