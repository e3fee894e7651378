"""Run `stackgrad check FILE…`: run programs, replay their launches on every executor, and compare the results."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..backends.registry import UnknownBackend
from ..harness.testing.check import check_launches
from ..harness.testing.executors import present_backends
from ..harness.testing.replay import ExecutorPanel
from ..harness.testing.report import CheckReport
from . import CommandError, version
from .pages import check_page, check_templates, write_page
from .programs import run_program
from .tables import Display


def run(given: argparse.Namespace) -> int:
    """Check the given programs on all executors and print a report. Return 1 if any program fails, else 0."""
    if given.html:
        check_templates()
    to_stdout = given.json == "-"
    display = Display(sys.stderr if to_stdout else sys.stdout)
    names = None if given.backends is None else [n.strip() for n in given.backends.split(",") if n.strip()]
    reports = []
    for file in given.files:
        report = check_program(Path(file), given.limit, names, display)
        display.report(report)
        reports.append(report)
    if given.json:
        _write_json(given.json, reports)
    if given.html:
        write_page(given.html, check_page(reports))
    return 0 if all(report.passed for report in reports) else 1


def check_program(
    path: Path, limit: int = 2, backends: list[str] | None = None, display: Display | None = None
) -> CheckReport:
    """Run a program, replay its launches on all executors, and return a report of the comparisons.

    Args:
        path: The file of the program.
        limit: Number of launches to keep for each kernel and direction.
        backends: Names of the backends to compare; None for all that can run on this machine.
        display: Where progress is shown; None for standard error.

    Raises:
        CommandError: There is no such file, or a named backend cannot run.
    """
    display = display or Display(sys.stderr)
    try:
        executors, absent = present_backends(backends)
    except UnknownBackend as error:
        raise CommandError(str(error)) from None
    if backends is not None and absent:
        raise CommandError("; ".join(f"{name} cannot run here: {why}" for name, why in absent.items()))
    display.running(str(path))
    ran = run_program(path, limit, display.stream)
    with display.progress(str(path)) as progress:
        return check_launches(
            str(path), ran.launches, ExecutorPanel(executors), ran.totals, ran.findings, ran.error, absent, progress
        )


def _write_json(where: str, reports: list[CheckReport]) -> None:
    """Write the reports as JSON to a file, or to standard output for "-"."""
    content: dict[str, Any] = {
        "stackgrad": version(),
        "passed": all(report.passed for report in reports),
        "programs": [report.to_json() for report in reports],
    }
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    if where == "-":
        sys.stdout.write(text)
        return
    write_page(where, text)
