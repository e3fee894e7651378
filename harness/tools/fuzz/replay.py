"""Replay a corpus: run each stored finding again, with all comparisons of executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from .corpus import CorpusEntry, entries
from .statistics import Finding
from .worker import Crash, Execute, Job


def replay(
    roots: Iterable[Path], backends: tuple[str, ...], execute: Execute
) -> Iterator[tuple[CorpusEntry, Finding | None]]:
    """Replay each corpus entry; yield it with the finding of the new run, or with None if executors now agree.

    Args:
        roots: Folders of corpora or of single entries.
        backends: Names of the backends that run the entries.
        execute: Function that runs a job.

    Raises:
        ValueError: A folder is no entry.
    """
    for entry in entries(roots):
        plan = replace(entry.plan.everything, backends=backends)
        result = execute(Job(0, entry.program, plan))
        if isinstance(result, Crash):
            yield entry, Finding(entry.program, plan, (), result.reason)
        else:
            yield entry, Finding(entry.program, plan, result.judged) if result.disagreements else None
