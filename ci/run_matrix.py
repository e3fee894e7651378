"""This script runs the rows of ci/matrix.toml, each as a nox session, and prints their outcomes.

A row passes only if its tests passed with every backend that it requires. An absent backend that it requires fails the
row before any test. The exit status is 1 if a row failed, 2 if the request is not valid. `noxfile.py` defines the
sessions; this script runs them by nox, and makes the table from nox's report and from the notes that sessions leave.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MATRIX = ROOT / "ci/matrix.toml"
ENVIRONMENTS = ROOT / ".matrix"
ARTIFACTS = ENVIRONMENTS / "artifacts"
NOTES = ENVIRONMENTS / "notes"
REPORT = ENVIRONMENTS / "report.json"
REQUIRED_VARIABLE = "STACKGRAD_REQUIRED_BACKENDS"
PROGRAMS_VARIABLE = "STACKGRAD_REQUIRED_PROGRAMS"

PASSED, FAILED, SKIPPED, UNASKED = "passed", "FAILED", "skipped", "not asked"
PREPARING_FAILED = "a step before the tests failed, as nox says above"

ASK = """
import dataclasses, json
from stackgrad.backends.registry import probe_all
print(json.dumps({name: dataclasses.asdict(probe) for name, probe in probe_all().items()}))
"""
"""Program for the interpreter of a row; its last line of output is what each backend reports about this machine."""


class MatrixError(Exception):
    """Signal that ci/matrix.toml or the requested rows are not valid."""


@dataclass(frozen=True)
class Row:
    """Represent one test environment, a row of ci/matrix.toml: its Python, extras, backends and tests.

    `ci/workflows.py` reads the settings `hosted`, which say how hosted workflows run the row. A test
    that needs one of the `programs` fails in this row where it is absent, and is skipped in others.
    """

    name: str
    python: str
    extras: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    needs: str = ""
    may_skip: bool = False
    tests: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    hosted: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Presence:
    """Represent the report of a backend on its availability on this machine, with reason and version."""

    available: bool
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Result:
    """Represent the result of one row of ci/matrix.toml: passed, failed, skipped or not run, with the reason.

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
    """Return the row that an entry of ci/matrix.toml describes.

    Raises:
        MatrixError: a field is unknown or missing, or a backend is both required and optional.
    """
    known = {known.name for known in fields(Row)}
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
    """Return the rows of ci/matrix.toml in order.

    Raises:
        MatrixError: a row is not valid, or two rows have one name.
    """
    rows = [parse_row(entry) for entry in tomllib.loads(text).get("row", [])]
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MatrixError(f"two rows named {', '.join(twice)}")
    return rows


def select(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[Result]]:
    """Return the rows to run, and a result for each row that is left out.

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


def concerned(row: Row, probes: Mapping[str, Presence]) -> tuple[tuple[str, Presence], ...]:
    """Return (name, availability) of each backend of the row. A backend without a report counts as absent."""
    unknown = Presence(False, "not in the registry")
    return tuple((name, probes.get(name, unknown)) for name in (*row.required, *row.optional))


def absent(row: Row, probes: Mapping[str, Presence]) -> str:
    """Return the reason for which required backends of a row are absent, or "" if all are present."""
    told = dict(concerned(row, probes))
    gone = [f"{name} ({told[name].reason or 'no reason given'})" for name in row.required if not told[name].available]
    return f"required backends are absent: {', '.join(gone)}" if gone else ""


def read_probes(output: str) -> dict[str, Presence]:
    """Return the availability of each backend, read from the JSON in the last line that the probe script printed.

    Raises:
        ValueError: the line has another form.
    """
    found = json.loads(output.strip().splitlines()[-1])
    return {n: Presence(p["available"], p.get("reason", ""), p.get("version", "")) for n, p in found.items()}


def requirement(row: Row) -> str:
    """Return the requirement that pip installs for a row: the checkout with the row's extras."""
    return f".[{','.join(row.extras)}]" if row.extras else "."


def command_of(row: Row, artifacts: Path) -> list[str]:
    """Return the command of a row: its own command with the folder of its artifacts, or the tests with a report."""
    if row.command:
        return ["python", row.command[0], str(artifacts), *row.command[1:]]
    return ["python", "-m", "pytest", "-n", "auto", "--junitxml", str(artifacts / "tests.xml"), *row.tests]


