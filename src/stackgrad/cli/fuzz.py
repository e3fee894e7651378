"""Run the commands `fuzz`, `replay`, `reduce` and `bisect`, which compare executors on random programs.

The commands find a program on which executors disagree, store and repeat it, shrink it, and locate the statement or
pass at which the executors first differ.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..backends.registry import UnknownBackend
from ..compiler.errors import StackgradError
from ..harness.testing.executors import JUDGED, backend_by_name, present_backends
from ..harness.tools.fuzz import corpus
from ..harness.tools.fuzz.bisect import Bisector, name_of
from ..harness.tools.fuzz.case import FuzzPanel
from ..harness.tools.fuzz.guide import CANDIDATES
from ..harness.tools.fuzz.loop import HANG, fuzz
from ..harness.tools.fuzz.plan import BACKENDS
from ..harness.tools.fuzz.reduce import distinct, reduce
from ..harness.tools.fuzz.replay import replay
from ..harness.tools.fuzz.statistics import Finding, Statistics
from ..harness.tools.fuzz.worker import CaseProcess, WorkerSetup
from ..harness.tools.model.source import definitions
from ..harness.tools.mutants import MUTANTS
from ..harness.tools.plain_data import without_controls
from ..harness.tools.strategies import sample as draw
from . import CommandError, check_folder
from .live import Status
from .peers import choose_python, run_hunt, wanted_peers

DEFAULT_SECONDS = 60.0
"""Seconds that a run takes unless told otherwise."""
INTERRUPTED = 130
"""Exit status of a run that the user ended."""
REDUCE_SECONDS = 30.0
"""Maximum of seconds for making a finding small."""

MOST_REDUCED = 10
"""Number of findings of one run that are made small; further ones are only counted."""


def run(given: argparse.Namespace) -> int:
    """Run the fuzzer: compare executors on random programs. Return 1 if they disagree on a case, else 0."""
    if given.coverage and (given.ir_text or given.mutants is not None or given.peers):
        raise CommandError("--coverage counts features of plain runs: not with --ir-text, --mutants or --peers")
    if given.ir_text:
        from .fuzz_texts import run as run_texts

        return run_texts(given)
    if given.mutants is not None:
        return _hunt_mutants(given)
    backends = wanted_backends(given.backends)
    if given.spirv_val:
        backends = judged_backends(backends)
    choose_python(given.peer_python)
    peers = wanted_peers(given.peers)
    root = Path(given.corpus)
    check_folder(root, "--corpus")
    if given.findings:
        check_folder(Path(given.findings), "--findings")
    failed = replay_all([root], backends) if root.exists() else 0
    status = _fuzz_peers(given, peers, backends, root) if peers else _fuzz(given, backends, root)
    return 1 if failed else status


def _hunt_mutants(given: argparse.Namespace) -> int:
    """Run `fuzz --mutants`: measure if the fuzzer finds each planted mistake. Return the exit status."""
    from .mutants import hunt

    backends = wanted_backends(given.backends or ",".join(BACKENDS))
    seconds = DEFAULT_SECONDS if given.seconds is None else given.seconds
    return hunt(given.mutants, seconds, given.cases, given.seed or 0, backends, given.processes)


def _fuzz_peers(given: argparse.Namespace, peers: tuple[str, ...], backends: tuple[str, ...], root: Path) -> int:
    """Run `fuzz --peers`: compare stackgrad with other systems on random kernels. Return the exit status."""
    hunted = run_hunt(given, peers, backends, given.seconds or DEFAULT_SECONDS)
    findings = hunted.statistics.findings
    for finding in distinct_findings(findings, backends):
        report(finding, keep(root, finding))
    return 1 if findings or hunted.families.known else 0


def _fuzz(given: argparse.Namespace, backends: tuple[str, ...], root: Path) -> int:
    """Run `fuzz` without peers or mutants: compare executors on random programs. Return the exit status."""
    cases = _cases(given)
    seconds = DEFAULT_SECONDS if given.seconds is None and cases is None else given.seconds
    with Status() as status:
        sample = partial(draw, profile=given.profile)
        found = fuzz(
            seconds,
            cases,
            given.seed,
            backends,
            given.processes,
            sample,
            progress=status.show,
            thorough=given.thorough,
            candidate=given.candidate,
            keep_interrupted=True,
        )
    print(table(found))
    if given.coverage:
        print(f"\n{found.coverage.text()}")
    if found.interrupted:
        print("interrupted; Ctrl-C again leaves what was found as it is, without a smaller program", file=sys.stderr)
    for finding in distinct_findings(found.findings, backends):
        report(finding, keep(root, finding), _again(finding, given, backends))
    if found.findings:
        return 1
    return INTERRUPTED if found.interrupted else 0


def _cases(given: argparse.Namespace) -> int | None:
    """Return the number of cases to run, or None for no limit. Raise CommandError if `--candidate` is misused."""
    if given.candidate is None:
        return given.cases  # type: ignore[no-any-return]
    if given.seed is None or given.cases not in (None, 1) or given.peers or given.mutants is not None:
        raise CommandError("--candidate K is the program of one case: --seed S names that, and no other option may")
    if given.candidate not in range(CANDIDATES):
        raise CommandError(f"--candidate {given.candidate}: a case draws {CANDIDATES} programs, from 0")
    return 1


def _again(finding: Finding, given: argparse.Namespace, backends: tuple[str, ...]) -> str:
    """Return the shell command that runs the case of a finding again."""
    options = [f"--backends {','.join(backends)}"]
    options += [f"--profile {given.profile}"] * bool(given.profile) + ["--thorough"] * given.thorough
    return f"stackgrad fuzz --seed {finding.seed} --candidate {finding.candidate} {' '.join(options)}"


def wanted_backends(text: str | None) -> tuple[str, ...]:
    """Return the named backends, or all that can run here. Raise CommandError if one cannot run."""
    names = None if text is None else [n.strip() for n in text.split(",") if n.strip()]
    try:
        executors, absent = present_backends(names, variants=True)
    except UnknownBackend as error:
        raise CommandError(str(error)) from None
    if names is not None and absent:
        raise CommandError("; ".join(f"{name} cannot run here: {why}" for name, why in absent.items()))
    return tuple(e.name for e in executors)


def judged_backends(backends: tuple[str, ...]) -> tuple[str, ...]:
    """Return the backends with Vulkan replaced by a variant that passes every SPIR-V module to spirv-val.

    Raise CommandError if spirv-val is not installed, or Vulkan is not among the backends.
    """
    from ..harness.testing.judged_vulkan import CURE, VALIDATOR

    if shutil.which(VALIDATOR) is None:
        raise CommandError(f"{VALIDATOR} is not installed; cure: {CURE}")
    if "vulkan" not in backends and JUDGED not in backends:
        raise CommandError("--spirv-val judges the modules of the backend vulkan, which is not among those that run")
    return tuple(dict.fromkeys(JUDGED if name == "vulkan" else name for name in backends))


def distinct_findings(
    findings: Sequence[Finding], backends: tuple[str, ...], mutant: str = "", seconds: float = REDUCE_SECONDS
) -> list[Finding]:
    """Return reduced findings, with duplicates of the same mistake removed where they can be recognized.

    Args:
        findings: The findings.
        backends: The backends on which they were found.
        mutant: The mutant that was planted when they were found, or an empty text.
        seconds: Maximum of seconds for each finding.
    """
    if not findings:
        return []
    for finding in findings:  # All titles are printed, even where only one finding of a mistake is kept.
        print(f"{finding.case}: {finding.title}")
    print(f"reducing {min(len(findings), MOST_REDUCED)} of {len(findings)} findings", flush=True)
    with CaseProcess(WorkerSetup(backends, mutant=mutant), HANG) as worker:
        small = [reduce(f, worker.run, seconds) for f in findings[:MOST_REDUCED]]
    with MUTANTS[mutant].planted() if mutant else nullcontext():
        panel = panel_of(backends)
        return distinct(small, lambda finding: name_of(finding, panel))


@contextmanager
def command_errors(what: str) -> Iterator[None]:
    """Convert exceptions that are raised inside the `with` block to a CommandError.

    Args:
        what: The text that begins the message.
    """
    try:
        yield
    except (StackgradError, CommandError):
        raise
    except Exception as error:
        said = without_controls(str(error)).splitlines()[:1]
        raise CommandError(": ".join([what, type(error).__name__, *said])) from None


def keep(root: Path, finding: Finding) -> Path:
    """Write a finding into a corpus and return its folder; raise CommandError if this is impossible."""
    try:
        return corpus.write(root, finding)
    except OSError as error:
        raise CommandError(f"a finding cannot be kept in {root}: {error.strerror}") from None


def panel_of(backends: tuple[str, ...]) -> FuzzPanel:
    """Return a panel of executors with the named backends, all running in this process."""
    return FuzzPanel({name: backend_by_name(name) for name in backends})


def report(finding: Finding, folder: Path, again: str = "") -> None:
    """Print the title, the folder and the program of a finding, and the command that repeats its case.

    Args:
        finding: The finding.
        folder: Where it is kept.
        again: The command that runs its case again, or an empty text.
    """
    case = "" if finding.seed is None else f"{finding.case}, "
    print(f"\nFOUND: {finding.title}\n    {case}kept in {folder}" + (f"\n    again: {again}" if again else ""))
    print("    " + definitions(finding.program).strip().replace("\n", "\n    "))


def table(found: Statistics) -> str:
    """Return the statistics of a run as a table of two columns."""
    rows = found.table()
    width = max(len(what) for what, _ in rows)
    return "\n".join(f"{what.ljust(width)}  {much}" for what, much in rows)


# ---- replay, reduce -----------------------------------------------------------------------------------------


def run_replay(given: argparse.Namespace) -> int:
    """Run all entries of a corpus again. Return 1 if an entry fails, else 0."""
    return 1 if replay_all([Path(d) for d in given.folders], wanted_backends(given.backends), loud=True) else 0


def replay_all(roots: Sequence[Path], backends: tuple[str, ...], loud: bool = False) -> int:
    """Run the entries of a corpus again and print those that fail. Return the number of failures.

    Args:
        roots: Entries, or folders of entries.
        backends: The backends to compare.
        loud: True to print the entries that pass, too, and to raise an error for a folder without entries.
    """
    failed = count = 0
    try:
        with CaseProcess(WorkerSetup(backends), HANG) as worker:
            for entry, finding in replay(roots, backends, worker.run):
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
    """Shrink the program on which a corpus entry fails, and store it. Return 0 if the entry passes, else 1."""
    finding = _failing(given)
    if finding is None:
        return 0
    with command_errors(f"{given.folder} cannot be made smaller"):
        small = distinct_findings([finding], finding.plan.backends)[0]
    report(small, keep(Path(given.folder).parent, small))
    return 1


def run_bisect(given: argparse.Namespace) -> int:
    """Print the first statement or pass at which the executors of a corpus entry differ. Return the exit status.

    Return 0 if the entry passes, else 1.
    """
    finding = _failing(given)
    if finding is None:
        return 0
    key = corpus.failed_key(finding.judged)
    if key is None:
        raise CommandError(f"the process died ({finding.crash}): there are no values to compare", 1)
    print(finding.title)
    with command_errors(f"{given.folder} cannot be bisected"):
        bisector = Bisector(finding.program, finding.plan, key, panel_of(finding.plan.backends))
        found = [bisector.statement()] + ([bisector.first_pass()] if given.passes else [])
    for suspect in found:
        print(suspect or "nothing found: the executors agree when they are watched")
    return 1


def _failing(given: argparse.Namespace) -> Finding | None:
    """Return the finding on which a corpus entry fails now. If the entry passes, print a line and return None."""
    folder, backends = Path(given.folder), wanted_backends(given.backends)
    try:
        with CaseProcess(WorkerSetup(backends), HANG) as worker:
            found = [finding for _, finding in replay([folder], backends, worker.run)]
    except ValueError as error:
        raise CommandError(str(error)) from None
    if len(found) != 1:
        raise CommandError(f"{folder} holds {len(found)} entries, this command takes one")
    if found[0] is None:
        print(f"{folder} passes")
        return None
    return replace(found[0], plan=replace(found[0].plan, backends=backends))
