"""This script writes the hosted workflows, `.github/workflows/*.yml`, from the rows of ci/matrix.toml.

    python ci/workflows.py             writes them
    python ci/workflows.py --check     says which of them are stale, with exit status 1, and writes nothing

Each row becomes a job, which runs `ci/run_matrix.py --row NAME`. `tests.yml` has the rows that run at every push and
pull request, `nightly.yml` those that run every night, `demand.yml` those that are started by hand; a file without rows
is not written. tests/meta/test_workflows.py fails while a file is stale.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import run_matrix as matrix
from run_matrix import MatrixError, Row

FOLDER = matrix.ROOT / ".github/workflows"
SELF_HOSTED = "self-hosted"
BOOTSTRAP = "3.11"
"""Version of the interpreter that runs `ci/run_matrix.py`, beside that of the row."""

FILES = {"push": "tests.yml", "nightly": "nightly.yml", "demand": "demand.yml"}
"""The workflow file of each occasion on which rows run."""

TRIGGERS = {
    "push": ["push:", "  branches: [main]", "pull_request:", "workflow_dispatch:"],
    "nightly": ["schedule:", '  - cron: "17 1 * * *"', "workflow_dispatch:"],
    "demand": ["workflow_dispatch:"],
}

HEAD = """\
# Made from ci/matrix.toml by `python ci/workflows.py`: edit the table and run the script.
name: {occasion}

on:
{triggers}

permissions:
  contents: read

concurrency:
  group: {occasion}-${{{{ github.ref }}}}
  cancel-in-progress: {cancel}

jobs:
"""

JOB = """\
  {identifier}:
    name: {name}
    runs-on: {runner}
    timeout-minutes: {minutes}
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
{packages}\
      - uses: actions/setup-python@v5
        with:
          python-version: |
{versions}
          cache: pip
          cache-dependency-path: pyproject.toml
      - run: python -m pip install "{nox}"
      - run: python ci/run_matrix.py --row {name}
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: {name}
          path: .matrix/artifacts/{name}
          if-no-files-found: warn
          retention-days: 30
"""


@dataclass(frozen=True)
class Hosted:
    """Represent how hosted workflows run a row.

    Attributes:
        runner: the label of the machine, or several of them.
        when: the occasion on which the row runs, a key of FILES.
        minutes: the time limit of the job.
        packages: system packages that the package manager of the machine installs first.
    """

    runner: str | tuple[str, ...]
    when: str
    minutes: int
    packages: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the machine."""
        return (self.runner,) if isinstance(self.runner, str) else self.runner


def hosted_of(row: Row, defaults: Mapping[str, Any]) -> Hosted:
    """Return how a row is hosted: its own settings, and the defaults for what it leaves out.

    Raises:
        MatrixError: a setting is unknown, missing or not valid, or strangers could run code on a self-hosted machine.
    """
    given = {**defaults, **row.hosted}
    names = {known.name for known in fields(Hosted)}
    if wrong := sorted(set(given) ^ names):
        raise MatrixError(f"row {row.name}: unknown or missing settings of hosted workflows: {', '.join(wrong)}")
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    hosted = Hosted(**settings)
    if hosted.when not in FILES:
        raise MatrixError(f"row {row.name}: when = {hosted.when!r} is none of {', '.join(FILES)}")
    if not 0 < hosted.minutes <= (24 * 60 if SELF_HOSTED in hosted.labels else 360):
        raise MatrixError(f"row {row.name}: no host runs a job for {hosted.minutes} minutes")
    if SELF_HOSTED in hosted.labels and hosted.when == "push":
        raise MatrixError(f"row {row.name}: a pull request would run code of strangers on a self-hosted machine")
    return hosted


def packages_step(hosted: Hosted) -> str:
    """Return the step that installs system packages, or "" where there is nothing to install."""
    if not hosted.packages or SELF_HOSTED in hosted.labels:
        return ""
    names = " ".join(hosted.packages)
    if hosted.labels[0].startswith("macos"):
        return f"      - run: brew install {names}\n"
    install = f"sudo apt-get install --yes --no-install-recommends {names}"
    return f"      - run: |\n          sudo apt-get update\n          {install}\n"


def job(row: Row, hosted: Hosted, nox: str) -> str:
    """Return the job of a row. `nox` is the requirement that installs nox."""
    versions = dict.fromkeys([row.python, BOOTSTRAP])  # the last one is `python` itself
    runner = hosted.runner if isinstance(hosted.runner, str) else f"[{', '.join(hosted.runner)}]"
    return JOB.format(
        identifier=row.name.replace(".", "-"),
        name=row.name,
        runner=runner,
        minutes=hosted.minutes,
        packages=packages_step(hosted),
        versions="\n".join(f"            {version}" for version in versions),
        nox=nox,
    )


def workflow(when: str, jobs: Iterable[str]) -> str:
    """Return the text of the workflow file for an occasion, such as every night, with these jobs."""
    triggers = "\n".join(f"  {line}" for line in TRIGGERS[when])
    name = FILES[when].removesuffix(".yml")
    return HEAD.format(occasion=name, triggers=triggers, cancel=str(when == "push").lower()) + "\n".join(jobs)


def nox_requirement(project: Mapping[str, Any]) -> str:
    """Return the requirement of nox among the tools of developers in pyproject.toml."""
    tools = project["project"]["optional-dependencies"]["dev"]
    return str(next(tool for tool in tools if tool.startswith("nox")))


def texts(table: str, nox: str) -> dict[str, str]:
    """Return {file name: text} of the workflows of a matrix.

    Args:
        table: the text of ci/matrix.toml.
        nox: the requirement that installs nox.

    Raises:
        MatrixError: a row is not valid.
    """
    defaults = tomllib.loads(table).get("hosted", {})
    jobs: dict[str, list[str]] = {}
    for row in matrix.parse_matrix(table):
        hosted = hosted_of(row, defaults)
        jobs.setdefault(hosted.when, []).append(job(row, hosted, nox))
    return {FILES[when]: workflow(when, jobs[when]) for when in FILES if when in jobs}


def wanted() -> dict[str, str]:
    """Return {file name: text} of the workflows of this checkout."""
    project = tomllib.loads((matrix.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return texts(matrix.MATRIX.read_text(encoding="utf-8"), nox_requirement(project))


def stale(expected: Mapping[str, str]) -> list[str]:
    """Return the names of workflow files that differ from their expected texts, are missing, or are not expected."""
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.y*ml")}
    return sorted(name for name in {*present, *expected} if present.get(name) != expected.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the workflow files, or say which are stale, and return the exit status."""
    parser = argparse.ArgumentParser(description="Writes .github/workflows from ci/matrix.toml.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file is stale")
    options = parser.parse_args(arguments)
    expected = wanted()
    differing = stale(expected)
    if options.check:
        print("\n".join(f"{FOLDER / name} is stale: run python ci/workflows.py" for name in differing) or "up to date")
        return 1 if differing else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in differing:
        if name in expected:
            (FOLDER / name).write_text(expected[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