def empty_artifacts(row: Row) -> Path:
    """Create and return an empty folder for the artifacts of a row."""
    folder = ARTIFACTS / row.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def environment_of_tests(row: Row, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the tests of a row: the given ones, plus what the row requires."""
    required = {REQUIRED_VARIABLE: ",".join(row.required), PROGRAMS_VARIABLE: ",".join(row.programs)}
    return {"STACKGRAD_TESTS": "all", **environment, **required}


def exit_status(results: Iterable[Result]) -> int:
    """Return 1 if a row failed or none passed, because a run that tested nothing proves nothing; else 0."""
    outcomes = [result.outcome for result in results]
    return 0 if PASSED in outcomes and FAILED not in outcomes else 1


def render(results: Sequence[Result]) -> str:
    """Return the results as a text table with row, result, seconds and backends, and a line for each reason."""
    width = max([len(r.row) for r in results] + [3])
    lines = [f"{'row':{width}}  {'result':9}  {'seconds':>7}  backends"]
    for r in results:
        present = " ".join(f"{name} {p.version}".strip() for name, p in r.backends if p.available)
        lines.append(f"{r.row:{width}}  {r.outcome:9}  {r.seconds:7.0f}  {present or '-'}")
        reasons = [r.reason, *(f"{name} is absent: {p.reason}" for name, p in r.backends if not p.available)]
        reasons += [f"artifacts: {r.artifacts}"] if r.artifacts else []
        lines += [f"{'':{width}}  {reason}" for reason in reasons if reason]
    return "\n".join(lines)


# ---- what a session says ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """Hold the data, such as reports of backends, that the nox session of a row leaves for the results table.

    Attributes:
        reason: the reason of a failure, or empty.
        backends: the required and optional backends of the row that were asked, with their reports.
        artifacts: the folder of the files that the row leaves, or empty.
    """

    reason: str = ""
    backends: tuple[tuple[str, Presence], ...] = ()
    artifacts: str = ""


def write_note(row: Row, note: Note) -> None:
    """Write the note of a session to its file; a later note of the same session replaces it."""
    NOTES.mkdir(parents=True, exist_ok=True)
    (NOTES / f"{row.name}.json").write_text(json.dumps(asdict(note)), encoding="utf-8")


def read_note(row: Row) -> Note:
    """Return the note of a session, or an empty note if the session left none."""
    file = NOTES / f"{row.name}.json"
    if not file.is_file():
        return Note()
    found = json.loads(file.read_text(encoding="utf-8"))
    backends = tuple((name, Presence(**presence)) for name, presence in found["backends"])
    return Note(found["reason"], backends, found["artifacts"])


def result_of(row: Row, session: Mapping[str, Any] | None, note: Note) -> Result:
    """Return the result of a row, from the report of its nox session and its note.

    Args:
        row: the row.
        session: the entry of the row in nox's report, or None if there is none.
        note: the note that the session left.
    """
    if session is None:
        return Result(row.name, FAILED, "nox reports no session of this row")
    # No session is skipped but by nox itself, which does not find the interpreter.
    if session["result"] == "skipped":
        return Result(row.name, SKIPPED if row.may_skip else FAILED, f"python{row.python} is not installed")
    passed = session["result"] == "success"
    reason = "" if passed else note.reason or session.get("reason") or PREPARING_FAILED
    seconds = session.get("duration") or 0.0
    return Result(row.name, PASSED if passed else FAILED, reason, seconds, note.backends, note.artifacts)


# ---- running ------------------------------------------------------------------------------------------------


def run_rows(rows: Sequence[Row]) -> list[Result]:
    """Run a session of nox for each row, one after the other, and return the results.

    Raises:
        MatrixError: nox is not installed, or left no report.
    """
    if find_spec("nox") is None:
        raise MatrixError(f"nox is not installed in {sys.executable}; cure: pip install 'stackgrad[dev]'")
    shutil.rmtree(NOTES, ignore_errors=True)
    REPORT.unlink(missing_ok=True)
    REPORT.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), "--report", str(REPORT)]
    done = subprocess.run([*command, "--sessions", *(row.name for row in rows)])
    if not REPORT.is_file():
        raise MatrixError(f"nox ended with status {done.returncode} and left no report")
    found = {entry["name"]: entry for entry in json.loads(REPORT.read_text(encoding="utf-8"))["sessions"]}
    return [result_of(row, found.get(row.name), read_note(row)) for row in rows]


def keep_table(results: Iterable[Result]) -> None:
    """Write the table of each row that has run into the folder of its artifacts."""
    for result in results:
        if result.artifacts:
            (Path(result.artifacts) / "table.txt").write_text(render([result]) + "\n", encoding="utf-8")


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
        rows = parse_matrix(MATRIX.read_text(encoding="utf-8"))
        chosen, left = select(rows, options.row)
        if options.list:
            print(list_rows(rows))
            return 0
        results = [*run_rows(chosen), *left]
        keep_table(results)
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 2
    print(render(results))
    return exit_status(results)


if __name__ == "__main__":
    sys.exit(main())
