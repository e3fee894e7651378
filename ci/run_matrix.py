"""Run the rows of ci/matrix.toml, each in its own environment, and print the outcome of each.

A row passes only if its tests passed with every backend that it requires. An absent backend that it requires fails the
row before any test. The exit status is 1 if a row failed, 2 if the request is not valid. The script needs only the
standard library and runs under any interpreter >= 3.11.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".matrix"
ARTIFACTS = ENVIRONMENTS / "artifacts"
REQUIRED_VARIABLE = "STACKGRAD_REQUIRED_BACKENDS"

PASSED, FAILED, SKIPPED, UNASKED = "passed", "FAILED", "skipped", "not asked"

ASK = """
import dataclasses, json
from stackgrad.backends.registry import probe_all
print(json.dumps({name: dataclasses.asdict(probe) for name, probe in probe_all().items()}))
"""
"""Program for the interpreter of a row; its last line of output is what each backend reports about this machine."""


class MatrixError(Exception):
    """The matrix or the request is not valid."""


@dataclass(frozen=True)
class Row:
    """Represent one environment; ci/matrix.toml explains the fields."""

    name: str
    python: str
    extras: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    needs: str = ""
    may_skip: bool = False
    tests: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Presence:
    """Represent what a backend reports about this machine."""

    available: bool
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Result:
    """Represent the outcome of a row.

    Attributes:
        row: the name of the row.
        outcome: PASSED, FAILED, SKIPPED or UNASKED.
        reason: the reason of the outcome.
        seconds: the duration.
        backends: the required and optional backends of the row that were asked, with their reports.
        artifacts: the folder of the files that the row leaves, or empty.
    """

    row: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    backends: tuple[tuple[str, Presence], ...] = ()
    artifacts: str = ""


# ---- the matrix ---------------------------------------------------------------------------------------------


def parse_row(entry: Mapping[str, Any]) -> Row:
    """Return one row.

    Raises:
        MatrixError: a field is unknown or missing, or a backend is both required and optional.
    """
    known = {field.name for field in fields(Row)}
    name = entry.get("name", "?")
    if unknown := sorted(set(entry) - known):
        raise MatrixError(f"row {name}: unknown fields: {', '.join(unknown)}")
    if missing := sorted({"name", "python", "extras", "required"} - set(entry)):
        raise MatrixError(f"row {name}: missing fields: {', '.join(missing)}")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    row = Row(**given)
    if row.tests and row.command:
        raise MatrixError(f"row {name}: both tests and a command")
    if both := sorted(set(row.required) & set(row.optional)):
        raise MatrixError(f"row {name}: both required and optional: {', '.join(both)}")
    return row


def parse_matrix(text: str) -> list[Row]:
    """Return all rows in order.

    Raises:
        MatrixError: a row is not valid, or two rows have one name.
    """
    rows = [parse_row(entry) for entry in tomllib.loads(text).get("row", [])]
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MatrixError(f"two rows named {', '.join(twice)}")
    return rows


def select(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[Result]]:
    """Return the rows to run, and results of the rows left out.

    Without names, the rows that need a special machine are left out.

    Raises:
        MatrixError: a name is not known.
    """
    if unknown := sorted(set(names) - {row.name for row in rows}):
        raise MatrixError(f"no row named {', '.join(unknown)}; rows: {', '.join(row.name for row in rows)}")
    if names:
        return [row for row in rows if row.name in names], []
    left = [Result(row.name, UNASKED, f"needs {row.needs}: --row {row.name}") for row in rows if row.needs]
    return [row for row in rows if not row.needs], left


# ---- decisions ----------------------------------------------------------------------------------------------


def without_python(row: Row) -> Result:
    """Return the result of a row whose interpreter is not installed."""
    outcome = SKIPPED if row.may_skip else FAILED
    return Result(row.name, outcome, f"python{row.python} is not installed")


def concerned(row: Row, probes: Mapping[str, Presence]) -> tuple[tuple[str, Presence], ...]:
    """Return the reports of the row's backends; a backend that the registry does not know is absent."""
    unknown = Presence(False, "not in the registry")
    return tuple((name, probes.get(name, unknown)) for name in (*row.required, *row.optional))


def absent(row: Row, probes: Mapping[str, Presence]) -> str:
    """Return the reason why required backends are absent; empty if all are present."""
    told = dict(concerned(row, probes))
    gone = [f"{name} ({told[name].reason or 'no reason given'})" for name in row.required if not told[name].available]
    return f"required backends are absent: {', '.join(gone)}" if gone else ""


def read_probes(output: str) -> dict[str, Presence]:
    """Return the reports in the last line of the output of ASK.

    Raises:
        ValueError: the line has another form.
    """
    found = json.loads(output.strip().splitlines()[-1])
    return {n: Presence(p["available"], p.get("reason", ""), p.get("version", "")) for n, p in found.items()}


def requirement(row: Row) -> str:
    """Return what pip installs for a row: the checkout with the extras of the row."""
    return f".[{','.join(row.extras)}]" if row.extras else "."


