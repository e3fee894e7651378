"""Replays of a corpus: every entry with every comparison there is, in a process of its own."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from .corpus import Entry, entries
from .result import Result
from .statistics import Finding
from .worker import Crash, Job, Setup, Worker


def replay(
    roots: Iterable[Path], backends: tuple[str, ...], limit: float = 60.0
) -> Iterator[tuple[Entry, Finding | None]]:
    """Each entry, with what is found now: None if all agree. Raises ValueError for a folder that is no entry."""
    found = list(entries(roots))
    if not found:
        return
    worker = Worker(Setup(backends), limit)
    try:
        for entry in found:
            yield entry, replay_entry(entry, backends, worker)
    finally:
        worker.close()


def replay_entry(entry: Entry, backends: tuple[str, ...], worker: Worker) -> Finding | None:
    """One entry on these backends."""
    plan = replace(entry.plan.everything, backends=backends)
    result = worker.run(Job(0, entry.program, plan))
    if isinstance(result, Crash):
        return Finding(entry.program, plan, (), result.reason)
    return finding_of(entry, result)


def finding_of(entry: Entry, result: Result) -> Finding | None:
    """What a result says of an entry."""
    plan = replace(entry.plan, oracle=True)
    return Finding(entry.program, plan, result.judged) if result.disagreements else None
