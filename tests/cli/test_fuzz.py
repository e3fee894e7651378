"""Test `stackgrad fuzz`, `replay`, `reduce` and `bisect` as commands: texts, folders, exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.tools.fuzz import corpus
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m


def program() -> Program:
    """Return the program y[i] = sin(x[i])."""
    i = m.Name("i")
    sine = m.Assign((m.Element("y", (i,)),), (m.Call("sin", (m.Element("x", (i,)),)),))
    fields = (m.Field("x", f64, (2,), True), m.Field("y", f64, (2,), True))
    inputs = m.Inputs((("x", (0.5, 1.0)), ("y", (0.0, 0.0))), (), (("x", (0.0, 0.0)), ("y", (1.0, 1.0))))
    return m.Program(m.Kernel("k", (m.For(("i",), m.Over("x"), (sine,)),)), fields, (), inputs, f64)


@pytest.fixture
def cured(tmp_path: Path) -> Path:
    """Return a corpus of one entry whose fault has been fixed, so that it passes."""
    judged = (JudgedComparison("reverse", "dual", "lean", "disagree", "it did"),)
    corpus.write(tmp_path / "corpus", Finding(program(), FuzzPlan(), judged))
    return tmp_path / "corpus"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return an entry that fails, because its program uses an undefined name."""
    bad = m.Assign((m.Element("y", (m.Number(0),)),), (m.Name("nowhere"),))
    text = replace(program(), kernel=m.Kernel("k", (bad,)))
    return corpus.write(
        tmp_path / "broken", Finding(text, FuzzPlan(), (JudgedComparison("load", "frontend", "", "disagree"),))
    )


@pytest.mark.expensive
def test_fuzz_replays_first_and_ends_with_a_table(command, cured: Path) -> None:
    found = command("fuzz", "--cases", "2", "--seed", "3", "--corpus", str(cured), "--backends", "cpu")
    assert found.status == 0, found.out + found.err
    assert found.out.startswith("replayed 1 entries, 0 failed")
    assert "cases" in found.out and "decided nothing" in found.out and "median case" in found.out
    assert len(list(cured.iterdir())) == 1


@pytest.mark.expensive
def test_fuzz_ends_with_the_table_of_features(command, tmp_path: Path) -> None:
    options = ("--cases", "3", "--seed", "5", "--backends", "cpu", "--corpus", str(tmp_path / "corpus"), "--coverage")
    found = command("fuzz", *options)
    assert found.status == 0, found.out + found.err
    assert "of 1,000 cases, from 3:" in found.out and "reverse dual" in found.out


@pytest.mark.parametrize("other", [("--ir-text",), ("--mutants", "sub-without-sign"), ("--peers", "taichi")])
def test_other_runs_have_no_table_of_features(command, other: tuple[str, ...]) -> None:
    found = command("fuzz", "--coverage", "--cases", "1", *other)
    assert found.status == 2 and "--coverage counts features of plain runs" in found.err


@pytest.mark.expensive
@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a group of processes")
def test_an_interrupted_run_ends_with_its_table(tmp_path: Path) -> None:
    """Ctrl-C reaches the command and its workers; none of them prints a traceback."""
    command = [
        sys.executable,
        "-m",
        "stackgrad",
        "fuzz",
        "--seconds",
        "600",
        "--seed",
        "3",
        "--processes",
        "2",
        "--corpus",
        str(tmp_path / "corpus"),
        "--backends",
        "cpu",
    ]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a new process would inherit that it is ignored
    try:
        process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        assert process.stderr is not None
        while "cases" not in process.stderr.readline():  # the first line of the status: cases have run
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, out + err
    assert "decided nothing" in out and "interrupted" in err and "Traceback" not in err


@pytest.mark.expensive
def test_replay_of_what_is_cured(command, cured: Path) -> None:
    found = command("replay", str(cured), "--backends", "cpu")
    assert (found.status, found.out.splitlines()[-1]) == (0, "replayed 1 entries, 0 failed")
    assert found.out.startswith("passed: ")


@pytest.mark.expensive
def test_replay_of_what_fails(command, broken: Path) -> None:
    found = command("replay", str(broken), "--backends", "cpu")
    assert found.status == 1
    assert "FAILED" in found.out and "nowhere" in found.out


@pytest.mark.expensive
def test_nothing_to_bisect_or_reduce(command, cured: Path) -> None:
    (entry,) = cured.iterdir()
    for name in ("bisect", "reduce"):
        found = command(name, str(entry), "--backends", "cpu")
        assert (found.status, found.out) == (0, f"{entry} passes\n")


@pytest.mark.expensive
def test_every_finding_is_told_also_where_one_stands_for_several(capsys: pytest.CaptureFixture[str]) -> None:
    from stackgrad.cli.fuzz import distinct_findings

    findings = [Finding(program(), FuzzPlan(), crash="hung", seed=seed) for seed in (11, 12)]
    assert len(distinct_findings(findings, ("cpu",), seconds=0.1)) == 1
    told = capsys.readouterr().out
    assert "seed 11: crash: hung" in told and "seed 12: crash: hung" in told


def test_misuse_is_explained(command, tmp_path: Path) -> None:
    for name in ("replay", "reduce", "bisect"):
        found = command(name, str(tmp_path), "--backends", "cpu")
        assert found.status == 2
        assert "no entries" in found.err or "holds 0 entries" in found.err
    assert command("fuzz", "--cases", "1", "--backends", "none-such").status == 2


@pytest.mark.expensive
def test_mutants_are_hunted(command, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.cli import mutants

    known = mutants.MUTANTS
    names = ("sub-without-sign", "count-one-short")
    monkeypatch.setattr(mutants, "MUTANTS", {name: known[name] for name in names})
    found = command("fuzz", "--mutants", "--cases", "40", "--seed", "0", "--backends", "cpu")
    assert (found.status, found.out.splitlines()[-1]) == (0, "2 of 2 found"), found.out
    monkeypatch.setattr(mutants, "MUTANTS", {"negative-step-forward": known["negative-step-forward"]})
    missed = command("fuzz", "--mutants", "--cases", "1", "--seed", "2", "--backends", "cpu")
    assert missed.status == 1 and "MISSED" in missed.out
