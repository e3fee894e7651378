"""A process that runs cases, so that a case that crashes or hangs takes nothing with it but itself."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from ...backends import disk_cache
from ..apart import starting
from ..executors import backend_named
from ..model import Program
from ..mutants import MUTANTS
from ..peers import Peer
from ..strategies import sample as draw
from .case import Panel, run_case
from .guide import Choice, Reached, Sampler, choose
from .plan import BACKENDS, Plan, plan_for
from .result import Result
from .retry import settle


@dataclass(frozen=True)
class Setup:
    """What a worker needs to know. backends: by name, all of which can run here. sample: a program from a seed; a
    function of a module that the worker can import too. mutant: a mistake to plant in the worker's compiler, by name.
    peers: other systems by name, all installed. thorough: see `plan_for`. candidate: the program of every case, of
    those that it draws; None chooses, see `guide`.
    """

    backends: tuple[str, ...] = BACKENDS
    sample: Sampler = draw
    mutant: str = ""
    peers: tuple[str, ...] = ()
    thorough: bool = False
    candidate: int | None = None

    def choose(self, seed: int, reached: Reached) -> Choice:
        """The program of the case with this seed, in a track that has reached this."""
        return choose(self.sample, seed, reached, self.candidate)

    def plan(self, seed: int) -> Plan:
        """Of the case with this seed."""
        return plan_for(seed, self.backends, self.peers, self.thorough)


@dataclass(frozen=True)
class Job:
    """Either a seed, with what its track has reached, or a program with the plan of its case."""

    seed: int = 0
    program: Program | None = None
    plan: Plan = Plan()
    reached: Mapping[str, int] = field(default_factory=dict)


class Runner:
    """Runs jobs in this process."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        disk_cache.choose(enabled=False)  # no program comes again, and a planted mistake would
        peers = {name: Peer(name) for name in setup.peers}
        self.panel = Panel({name: backend_named(name) for name in setup.backends}, peers)

    def run(self, job: Job) -> Result:
        """The result of a job: a case that decides nothing for want of digits is run again in double precision."""
        if job.program is not None:
            return run_case(job.program, job.plan, self.panel)
        chosen = self.setup.choose(job.seed, job.reached)
        return replace(settle(chosen.program, self.setup.plan(job.seed), self.panel), shapes=chosen.shapes)


def _serve(connection: Connection, setup: Setup) -> None:
    """The process: answers jobs until the other end is closed. Nothing is kept on disk: no program comes twice, and a
    planted mistake must not find what was compiled without it.
    """
    os.environ["STACKGRAD_CACHE"] = "0"
    runner = Runner(setup)
    with MUTANTS[setup.mutant].planted() if setup.mutant else nullcontext():
        connection.send(READY)
        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            connection.send(runner.run(job))


READY = "ready"
"""What a new process says when it has imported everything."""

START = 120.0
"""Seconds that it may take for that."""


@dataclass(frozen=True)
class Crash:
    """A job that has no result. reason: how its process ended, or that it hung."""

    job: Job
    reason: str


Execute = Callable[[Job], Result | Crash]
"""Runs a job: in this process, or in one of its own if it may crash."""


class Worker:
    """Another process, started again when it dies. limit: seconds after which a job counts as hung."""

    def __init__(self, setup: Setup, limit: float) -> None:
        self.setup = setup
        self.limit = limit
        self.job: Job | None = None
        self._since = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.setup), daemon=True)
        with starting():  # in the folder of a stranger, maybe
            self._process.start()
        other.close()
        self._ready = False

    def give(self, job: Job) -> None:
        """Start a job; the worker is idle."""
        assert self.job is None
        self.job, self._since = job, time.monotonic()
        self.connection.send(job)

    def poll(self) -> Result | Crash | None:
        """What became of the job, or None if it is still running."""
        assert self.job is not None
        try:
            if self.connection.poll():
                return self._received(self.connection.recv())
        except (EOFError, OSError):
            if not self._ready:  # not the case's fault: the next process would not start either
                raise RuntimeError(f"a process for cases cannot start: {self._ending()}") from None
            return self._crashed(f"the process died: {self._ending()}")
        if time.monotonic() - self._since > (self.limit if self._ready else START):
            return self._crashed(f"no answer within {self.limit:.0f} s")
        return None

    def _received(self, found: Any) -> Result | None:
        """A result; None for the word that the process is ready, from when on the job counts as running."""
        if found == READY:
            self._ready, self._since = True, time.monotonic()
            return None
        self.job = None
        result: Result = found
        return result

    def run(self, job: Job) -> Result | Crash:
        """A job from start to end."""
        self.give(job)
        while (found := self.poll()) is None:
            self.connection.poll(0.2)
        return found

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _ending(self) -> str:
        self._process.join(5.0)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def _crashed(self, reason: str) -> Crash:
        job, self.job = self.job, None
        assert job is not None
        self.close()
        self._start()
        return Crash(job, reason)
