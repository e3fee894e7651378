"""Run cases in a separate process, so that a crash or hang of one case ends only this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from ....backends import disk_cache
from ...testing.executors import backend_by_name
from ..isolated_python import protect_imports
from ..model import Program
from ..mutants import MUTANTS
from ..peers import Peer
from ..strategies import sample as draw
from .case import FuzzPanel, run_case
from .guide import GuidedChoice, Reached, Sampler, choose
from .plan import BACKENDS, FuzzPlan, plan_for
from .result import CaseResult
from .retry import run_until_decided


@dataclass(frozen=True)
class WorkerSetup:
    """Represent the settings of a worker process: backends, peers, generator of programs, and planted mutant.

    Attributes:
        backends: Names of backends that can run on this machine.
        sample: Function from a seed to a program, of a module that the worker can import.
        mutant: Name of a mistake to plant in the worker's compiler, or empty.
        peers: Names of installed peers.
        thorough: True if backends run the gradient of every case (see `plan_for`).
        candidate: Number of the candidate program of every case; None lets `guide` choose.
    """

    backends: tuple[str, ...] = BACKENDS
    sample: Sampler = draw
    mutant: str = ""
    peers: tuple[str, ...] = ()
    thorough: bool = False
    candidate: int | None = None

    def choose(self, seed: int, reached: Reached) -> GuidedChoice:
        """Return the program of a case, chosen by seed and by the property counts of earlier cases."""
        return choose(self.sample, seed, reached, self.candidate)

    def plan(self, seed: int) -> FuzzPlan:
        """Return the plan of the case with this seed."""
        return plan_for(seed, self.backends, self.peers, self.thorough)


@dataclass(frozen=True)
class Job:
    """Represent a case to run: a seed for drawing a program, or a given program with its plan."""

    seed: int = 0
    program: Program | None = None
    plan: FuzzPlan = FuzzPlan()
    reached: Mapping[str, int] = field(default_factory=dict)


class CaseRunner:
    """Run the fuzzer's jobs in this process, on one panel of executors."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.setup = setup
        # Programs never repeat, and code with a planted mistake must not be found in a later run.
        disk_cache.choose_cache(enabled=False)
        peers = {name: Peer(name) for name in setup.peers}
        self.panel = FuzzPanel({name: backend_by_name(name) for name in setup.backends}, peers)

    def run(self, job: Job) -> CaseResult:
        """Return the result of a job; a case drawn from a seed runs again in double precision if it is undecided."""
        if job.program is not None:
            return run_case(job.program, job.plan, self.panel)
        chosen = self.setup.choose(job.seed, job.reached)
        return replace(run_until_decided(chosen.program, self.setup.plan(job.seed), self.panel), shapes=chosen.shapes)


def _serve(connection: Connection, setup: WorkerSetup) -> None:
    """Run jobs received by a connection and send their results, until the connection is closed.

    Nothing is cached on disk: no program comes twice, and a planted mistake must not find code that was compiled
    without it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    os.environ["STACKGRAD_CACHE"] = "0"
    runner = CaseRunner(setup)
    with MUTANTS[setup.mutant].planted() if setup.mutant else nullcontext():
        connection.send(READY)
        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            connection.send(runner.run(job))


READY = "ready"
"""Message of a new process after it has imported everything."""

START = 120.0
"""Seconds that a new process may take until it is ready."""


@dataclass(frozen=True)
class Crash:
    """Represent a job without a result, because its process crashed or hung.

    Attributes:
        reason: How its process ended, or that it hung.
    """

    job: Job
    reason: str


Execute = Callable[[Job], CaseResult | Crash]
"""A function that runs a job, in this process or in another process if the job may crash."""


class CaseProcess:
    """Run jobs in another process, which is started again if it dies.

    A job counts as hung after `limit` seconds.
    """

    def __init__(self, setup: WorkerSetup, limit: float) -> None:
        self.setup = setup
        self.limit = limit
        self.job: Job | None = None
        self._since = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.setup), daemon=True)
        # The current folder may belong to an untrusted author, whose modules must not be imported.
        with protect_imports():
            self._process.start()
        other.close()
        self._ready = False

    def give(self, job: Job) -> None:
        """Send a job to the worker process, which must be idle."""
        assert self.job is None
        self.job, self._since = job, time.monotonic()
        self.connection.send(job)

    def poll(self) -> CaseResult | Crash | None:
        """Return the result of the job, or None if it is still running."""
        assert self.job is not None
        try:
            if self.connection.poll():
                return self._received(self.connection.recv())
        except (EOFError, OSError):
            # The case is not at fault, and the next process would not start either.
            if not self._ready:
                raise RuntimeError(f"a process for cases cannot start: {self._ending()}") from None
            return self._crashed(f"the process died: {self._ending()}")
        if time.monotonic() - self._since > (self.limit if self._ready else START):
            return self._crashed(f"no answer within {self.limit:.0f} s")
        return None

    def _received(self, found: Any) -> CaseResult | None:
        """Return the result in a message from the worker; None if the message only says that the worker is ready."""
        if found == READY:
            self._ready, self._since = True, time.monotonic()
            return None
        self.job = None
        result: CaseResult = found
        return result

    def run(self, job: Job) -> CaseResult | Crash:
        """Run a job from start to end and return its result."""
        self.give(job)
        while (found := self.poll()) is None:
            self.connection.poll(0.2)
        return found

    def __enter__(self) -> CaseProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker process."""
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
