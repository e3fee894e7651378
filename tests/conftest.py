"""Collects .kir files; chooses backends; prints a matrix of backends and outcomes at the end.

`--backend NAME` (repeatable) restricts the tests that are made per backend. STACKGRAD_REQUIRED_BACKENDS="reference,cpu"
names backends whose absence is an error; others that are absent are listed with the reason.
"""
from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)  # at the end: the folders of tests shadow nothing

_OUTCOMES = ("passed", "failed", "skipped")
_FOLDERS = ("ops", "statements", "invalid", "ad")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", action="append", default=[], metavar="NAME", help="run only these backends")


def pytest_configure(config: pytest.Config) -> None:
    required = [n.strip() for n in os.environ.get("STACKGRAD_REQUIRED_BACKENDS", "").split(",") if n.strip()]
    named = list(dict.fromkeys(required + config.getoption("--backend")))
    if not named:
        return
    from kir_test_support import running

    absent = []
    for name in named:
        probe = running.probes().get(name)
        if probe is None:
            absent.append(f"backend {name}: there is none of this name; known: {', '.join(running.probes())}")
        elif not probe.available:
            absent.append(f"backend {name} cannot run here: {probe.reason}. {probe.cure}".rstrip())
    if absent:
        raise pytest.UsageError("\n".join(absent))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".kir" or file_path.parent.name not in _FOLDERS or str(file_path.parent.parent) != _HERE:
        return None
    import run_kir  # here, so that a run without .kir files loads no compiler

    return run_kir.KirFile.from_parent(parent, path=file_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """backend × outcome over the items named `...[backend-...]`, and why a backend is absent."""
    table: dict[str, Counter[str]] = {}
    for outcome in _OUTCOMES:
        for report in terminalreporter.stats.get(outcome, []):
            match = re.search(r"\.kir::\w+\[(\w+)", report.nodeid)
            if match:
                table.setdefault(match.group(1), Counter())[outcome] += 1
    if not table:
        return
    from kir_test_support import running

    terminalreporter.section("backends", sep="-")
    terminalreporter.write_line(f"{'':12}" + "".join(f"{outcome:>10}" for outcome in _OUTCOMES))
    for name, probe in running.probes().items():
        if name in table:
            terminalreporter.write_line(f"{name:12}" + "".join(f"{table[name][outcome]:>10}" for outcome in _OUTCOMES))
        elif not probe.available:
            terminalreporter.write_line(f"{name:12}    absent: {probe.reason}")
