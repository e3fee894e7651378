"""Run the fuzzer of IR texts: cases of consecutive seeds in processes that are watched.

A case that hangs or kills its process is a finding as any other, and the next process goes on after that case.
Invariant: neither the cases nor their verdicts depend on the number of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from .text_case import TextVerdict, judge

Judge = Callable[[int], TextVerdict]
"""A function that returns the verdict on the case of a seed, and that other processes can import."""

HANG = 20.0
"""Seconds after which a case counts as hung; a normal case takes a few milliseconds."""

_START = 120.0
_BATCH = 200


@dataclass
class TextStatistics:
    """Represent the counted results of a run of the text fuzzer.

    Attributes:
        first: Seed of the first text.
        passed: Number of texts that the verifier accepts.
        problems: Description of each undeclared error, by the seed of its text.
    """

    first: int
    cases: int = 0
    passed: int = 0
    elapsed: float = 0.0
    problems: dict[int, str] = field(default_factory=dict)

    def table(self) -> list[tuple[str, str]]:
        """Return the lines to print, each as a label and a value."""
        return [
            ("seed of the first text", str(self.first)),
            ("texts", str(self.cases)),
            ("that the verifier takes", str(self.passed)),
            ("errors that are none of ours", str(len(self.problems))),
            ("seconds", f"{self.elapsed:.0f}"),
        ]


def _serve(connection: Connection, judged: Judge) -> None:
    """Judge the seeds of each range that the connection receives; send a seed before, and its verdict after.

    So the parent knows which seed hung or killed the process.
    """
    os.environ["STACKGRAD_CACHE"] = "0"
    # A finding contains a text that LLVM refuses, so no crash report is needed.
    os.environ.setdefault("STACKGRAD_CRASH_DIR", os.devnull)
    connection.send(None)
    while True:
        try:
            first, last = connection.recv()
        except EOFError:
            return
        for seed in range(first, last):
            connection.send(seed)
            verdict = judged(seed)
            connection.send((verdict.passed, verdict.problem))
        connection.send(None)


class _WatchedProcess:
    """Watch a process that judges a range of seeds, and restart it if it dies or hangs."""

    def __init__(self, judged: Judge, hang: float) -> None:
        self.judged, self.hang = judged, hang
        self.rest = (0, 0)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.judged), daemon=True)
        self.process.start()
        other.close()
        self.begun: int | None = None
        self.ready = self.is_busy = False
        self.since = time.monotonic()

    def close(self) -> None:
        """End the watched process and close the connection to it."""
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def look(self) -> Iterator[tuple[int, bool, str]]:
        """Yield (seed, passed, problem) for each case that the process has ended since the previous call."""
        try:
            while self.connection.poll():
                yield from self._take(self.connection.recv())
        except (EOFError, OSError):
            self.process.join(5.0)
            yield from self._lost(f"the process died: exit status {self.process.exitcode}")
        if time.monotonic() - self.since > (self.hang if self.ready else _START):
            yield from self._lost(f"no answer within {self.hang:.0f} s")

    def _take(self, word: Any) -> Iterator[tuple[int, bool, str]]:
        self.since = time.monotonic()
        if isinstance(word, tuple):
            assert self.begun is not None
            seed, self.begun = self.begun, None
            yield seed, *word
        elif word is None:
            self.ready, self.is_busy = True, False
            # The rest of the range was left when the previous process ended.
            if self.rest[0] < self.rest[1]:
                self.give(self.rest)
        else:
            self.begun = word
            self.rest = word + 1, self.rest[1]

    def _lost(self, reason: str) -> Iterator[tuple[int, bool, str]]:
        if self.begun is None:
            raise RuntimeError(f"a process for texts cannot start: {reason}")
        seed = self.begun
        self.close()
        self._start()
        yield seed, False, reason

    @property
    def is_idle(self) -> bool:
        """Return True if the watched process is ready and judges no seeds at present."""
        return self.ready and not self.is_busy

    def give(self, seeds: tuple[int, int]) -> None:
        """Send a range of seeds to an idle process."""
        self.rest, self.is_busy, self.since = seeds, True, time.monotonic()
        self.connection.send(seeds)


def fuzz_texts(
    seed: int,
    cases: int | None,
    seconds: float | None = None,
    processes: int = 1,
    judged: Judge = judge,
    hang: float = HANG,
) -> TextStatistics:
    """Run cases `seed`, `seed + 1` and so on until their number or the time is used up.

    Args:
        seed: Seed of the first case.
        cases: Number of cases; None has no limit. At least one of cases and seconds must be given.
        seconds: Time for the run; None has no limit.
        processes: Number of processes.
        judged: Function that returns the verdicts.
        hang: Seconds after which a case counts as hung.
    """
    statistics, begin, following = TextStatistics(seed), time.monotonic(), seed
    end = None if cases is None else seed + cases
    workers = [_WatchedProcess(judged, hang) for _ in range(processes)]
    try:
        while True:
            late = seconds is not None and time.monotonic() - begin > seconds
            for worker in workers:
                if worker.is_idle and not late and (end is None or following < end):
                    last = following + _BATCH if end is None else min(following + _BATCH, end)
                    worker.give((following, last))
                    following = last
            if all(worker.is_idle for worker in workers):
                return statistics
            wait([worker.connection for worker in workers], timeout=0.2)
            for worker in workers:
                for which, passed, problem in worker.look() if not worker.is_idle else ():
                    _count(statistics, which, passed, problem)
            statistics.elapsed = time.monotonic() - begin
    finally:
        for worker in workers:
            worker.close()


def _count(statistics: TextStatistics, seed: int, passed: bool, problem: str) -> None:
    statistics.cases += 1
    statistics.passed += passed
    if problem:
        statistics.problems[seed] = problem
