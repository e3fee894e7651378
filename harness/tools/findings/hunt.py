"""This module hunts for faults in peers: it draws programs, runs peers, and reduces failures while the search goes on.

Two activities run at a time, each with its own processes: the thread of the caller draws and asks, another thread
reduces findings. Once a family is known, programs that have all its traits are mostly set aside, so that the time goes
to what is not known yet. For the same reason findings that show a known family are mostly not reduced, and programs for
which a peer is not expected to return a gradient are mostly not asked.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ....compiler.ir.types import f64
from ..fuzz.corpus import failed_key
from ..fuzz.loop import HANG
from ..fuzz.plan import FuzzPlan
from ..fuzz.reduce import program_size, reduce, sign_of_judged
from ..fuzz.result import CaseResult, JudgedComparison
from ..fuzz.statistics import Finding, Statistics
from ..fuzz.worker import CaseProcess, Crash, Execute, Job, WorkerSetup
from ..model import Program
from ..strategies.draw import RandomChooser
from .draw import sample_for_peers, stores_once, to_double
from .evidence import evidence, is_certain
from .families import LINES, Families, Family, lines_of, signature_of
from .traits import traits

BUDGET = 90.0
"""Seconds in which a finding is reduced; a finding that is still too long then waits for another turn."""

AGAIN = 0.1
"""Share of programs that run, and of findings reduced, although they have all traits of a known family.

