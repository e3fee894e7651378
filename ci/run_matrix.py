"""Runs the rows of ci/matrix.toml, each in an environment of its own, and prints what came of each.

A row passes only if its tests passed with every backend that it requires; a backend that it requires and that is
absent fails it before any test. The exit status is 1 if a row failed, 2 if the request makes no sense.
Needs nothing but the standard library, and runs under any interpreter >= 3.11.
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
"""Run by the interpreter of a row: what each backend says about this machine, as the last line of output."""


class MatrixError(Exception):
    """The matrix, or the request, makes no sense."""


@dataclass(frozen=True)
class Row:
    """One environment; ci/matrix.toml says what the fields mean."""

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
    """What a backend says about this machine."""

    available: bool
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Result:
    """What came of a row. backends: of this row's required and optional ones, those that were asked. artifacts: the
    folder of what the row leaves, if it leaves anything.
    """

    row: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    backends: tuple[tuple[str, Presence], ...] = ()
    artifacts: str = ""


# ---- the matrix ---------------------------------------------------------------------------------------------


def parse_row(entry: Mapping[str, Any]) -> Row:
    """One row. Raises MatrixError if a field is unknown or missing, or a backend is both required and optional."""
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
    """All rows in order. Raises MatrixError for a bad row or two rows of one name."""
    rows = [parse_row(entry) for entry in tomllib.loads(text).get("row", [])]
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MatrixError(f"two rows named {', '.join(twice)}")
    return rows


def select(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[Result]]:
    """Rows to run, and results of those left out: by default the rows that need a special machine."""
    if unknown := sorted(set(names) - {row.name for row in rows}):
        raise MatrixError(f"no row named {', '.join(unknown)}; rows: {', '.join(row.name for row in rows)}")
    if names:
        return [row for row in rows if row.name in names], []
    left = [Result(row.name, UNASKED, f"needs {row.needs}: --row {row.name}") for row in rows if row.needs]
    return [row for row in rows if not row.needs], left


# ---- decisions ----------------------------------------------------------------------------------------------


def without_python(row: Row) -> Result:
    """The result of a row whose interpreter is not installed."""
    outcome = SKIPPED if row.may_skip else FAILED
    return Result(row.name, outcome, f"python{row.python} is not installed")


def concerned(row: Row, probes: Mapping[str, Presence]) -> tuple[tuple[str, Presence], ...]:
    """What the row's backends said; one that the registry does not know is absent."""
    unknown = Presence(False, "not in the registry")
    return tuple((name, probes.get(name, unknown)) for name in (*row.required, *row.optional))


def absent(row: Row, probes: Mapping[str, Presence]) -> str:
    """Why required backends are absent; empty if all are there."""
    told = dict(concerned(row, probes))
    gone = [f"{name} ({told[name].reason or 'no reason given'})" for name in row.required if not told[name].available]
    return f"required backends are absent: {', '.join(gone)}" if gone else ""


def read_probes(output: str) -> dict[str, Presence]:
    """The last line of what ASK printed. Raises ValueError if it is no such line."""
    found = json.loads(output.strip().splitlines()[-1])
    return {n: Presence(p["available"], p.get("reason", ""), p.get("version", "")) for n, p in found.items()}


def requirement(row: Row) -> str:
    """What pip installs for a row: the checkout with the row's extras."""
    return f".[{','.join(row.extras)}]" if row.extras else "."


def environment_of_tests(row: Row, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the tests: those of the caller, and the backends that must be there."""
    return {**environment, REQUIRED_VARIABLE: ",".join(row.required)}


def exit_status(results: Iterable[Result]) -> int:
    """1 if a row failed or none passed: a run that tested nothing proves nothing."""
    outcomes = [result.outcome for result in results]
    return 0 if PASSED in outcomes and FAILED not in outcomes else 1


def render(results: Sequence[Result]) -> str:
    """The table: row, result, seconds, backends present; then a line for each reason."""
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
    """An interpreter of this version that works: version managers leave stubs that do not."""
    path = shutil.which(f"python{version}")
    if path is None:
        return None
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    answer = run([path, "-c", code], capture_output=True, text=True)
    return path if answer.returncode == 0 and answer.stdout.strip() == version else None


def install(row: Row, python: str) -> Path:
    """A fresh environment with what the row asks for; gives its interpreter. Raises CalledProcessError."""
    home = ENVIRONMENTS / row.name
    subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
    own = home / "bin" / "python"
    subprocess.run([str(own), "-m", "pip", "install", "--quiet", "--editable", requirement(row)], cwd=ROOT, check=True)
    return own


def run_installed(row: Row, python: Path) -> Result:
    """Ask the backends, then run the tests."""
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
    """What an installed row runs: its own command, with an empty folder for what it leaves; else the tests."""
    if artifacts is None:
        return [str(python), "-m", "pytest", "-n", "auto", *row.tests]
    shutil.rmtree(artifacts, ignore_errors=True)
    artifacts.mkdir(parents=True)
    return [str(python), row.command[0], str(artifacts), *row.command[1:]]


def run_row(row: Row) -> Result:
    """Everything for one row; no error leaves it, so that the other rows run too."""
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
    """One line a row, for `--list`."""
    return "\n".join(
        f"{row.name}: Python {row.python}, extras {', '.join(row.extras) or 'none'}, "
        f"requires {', '.join(row.required)}{f', needs {row.needs}' if row.needs else ''}"
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
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
