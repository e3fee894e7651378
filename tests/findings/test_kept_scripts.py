"""Test the scripts of docs/findings without the peers: their expected numbers are right.

Each script has a kernel of a few lines, on which this package must give these numbers.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_support import gradient, near
from stackgrad.backends.base import Draws, Sizes
from stackgrad.harness.testing.executors import LaunchExecutor, backend_by_name
from stackgrad.harness.testing.launch import GRAD
from stackgrad.harness.testing.oracle_executors import JaxExecutor
from stackgrad.harness.tools.findings.evidence import evidence
from stackgrad.harness.tools.findings.families import LINES, lines_of
from stackgrad.harness.tools.findings.script import script
from stackgrad.harness.tools.findings.traits import traits
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.model import Program, from_json, load
from stackgrad.harness.tools.model.dialects import DIALECTS
from stackgrad.reference.launch import run

FOLDER = Path(__file__).parents[2] / "docs" / "findings"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def program_of(path: Path) -> Program:
    return from_json(path.with_suffix(".json").read_text(encoding="utf-8"))


def peer_of(path: Path) -> str:
    return path.stem.partition("_")[0]


def right_in(path: Path) -> dict[str, np.ndarray]:
    """What the script takes for right."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = [s for s in tree.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    values = {s.targets[0].id: s.value for s in assigned if isinstance(s.targets[0], ast.Name)}
    return {name: np.array(v) for name, v in ast.literal_eval(values["RIGHT"]).items()}


def test_there_are_findings_of_several_families() -> None:
    families = {(peer_of(path), traits(program_of(path))) for path in SCRIPTS}
    assert len(families) == len(SCRIPTS) >= 4


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_script_says_what_its_program_says(path: Path) -> None:
    program = program_of(path)
    known = evidence(program)
    assert known is not None and known.judges == ("dual", "jax")
    body = script(program, peer_of(path), known, "", "").split('"""', 2)[2]
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    assert text.split('"""', 2)[2] == body
    assert lines_of(program) <= LINES


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_everything_here_gives_the_gradient_of_the_script(path: Path) -> None:
    program = program_of(path)
    kernel, before, scalars = load(program)
    after = {name: array.copy() for name, array in before.items()}
    run(Lowerings(kernel).plain.kernel, after, scalars, Sizes(), Draws())
    seeds = program.seeds()
    right = {name: np.asarray(expected) for name, expected in right_in(path).items()}
    memory = after | {name + GRAD: seeds[name] for name in right}
    bounds = gradient(kernel, memory, scalars, before=before)
    for executor in (*(LaunchExecutor(n, backend_by_name(n)) for n in ("reference", "cpu")), JaxExecutor()):
        given = {name: seeds[name] for name in right}
        found = executor.gradient(kernel, before, after, scalars, Draws(), given)
        for name, expected in right.items():
            got = found[name] if name in found else found[name + GRAD]
            near(bounds, name + GRAD, got, expected)


@pytest.mark.rotating
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_the_script_finds_this_package_right(path: Path, tmp_path: Path) -> None:
    dialect = DIALECTS[peer_of(path)]
    text = path.read_text(encoding="utf-8").replace(f"import {dialect.package} as", "import stackgrad as")
    text = text.replace(f'PACKAGE = "{dialect.package}"', 'PACKAGE = "stackgrad"').replace(dialect.options, "")
    copy = tmp_path / "script.py"
    copy.write_text(text, encoding="utf-8")
    found = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True)
    assert found.returncode == 0 and found.stdout.endswith("right\n"), found.stdout + found.stderr


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_the_page_names_the_script(path: Path) -> None:
    assert f"`{path.name}`" in PAGE or f"]({path.name})" in PAGE
