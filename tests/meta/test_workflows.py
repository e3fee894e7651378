"""Hosted workflows are what the matrix says, they are valid, and strangers run nothing on machines of our own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import run_matrix as matrix
import workflows
import yaml  # comes with dask, which the extra `dev` installs
from jsonschema import Draft7Validator  # comes with check-jsonschema
from run_matrix import MatrixError, Row

DEFAULTS: dict[str, Any] = {"runner": "ubuntu-24.04", "when": "push", "minutes": 30, "packages": ["g++"]}
TABLE = """
[hosted]
runner = "ubuntu-24.04"
when = "push"
minutes = 30
packages = ["g++"]
[[row]]
name = "cpu-3.12"
python = "3.12"
extras = []
required = ["cpu"]
[[row]]
name = "gpu"
python = "3.11"
extras = []
required = ["cuda"]
hosted = { runner = ["self-hosted", "cuda"], when = "nightly" }
"""
LABELS = {"ubuntu-24.04", "macos-15", "self-hosted", "linux", "x64"}
"""Labels that hosts know."""


def complaints(text: str) -> list[str]:
    """What the published schema of hosted workflows finds in one."""
    schemas = resources.files("check_jsonschema") / "builtin_schemas/vendor"
    schema = json.loads((schemas / "github-workflows.json").read_text(encoding="utf-8"))
    document = yaml.safe_load(text)
    document["on"] = document.pop(True)  # an old meaning of the word `on` in YAML
    return [error.message for error in Draft7Validator(schema).iter_errors(document)]


def test_workflow_files_are_current() -> None:
    assert workflows.stale(workflows.wanted()) == [], "stale: run python ci/workflows.py"


def test_every_row_is_a_job_with_limit_cache_and_one_artifact() -> None:
    jobs = [job for text in workflows.wanted().values() for job in yaml.safe_load(text)["jobs"].values()]
    rows = matrix.parse_matrix(matrix.MATRIX.read_text(encoding="utf-8"))
    assert sorted(job["name"] for job in jobs) == sorted(row.name for row in rows)
    for job in jobs:
        steps = job["steps"]
        assert job["timeout-minutes"] > 0
        assert any(step.get("with", {}).get("cache") == "pip" for step in steps)
        assert [step["run"] for step in steps if "run_matrix" in step.get("run", "")] == [
            f"python ci/run_matrix.py --row {job['name']}"
        ]
        (kept,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
        assert kept["if"] == "always()" and kept["with"]["path"] == f".matrix/artifacts/{job['name']}"


@pytest.mark.parametrize("name", sorted(workflows.wanted()))
def test_workflows_follow_the_schema(name: str) -> None:
    assert complaints(workflows.wanted()[name]) == []


def test_the_schema_notices_a_bad_workflow() -> None:
    assert complaints(workflows.wanted()["tests.yml"].replace("runs-on:", "runs-upon:"))


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed here")
def test_actionlint_finds_nothing() -> None:
    done = subprocess.run(["actionlint", "-no-color"], cwd=matrix.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_labels_of_our_machines_are_declared() -> None:
    declared = yaml.safe_load((matrix.ROOT / ".github/actionlint.yaml").read_text(encoding="utf-8"))
    own = set(declared["self-hosted-runner"]["labels"])
    table = matrix.MATRIX.read_text(encoding="utf-8")
    defaults = tomllib.loads(table)["hosted"]
    used = {label for row in matrix.parse_matrix(table) for label in workflows.hosted_of(row, defaults).labels}
    assert used - LABELS == own


def test_hosts_install_what_a_bare_machine_lacks() -> None:
    """The list of .ci/run, but for what hosts have: Python, git, make and a browser."""
    script = (matrix.ROOT / ".ci/run").read_text(encoding="utf-8")
    lacking = {name for names in re.findall(r"missing\+=\((.*?)\)", script) for name in names.split()}
    defaults = tomllib.loads(matrix.MATRIX.read_text(encoding="utf-8"))["hosted"]
    assert lacking - {"python3", "python3-venv", "git", "make", "chromium"} == set(defaults["packages"])


def test_rows_are_parted_by_occasion() -> None:
    made = {name: yaml.safe_load(text) for name, text in workflows.texts(TABLE, "nox>=1").items()}
    assert {name: list(text["jobs"]) for name, text in made.items()} == {
        "tests.yml": ["cpu-3-12"],
        "nightly.yml": ["gpu"],
    }
    job = made["tests.yml"]["jobs"]["cpu-3-12"]
    steps = job["steps"]
    assert "apt-get install --yes --no-install-recommends g++" in steps[1]["run"]
    assert steps[2]["with"]["python-version"].split() == ["3.12", "3.11"]
    assert steps[3]["run"] == 'python -m pip install "nox>=1"'
    gpu = made["nightly.yml"]["jobs"]["gpu"]
    assert gpu["runs-on"] == ["self-hosted", "cuda"] and not any("apt-get" in str(step) for step in gpu["steps"])


def test_brew_installs_on_macos() -> None:
    hosted = workflows.hosted_of(Row("mac", "3.12", (), (), hosted={"runner": "macos-15"}), DEFAULTS)
    assert workflows.packages_step(hosted).strip() == "- run: brew install g++"


@pytest.mark.parametrize(
    ("hosted", "message"),
    [
        ({"colour": 1}, "unknown or missing settings of hosted workflows: colour"),
        ({"when": "weekly"}, "when = 'weekly' is none of push, nightly, demand"),
        ({"minutes": 361}, "no host runs a job for 361 minutes"),
        ({"minutes": 0}, "no host runs a job for 0 minutes"),
        ({"runner": ["self-hosted"]}, "code of strangers on a self-hosted machine"),
    ],
)
def test_settings_that_no_host_takes_are_refused(hosted: dict[str, Any], message: str) -> None:
    with pytest.raises(MatrixError, match=message):
        workflows.hosted_of(Row("a", "3.11", (), (), hosted=hosted), DEFAULTS)


def test_stale_files_are_named_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflows, "FOLDER", tmp_path)
    (tmp_path / "old.yml").write_text("name: old\n")
    assert workflows.main(["--check"]) == 1
    assert "tests.yml is stale" in (said := capsys.readouterr().out) and "old.yml is stale" in said
    assert workflows.main([]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(workflows.wanted())
    assert workflows.main(["--check"]) == 0
