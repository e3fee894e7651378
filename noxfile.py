"""Define one nox session for each row of ci/matrix.toml, the table of the configurations to test.

`nox --sessions NAME` runs one row by hand. `ci/run_matrix.py` runs the rows that this machine can run, and adds the
table of backends; it also decides which missing interpreters are failures, so nox itself skips all of them.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import nox
from nox.command import CommandFailed

sys.path.insert(0, str(Path(__file__).resolve().parent / "ci"))

import run_matrix as matrix  # noqa: E402  (it is found by the line above)

nox.options.envdir = str(matrix.ENVIRONMENTS)
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False


def run_row(session: nox.Session, row: matrix.Row) -> None:
    """Install the requirements of a row of the test matrix, probe the backends, and run the tests or command."""
    session.install("--quiet", "--editable", matrix.requirement(row))
    probes = ask(session)
    backends, artifacts = matrix.concerned(row, probes), matrix.empty_artifacts(row)
    note = partial(matrix.Note, backends=backends, artifacts=str(artifacts))
    if reason := matrix.absent(row, probes):
        matrix.write_note(row, note(reason))
        session.error(reason)
    matrix.write_note(row, note())
    try:
        session.run(*matrix.command_of(row, artifacts), env=matrix.environment_of_tests(row, os.environ))
    except CommandFailed as failed:
        what = row.command[0] if row.command else "pytest"
        matrix.write_note(row, note(f"{what} ended with status {failed.return_code}"))
        raise


def ask(session: nox.Session) -> dict[str, matrix.Presence]:
    """Return a report by each backend on its availability to the Python interpreter of a nox session."""
    # In this folder no file of the checkout can shadow a module that the interpreter imports.
    with session.chdir(matrix.ENVIRONMENTS):
        asked = session.run("python", "-c", matrix.ASK, silent=True, log=False, stderr=None)
    try:
        return matrix.read_probes(str(asked))
    except (ValueError, IndexError, KeyError):
        session.error(f"the backends gave no report: {asked}")


def make_session(row: matrix.Row) -> None:
    """Register a nox session that runs one row of the test matrix."""

    def session(session: nox.Session) -> None:
        run_row(session, row)

    session.__doc__ = matrix.list_rows([row]).partition(": ")[2]
    decorate = nox.session(name=row.name, python=row.python, venv_backend="venv", default=not row.needs)
    decorate(session)


for _row in matrix.parse_matrix(matrix.MATRIX.read_text(encoding="utf-8")):
    make_session(_row)