It is also the share of programs asked with traits for which the peer returned no gradient so far.
"""

NEVER = 10
"""Number of programs without a gradient that share two traits, after which a peer is expected to give none."""

MOST_PENDING = 200
"""Largest number of findings that wait; further findings are counted and dropped."""

IDLE = 0.5
"""Seconds until the next search for a finding to reduce, if none waits."""

CANDIDATES = 4
"""Number of programs of which the most unusual one is run."""

Progress = Callable[["Hunt"], None]
Sample = Callable[[int, tuple[str, ...]], Program]


@dataclass
class PeerCounts:
    """Represent the counts for one peer: kernels, verdicts, exceptions, and pairs of traits that it supports.

    Attributes:
        asked: the number of kernels.
        verdicts: the verdicts on their gradients.
        ends: the kinds of exceptions that ended gradients.
        without: for pairs of traits, how many kernels got no gradient so far; 0 once a gradient was returned.
        judged: for the traits of kernels with a gradient, and True if it was wrong, the number of kernels.
    """

    asked: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    without: dict[frozenset[str], int] = field(default_factory=dict)
    judged: Counter[tuple[frozenset[str], bool]] = field(default_factory=Counter)

    def learn(self, pairs: list[frozenset[str]], gave: bool) -> None:
        """Record, for each pair of traits that a kernel has, whether the peer returned a gradient of the kernel."""
        for pair in pairs:
            # 0 is final: a gradient that was returned once shows that the peer knows these traits.
            known = self.without.get(pair, 1)
            self.without[pair] = 0 if gave or not known else self.without.get(pair, 0) + 1

    def gives(self, pairs: list[frozenset[str]]) -> bool:
        """Return False if many kernels that share one of these pairs of traits got no gradient from the peer."""
        return all(self.without.get(pair, 0) < NEVER for pair in pairs)

    def foretell(self, found: frozenset[str]) -> bool:
        """Return True if at least half of the judged gradients of kernels with all traits in `found` were wrong.

        Traits that most kernels have say little about the reason of a failure.
        """
        wrong, right = (sum(n for (t, w), n in self.judged.items() if found <= t and w == way) for way in (True, False))
        return wrong >= right

    @property
    def wrong(self) -> int:
        """Return the number of gradients of the peer that were judged to be wrong numbers."""
        return self.verdicts["wrong"]

    @property
    def given(self) -> int:
        """Return the number of gradients that could be judged right or wrong."""
        return self.wrong + self.verdicts["ok"]


@dataclass
class Hunt:
    """Represent a search for faults in peers: cases run so far, families found, findings to be reduced.

    Attributes:
        peers: the names of the peers.
        statistics: the counted results of all cases run so far.
        families: the families of the findings reduced so far.
        counts: what is known about each peer.
        pending: findings that wait to be reduced.
        met: pairs of traits of the programs asked.
        passed_over: the number of programs not asked, because they show nothing new.
        reduced: the number of findings that were reduced.
        unsure: findings for which it is not certain that the peer is wrong.
        lock: guards what both threads use.
    """

    peers: tuple[str, ...]
    statistics: Statistics
    families: Families = field(default_factory=Families)
    counts: dict[str, PeerCounts] = field(default_factory=dict)
    pending: list[Finding] = field(default_factory=list)
    met: Counter[frozenset[str]] = field(default_factory=Counter)
    passed_over: int = 0
    reduced: int = 0
    unsure: list[Finding] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def chosen(self, seed: int, sample: Sample) -> tuple[int, Program, tuple[str, ...]]:
        """Return the next program, with its seed and the peers that are to differentiate it.

        It is the program whose traits were met least among CANDIDATES programs from this seed on.
        """
        drawn = [(seed + k, sample(seed + k, self.peers)) for k in range(CANDIDATES)]
        pairs = {s: _pairs(traits(program)) for s, program in drawn}
        # A pair of traits is worth less the more often it was met.
        worth = {s: sum(1 / (1 + self.met[pair]) for pair in pairs[s]) for s, _ in drawn}
        best, program = max(drawn, key=lambda d: worth[d[0]])
        wanted = self._wanted(program, RandomChooser(f"again {seed}"))
        if wanted:
            self.met.update(pairs[best])
        return best, program, wanted

    def _wanted(self, program: Program, source: RandomChooser) -> tuple[str, ...]:
        """Return the peers in which a program may show an unknown fault, and a random choice of other peers."""
        pairs = _pairs(traits(program))
        with self.lock:
            known = {p for p in self.peers if self._covered(p, program) or not self.counts[p].gives(pairs)}
        return tuple(p for p in self.peers if p not in known or source.boolean(AGAIN))

    def _covered(self, peer: str, program: Program) -> bool:
        return self.families.covers(peer, program, self.counts.get(peer, PeerCounts()).foretell)

    def count(self, program: Program, judged: tuple[JudgedComparison, ...]) -> None:
        """Count the verdicts of the peers on the gradient of a program."""
        pairs = _pairs(traits(program))
        for j in judged:
            if j.executor in self.peers and j.direction == "reverse":
                counts = self.counts[j.executor]
                counts.asked += 1
                way = sign_of_judged([j])[-1] if j.verdict == "disagree" else ""
                found = "wrong" if way == "value" else "ended" if way else j.verdict
                counts.verdicts[found] += 1
                counts.learn(pairs, found not in ("ended", "unsupported"))
                if found in ("wrong", "ok"):
                    counts.judged[traits(program), found == "wrong"] += 1
                counts.ends.update([way] if way not in ("", "value") else [])

    def enter(self, finding: Finding) -> None:
        """Queue each failure of a peer for reduction, and add any other failure to the findings of the run."""
        failed = [j for j in finding.judged if j.verdict == "disagree"]
        for j in failed:
            if j.executor in self.peers:
                alone = replace(finding, judged=(j,), plan=replace(finding.plan, peers=(j.executor,)))
                with self.lock:
                    if len(self.pending) < MOST_PENDING:
                        self.pending.append(alone)
        if finding.crash or any(j.executor not in self.peers for j in failed):
            self.statistics.findings.append(finding)

    def next(self) -> Finding | None:
        """Remove the most urgent finding from the queue and return it, or return None if the queue is empty.

        Wrong gradients come before other failures, small programs first; a few findings of known families come last.
        """
        with self.lock:
            new = [f for f in self.pending if not self._known(f)]
            new = new or [f for f in self.pending if RandomChooser(f"small {f.seed}").boolean(AGAIN)]
            if not new:
                return None
            chosen = min(new, key=_urgency)
            self.pending.remove(chosen)
            return chosen

    def _known(self, finding: Finding) -> bool:
        """Return True if a finding is expected to belong, once reduced, to a known family."""
        signature = signature_of(finding)
        if signature is None:
            return True
        if not signature.is_wrong_gradient:
            return any((s.peer, s.way) == (signature.peer, signature.way) for s in self.families.known)
        return self._covered(signature.peer, finding.program)


def _urgency(finding: Finding) -> tuple[bool, tuple[float, ...]]:
    """Return a sort key of a finding; the finding with the smallest key is reduced first."""
    signature = signature_of(finding)
    return signature is None or not signature.is_wrong_gradient, program_size(finding.program)


def _pairs(found: frozenset[str]) -> list[frozenset[str]]:
    """Return all sets of one or of two of the given traits."""
    return [frozenset({a, b}) for a in found for b in found if a <= b]


def hunt(
    seconds: float,
    peers: tuple[str, ...],
    seed: int = 0,
    backends: tuple[str, ...] = ("cpu",),
    cases: int | None = None,
    progress: Progress = lambda found: None,
    sample: Sample = sample_for_peers,
) -> Hunt:
    """Draw programs, run peers on them, and reduce failures, for some seconds or cases.

    Findings that still wait at the end are left.

    Args:
        seconds: the time limit.
        peers: the names of the peers.
        seed: the first seed.
        backends: the backends to compare with.
        cases: the number of cases at which to stop, or None.
        progress: is called after each case.
        sample: draws a program from a seed.
    """
    found = Hunt(peers, Statistics(seed), counts={name: PeerCounts() for name in peers})
    begin = time.monotonic()
    ended = threading.Event()
    reducer = threading.Thread(target=_reduce_all, args=(found, begin + seconds, ended, WorkerSetup((), peers=peers)))
    reducer.start()
    try:
        with CaseProcess(WorkerSetup(backends, peers=peers), HANG) as worker:
            while time.monotonic() - begin < seconds and (cases is None or found.statistics.cases < cases):
                _case(found, worker, seed, backends, sample)
                found.statistics.elapsed = time.monotonic() - begin
                seed += CANDIDATES
                progress(found)
    finally:
        ended.set()
        reducer.join()
    found.statistics.elapsed = time.monotonic() - begin
    return found


def _case(found: Hunt, worker: CaseProcess, seed: int, backends: tuple[str, ...], sample: Sample) -> None:
    seed, program, wanted = found.chosen(seed, sample)
    if not wanted:
        found.passed_over += 1
        return
    plan = plan_for_peers(backends, wanted)
    result = worker.run(Job(seed, program, plan))
    if isinstance(result, Crash):
        found.statistics.crashes += 1
        found.enter(Finding(program, plan, (), result.reason, seed))
        return
    found.statistics.add(result)
    found.count(program, result.judged)
    if result.disagreements:
        found.enter(Finding(program, plan, result.judged, "", seed))


def plan_for_peers(backends: tuple[str, ...], peers: tuple[str, ...]) -> FuzzPlan:
    """Return the cheapest plan that compares peers with backends and dual numbers."""
    return FuzzPlan(
        backends,
        text=False,
        counts=False,
        forward=False,
        classic=False,
        effort=0,
        twins=False,
        tangents=False,
        masked=False,
        again=False,
        policy="",
        peers=peers,
    )


# ---- making small -----------------------------------------------------------------------------------------------


def _reduce_all(found: Hunt, deadline: float, ended: threading.Event, setup: WorkerSetup) -> None:
    """Reduce queued findings in a second thread until the deadline, even after the search has ended."""
    with CaseProcess(setup, HANG) as worker:
        while time.monotonic() < deadline:
            finding = found.next()
            if finding is None:
                if ended.is_set():
                    return
                ended.wait(IDLE)
                continue
            small = small_finding(finding, worker.run, min(BUDGET, deadline - time.monotonic()))
            if small is not None and _worth_more(finding, small) and time.monotonic() < deadline:
                found.enter(small)
            elif small is not None:
                _enter_small(found, small)


def _worth_more(finding: Finding, small: Finding) -> bool:
    """Return True if a reduced finding became smaller but is still longer than LINES lines."""
    return lines_of(small.program) > LINES and program_size(small.program) < program_size(finding.program)


def _enter_small(found: Hunt, small: Finding) -> Family | None:
    signature = signature_of(small)
    sure = signature is not None and (not signature.is_wrong_gradient or evidence(small.program) is not None)
    with found.lock:
        found.reduced += 1
        if sure:
            return found.families.add(small)
        found.unsure.append(small)
        return None


@dataclass
class _CertainFilter:
    """Accept all programs until one has a gradient that is certain, then only programs with a certain gradient."""

    reached: bool = False

    def __call__(self, program: Program) -> bool:
        certain = is_certain(program)
        if self.reached and not certain:
            return False
        self.reached |= certain
        return True


def small_finding(finding: Finding, execute: Execute, seconds: float) -> Finding | None:
    """Return the reduced form of a finding in one peer, or None if the program does not fail again.

    As far as the failure stays the same, the program is in double precision and has fields in place of arguments.
    """
    key = failed_key(finding.judged)
    if key is None:
        return None
    sign = sign_of_judged(finding.judged)
    plan = finding.plan.narrowed(key)

    def ask(job: Job) -> CaseResult | Crash:
        """Execute a job, unless its program stores an element twice; peers promise nothing about such programs."""
        assert job.program is not None
        return execute(job) if stores_once(job.program) else CaseResult(())

    def fails(program: Program) -> bool:
        result = ask(Job(0, program, plan))
        return not isinstance(result, Crash) and sign_of_judged(result.judged) == sign

    wide = to_double(finding.program)
    if wide.default_fp == f64 and fails(wide):
        finding = replace(finding, program=wide)
    elif not fails(finding.program):
        return None
    small = reduce(replace(finding, plan=plan), ask, seconds, _CertainFilter() if key[0] == "reverse" else bool)
    plainer = replace(small.program, fields=tuple(replace(f, argument=False) for f in small.program.fields))
    return replace(small, program=plainer) if plainer != small.program and fails(plainer) else small
