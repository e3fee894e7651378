"""Test the nightly run: its steps, which failures count, and a run of a few seconds."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import nightly
import pytest
import run_matrix as matrix
from nightly import Step
from stackgrad.cli import build_parser


def wanted(*arguments: str, peers: tuple[str, ...] = ()) -> list[Step]:
    return list(nightly.steps(nightly.parse(["night", *arguments]), peers))


def test_every_step_is_a_command_of_stackgrad() -> None:
    found = wanted("--seed", "3", peers=nightly.PEERS)
    names = ["campaign", "report", *(f"mutants-{seed}" for seed in nightly.SEEDS), *nightly.PEERS]
    assert [step.name for step in found] == names
    for step in found:
        assert build_parser().parse_args(step.command).command == step.command[0]
    assert [step.name for step in found if not step.decides] == list(nightly.PEERS)


def test_parts_can_be_left_out() -> None:
    found = wanted("--cases", "20000", "--mutants", "0", "--peers", "0", peers=nightly.PEERS)
    assert [step.name for step in found] == ["campaign", "report"]
    given = build_parser().parse_args(found[0].command)
    assert (given.cases, given.seconds, given.backends) == (20000, None, nightly.BACKENDS)


@pytest.mark.parametrize(("bad", "passed"), [("", True), ("quadrants", True), ("campaign", False), ("report", False)])
def test_peers_decide_nothing(bad: str, passed: bool, tmp_path: Path) -> None:
    ran: list[str] = []

    def run(step: Step, folder: Path) -> Step:
        ran.append(step.name)
        return replace(step, status=int(step.name == bad))

    done = nightly.run_all(iter(wanted("--mutants", "1", peers=nightly.PEERS)), tmp_path, run)
    assert any(step.failed for step in done) != passed
    assert ran == ["campaign", "report", "mutants-2", *nightly.PEERS], "one that fails keeps no other from running"
    assert json.loads((tmp_path / "nightly.json").read_text())["passed"] == passed


@pytest.mark.expensive
def test_a_night_of_seconds(tmp_path: Path) -> None:
    arguments = ["--seed", "9000", "--unit", "2", "--processes", "1", "--mutants", "0", "--peers", "0"]
    status = nightly.main([str(tmp_path), "--cases", "2", *arguments, "--publish", str(tmp_path / "docs")])
    assert status == 0, (tmp_path / "campaign.txt").read_text()
    twin = json.loads((tmp_path / "docs/report.json").read_text())
    assert twin["summary"]["cases"] == 2
    assert (tmp_path / "docs/report.html").read_bytes() == (tmp_path / "report.html").read_bytes()
    assert nightly.main([str(tmp_path), "--cases", "4", *arguments]) == 0, "the campaign goes on"
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["cases"] == 4


@pytest.mark.expensive
def test_a_missed_mistake_is_a_bad_night(tmp_path: Path) -> None:
    """A hunt of no time runs one program, which does not show this mistake."""
    arguments = ["--cases", "1", "--unit", "1", "--seed", "9000", "--processes", "1", "--peers", "0"]
    hunt = ["--mutants", "1", "--mutant", "zero-is-neutral", "--hunt", "0"]
    assert nightly.main([str(tmp_path), *arguments, *hunt]) == 1
    steps = {step["name"]: step["status"] for step in json.loads((tmp_path / "nightly.json").read_text())["steps"]}
    assert steps == {"campaign": 0, "report": 0, "mutants-2": 1}


def test_the_matrix_has_a_night() -> None:
    rows = {row.name: row for row in matrix.parse_matrix((matrix.ROOT / "ci/matrix.toml").read_text())}
    assert rows["nightly"].needs and (matrix.ROOT / rows["nightly"].command[0]).exists()
    assert tomllib.loads((matrix.ROOT / "ci/matrix.toml").read_text())["row"][-1]["name"] == "nightly"
