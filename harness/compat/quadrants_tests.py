"""Run the tests of automatic differentiation in a checkout of Quadrants on stackgrad."""

from __future__ import annotations

import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from . import children, table

HEAD = ("test", "outcome", "reason")
PATTERN = "test_ad*.py"
PLACES = ("tests/python", "tests", ".")
"""Folders of a checkout in which the tests may lie; the first that has some is taken."""

EXPECTED = ("passed", "skipped", "xfailed")
"""Outcomes of a run in which nothing is wrong."""

Row = tuple[str, str, str]


def test_files(checkout: Path, names: list[str]) -> list[Path]:
    """Return the test files of a checkout that are named or, without names, all that test differentiation.

    Args:
        checkout: the folder of the checkout.
        names: paths of files, or their names, with or without the ending.

    Raises:
        FileNotFoundError: there is no such file, or no test of differentiation.
    """
    folders = [checkout / place for place in PLACES]
    if not names:
        found = next((files for files in (sorted(f.glob(PATTERN)) for f in folders) if files), None)
        if found is None:
            raise FileNotFoundError(f"{checkout} has no {PATTERN} in {', '.join(PLACES)}")
        return found
    return [_file(folders, name) for name in names]


def _file(folders: list[Path], name: str) -> Path:
    """Return the path of a file of tests. Raise FileNotFoundError if no folder has it."""
    for path in (Path(name), *(folder / ending for folder in folders for ending in (name, f"{name}.py"))):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folders[-1]} has no file {name}")


def run_file(file: Path, checkout: Path, python: str, limit: float) -> list[Row]:
    """Run a file of tests in a process of its own, and return a row for each test.

    Args:
        file: the file of tests to run.
        checkout: the folder from which the tests import their helpers.
        python: the interpreter; it needs pytest and stackgrad.
        limit: the number of seconds that the file may take.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(checkout), f"--junitxml={report}")
        command = [python, "-m", "stackgrad.compat", "quadrants", *pytest, str(file)]
        given = {"QD_WANTED_ARCHS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
        ended = children.run(command, limit, checkout, given)
        rows = read_report(report.read_text(encoding="utf-8")) if report.exists() else []
    named = [(f"{file.name}::{name}", outcome, reason) for name, outcome, reason in rows]
    return named or [(file.name, "no result", ended.reason or "no test ran")]


def read_report(text: str) -> list[Row]:
    """Return the tests in the text of a JUnit report as rows: name, outcome and reason of each test."""
    return [_row(case) for case in ElementTree.fromstring(text).iter("testcase")]


def _row(case: ElementTree.Element) -> Row:
    """Return the table row of one test of a JUnit report: its name, outcome and reason."""
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            return case.get("name", ""), _outcome(child), children.shortened(_reason(child))
    return case.get("name", ""), "passed", ""


def _outcome(child: ElementTree.Element) -> str:
    """Return what became of a test that did not pass; "xfailed" means that it failed as the test itself expects."""
    if child.get("type") == "pytest.xfail":
        return "xfailed"
    return {"failure": "failed"}.get(child.tag, child.tag)


def _reason(child: ElementTree.Element) -> str:
    """Return why a test did not pass; of a file that cannot be imported, the error of the import."""
    message, text = child.get("message") or "", child.text or ""
    if message != "collection failure":
        return message or text
    told = [line[1:] for line in text.splitlines() if line.startswith("E ")]
    return f"{message}: {told[-1].strip()}" if told else message


def main(checkout: str, names: list[str], python: str = sys.executable, limit: float = 600.0) -> int:
    """Run tests of a checkout, print a table, and return the exit status: 1 if a test fails unexpectedly.

    Args:
        checkout: the folder of the checkout.
        names: files of tests; all tests of differentiation if there are none.
        python: the interpreter that runs the tests.
        limit: the number of seconds that a file may take.
    """
    folder = Path(checkout).resolve()
    try:
        files = test_files(folder, names)
    except FileNotFoundError as error:
        print(error)
        return 2
    rows = [row for file in files for row in run_file(file.resolve(), folder, python, limit)]
    print(table.plain(HEAD, rows))
    print(", ".join(f"{count} {outcome}" for outcome, count in Counter(row[1] for row in rows).items()))
    return int(any(outcome not in EXPECTED for _, outcome, _ in rows))