def environment_of_tests(row: Row, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of the tests: those of the caller, the required backends, and no rotation."""
    return {"STACKGRAD_TESTS": "all", **environment, REQUIRED_VARIABLE: ",".join(row.required)}


def exit_status(results: Iterable[Result]) -> int:
    """Return 1 if a row failed or none passed, because a run that tested nothing proves nothing; else 0."""
    outcomes = [result.outcome for result in results]
    return 0 if PASSED in outcomes and FAILED not in outcomes else 1


def render(results: Sequence[Result]) -> str:
    """Return the table: row, result, seconds, backends present; then a line for each reason."""
    width = max([len(r.row) for r in results] + [3])
    lines = [f"{'row':{width}}  {'result':9}  {'seconds':>7}  backends"]
    for r in results:
        present = " ".join(f"{name} {p.version}".strip() for name, p in r.backends if p.available)
        lines.append(f"{r.row:{width}}  {r.outcome:9}  {r.seconds:7.0f}  {present or '-'}")
        reasons = [r.reason, *(f"{name} is absent: {p.reason}" for name, p in r.backends if not p.available)]
        reasons += [f"artifacts: {r.artifacts}"] if r.artifacts else []
        lines += [f"{'':{width}}  {reason}" for reason in reasons if reason]
    return "\n".join(lines)


# ---- running ------------------------------------------------------------------------------------------------


def find_python(version: str, run: Callable[..., Any] = subprocess.run) -> str | None:
    """Return a working interpreter of this version, or None; version managers leave stubs that do not work."""
    path = shutil.which(f"python{version}")
    if path is None:
        return None
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    answer = run([path, "-c", code], capture_output=True, text=True)
    return path if answer.returncode == 0 and answer.stdout.strip() == version else None


def install(row: Row, python: str) -> Path:
    """Make a fresh environment with what the row asks for, and return its interpreter.

    Raises:
        CalledProcessError: the installation failed.
    """
    home = ENVIRONMENTS / row.name
    subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
    own = home / "bin" / "python"
    subprocess.run([str(own), "-m", "pip", "install", "--quiet", "--editable", requirement(row)], cwd=ROOT, check=True)
    return own


def run_installed(row: Row, python: Path) -> Result:
    """Ask the backends, then run the tests."""
    # In this folder no file of the checkout can shadow a module that the interpreter imports.
    asked = subprocess.run([str(python), "-c", ASK], cwd=ENVIRONMENTS, check=True, stdout=subprocess.PIPE, text=True)
    probes = read_probes(asked.stdout)
    if reason := absent(row, probes):
        return Result(row.name, FAILED, reason, backends=concerned(row, probes))
    left = ARTIFACTS / row.name if row.command else None
    done = subprocess.run(command_of(row, python, left), cwd=ROOT, env=environment_of_tests(row, os.environ))
    outcome = PASSED if done.returncode == 0 else FAILED
    what = row.command[0] if row.command else "pytest"
    reason = "" if outcome == PASSED else f"{what} ended with status {done.returncode}"
    return Result(row.name, outcome, reason, backends=concerned(row, probes), artifacts=str(left or ""))


def command_of(row: Row, python: Path, artifacts: Path | None) -> list[str]:
    """Return the command of an installed row: its own command with an empty artifact folder, or the tests."""
    if artifacts is None:
        return [str(python), "-m", "pytest", "-n", "auto", *row.tests]
    shutil.rmtree(artifacts, ignore_errors=True)
    artifacts.mkdir(parents=True)
    return [str(python), row.command[0], str(artifacts), *row.command[1:]]


def run_row(row: Row) -> Result:
    """Run one row and return its result; no error leaves this function, so that the next rows run too."""
    print(f"== {row.name}: Python {row.python}, extras {', '.join(row.extras) or 'none'}", flush=True)
    start = time.monotonic()
    python = find_python(row.python)
    if python is None:
        return without_python(row)
    try:
        result = run_installed(row, install(row, python))
    except (subprocess.CalledProcessError, ValueError, IndexError, OSError) as error:
        result = Result(row.name, FAILED, str(error))
    return replace(result, seconds=time.monotonic() - start)


def list_rows(rows: Iterable[Row]) -> str:
    """Return one line for each row, for `--list`."""
    return "\n".join(
        f"{row.name}: Python {row.python}, extras {', '.join(row.extras) or 'none'}, "
        f"requires {', '.join(row.required)}{f', needs {row.needs}' if row.needs else ''}"
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen rows, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description="Runs the rows of ci/matrix.toml.")
    parser.add_argument("--row", action="append", default=[], metavar="NAME", help="run this row; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    options = parser.parse_args(arguments)
    try:
        rows = parse_matrix((ROOT / "ci/matrix.toml").read_text(encoding="utf-8"))
        chosen, left = select(rows, options.row)
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        print(list_rows(rows))
        return 0
    results = [*map(run_row, chosen), *left]
    print(render(results))
    return exit_status(results)


if __name__ == "__main__":
    sys.exit(main())
