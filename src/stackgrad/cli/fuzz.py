"""`stackgrad fuzz`, `replay`, `reduce`: random programs on every executor; what is found is made small and kept."""
from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..backends.registry import UnknownBackend
from ..harness.executors import present_backends
from ..harness.fuzz import corpus
from ..harness.fuzz.loop import HANG, fuzz
from ..harness.fuzz.reduce import distinct, reduce, sign_of_judged
from ..harness.fuzz.replay import replay
from ..harness.fuzz.statistics import Finding, Statistics
from ..harness.fuzz.worker import Setup, Worker
from ..harness.model.source import definitions
from . import CommandError
from .live import Status

DEFAULT_SECONDS = 60.0
REDUCE_SECONDS = 30.0
"""Time that a finding may take to be made small."""

MOST_REDUCED = 10
"""Findings of one run that are made small; the others are counted."""


def run(given: argparse.Namespace) -> int:
    """The command. Returns 1 if anything was found."""
    backends = wanted_backends(given.backends)
    if given.mutants:
        from .mutants import hunt

        return hunt(given.seconds or DEFAULT_SECONDS, given.cases, given.seed or 0, backends)
    root = Path(given.corpus)
    failed = replay_all([root], backends) if root.exists() else 0
    seconds = DEFAULT_SECONDS if given.seconds is None and given.cases is None else given.seconds
    with Status() as status:
        found = fuzz(seconds, given.cases, given.seed, backends, given.processes, progress=status.show)
    print(table(found))
    for finding in kept(found.findings, backends):
        report(finding, corpus.write(root, finding))
    return 1 if found.findings or failed else 0


def wanted_backends(text: str | None) -> tuple[str, ...]:
    """The backends named, or all that can run here. Raises CommandError for one that cannot."""
    names = None if text is None else [n.strip() for n in text.split(",") if n.strip()]
    try:
        executors, absent = present_backends(names)
    except UnknownBackend as error:
        raise CommandError(str(error)) from None
    if names is not None and absent:
        raise CommandError("; ".join(f"{name} cannot run here: {why}" for name, why in absent.items()))
    return tuple(e.name for e in executors)


def kept(findings: Sequence[Finding], backends: tuple[str, ...]) -> list[Finding]:
    """Findings made small, one for each mistake as far as that can be told."""
    if not findings:
        return []
    print(f"reducing {min(len(findings), MOST_REDUCED)} of {len(findings)} findings", flush=True)
    worker = Worker(Setup(backends), HANG)
    try:
        small = [reduce(f, worker.run, REDUCE_SECONDS) for f in findings[:MOST_REDUCED]]
    finally:
        worker.close()
    return distinct(small, name)


def name(finding: Finding) -> str:
    """Findings of one name are taken for one mistake."""
    return "-".join(sign_of_judged(finding.judged)) or finding.crash


def report(finding: Finding, folder: Path) -> None:
    """What a user reads of a finding."""
    seed = "" if finding.seed is None else f"seed {finding.seed}, "
    print(f"\nFOUND: {finding.title}\n    {seed}kept in {folder}")
    print("    " + definitions(finding.program).strip().replace("\n", "\n    "))


def table(found: Statistics) -> str:
    """The statistics of a run, in two columns."""
    rows = found.table()
    width = max(len(what) for what, _ in rows)
    return "\n".join(f"{what.ljust(width)}  {much}" for what, much in rows)


# ---- replay, reduce -----------------------------------------------------------------------------------------


def run_replay(given: argparse.Namespace) -> int:
    """The command. Returns 1 if an entry fails."""
    return 1 if replay_all([Path(d) for d in given.folders], wanted_backends(given.backends), loud=True) else 0


def replay_all(roots: Sequence[Path], backends: tuple[str, ...], loud: bool = False) -> int:
    """Replay a corpus and say what fails; how many do."""
    failed = count = 0
    try:
        for entry, finding in replay(roots, backends):
            count += 1
            failed += finding is not None
            if finding is not None:
                print(f"FAILED: {entry.folder}: {finding.title}")
            elif loud:
                print(f"passed: {entry.folder}")
    except ValueError as error:
        raise CommandError(str(error)) from None
    if loud and not count:
        raise CommandError(f"no entries in {', '.join(map(str, roots))}: an entry holds {corpus.PROGRAM}")
    print(f"replayed {count} entries, {failed} failed")
    return failed


def run_reduce(given: argparse.Namespace) -> int:
    """The command: the entry is reduced further in place of what it holds, in a folder beside it."""
    folder, backends = Path(given.folder), wanted_backends(given.backends)
    try:
        entry = corpus.read(folder)
    except ValueError as error:
        raise CommandError(str(error)) from None
    for _, finding in replay([folder], backends):
        if finding is None:
            print(f"{folder} passes: there is nothing to reduce")
            return 0
        small = kept([replace(finding, plan=replace(finding.plan, backends=backends))], backends)[0]
        report(small, corpus.write(entry.folder.parent, small))
    return 1
