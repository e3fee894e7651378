"""Run `stackgrad fuzz --peers`: find and reduce wrong gradients of other systems, and write scripts that show them."""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path

from ..harness.tools.findings.families import Family, lines_of
from ..harness.tools.findings.hunt import Hunt, hunt
from ..harness.tools.findings.store import WrittenFamily, write
from ..harness.tools.fuzz.statistics import Finding
from ..harness.tools.model.source import definitions
from ..harness.tools.peers import PEERS, PYTHON, Peer
from . import CommandError
from .live import Status


def wanted_peers(text: str | None) -> tuple[str, ...]:
    """Return the peers named in a comma-separated text. Raise CommandError if one is unknown or not installed."""
    names = tuple(n.strip() for n in (text or "").split(",") if n.strip())
    for name in names:
        if name not in PEERS:
            raise CommandError(f"there is no peer {name!r}; known: {', '.join(PEERS)}")
        if absent := Peer(name).absent:
            raise CommandError(absent)
    return names


def choose_python(path: str | None) -> None:
    """Set the Python interpreter that runs peers, in this process and in the processes that it starts."""
    if path is not None:
        os.environ[PYTHON] = path


def run_hunt(given: argparse.Namespace, peers: tuple[str, ...], backends: tuple[str, ...], seconds: float) -> Hunt:
    """Search for wrong gradients of peers, print them, and write scripts that show them if `--findings` is set.

    Args:
        given: The arguments of the command.
        peers: The peers.
        backends: The backends that judge them.
        seconds: Seconds of the hunt.
    """
    seed = random.SystemRandom().randrange(1 << 40) if given.seed is None else given.seed
    with Status() as status:
        found = hunt(seconds, peers, seed, backends, given.cases, lambda h: status.show(h.statistics))
    print(summary(found))
    for family in found.families.known.values():
        print(described(family))
    for finding in found.unsure:
        print(f"\nUNCERTAIN: {_kernel(finding, peers[0])}")
    if given.findings is not None:
        for written in write(Path(given.findings), found.families.wrong_gradients):
            print(_kept(written))
    return found


def summary(found: Hunt) -> str:
    """Return a text on a search for faults in peers: kernels run, results by peer, findings."""
    s = found.statistics
    over = f"{found.passed_over} more passed over: what they would show was known"
    rows = [f"seed {s.seed}: {s.cases} kernels in {s.elapsed:.0f} s; {over}"]
    for name, counts in found.counts.items():
        ends = ", ".join(f"{n} {kind}" for kind, n in counts.ends.most_common())
        rows.append(
            f"{name}: wrong on {counts.wrong} of {counts.given} kernels whose gradient it gives; "
            f"{counts.verdicts['unsupported']} refused{f'; ended: {ends}' if ends else ''}"
        )
    wrong = found.families.wrong_gradients
    rows.append(
        f"made small: {found.reduced}, {len(found.unsure)} of them uncertain; {len(found.pending)} left; "
        f"{len(wrong)} families of wrong gradients, {len(found.families.known) - len(wrong)} others"
    )
    return "\n".join(rows)


def described(family: Family) -> str:
    """Return a text on a family, a group of findings with one cause: its count, reason and smallest program."""
    finding = family.finding
    failed = next((j.reason for j in finding.judged if j.verdict == "disagree"), finding.crash)
    title = f"FOUND {family.count} times: {family.signature.title}"
    where = f"{lines_of(finding.program)} lines, seed {finding.seed}: {failed.splitlines()[0][:200]}"
    return f"\n{title}\n    {where}\n    {_kernel(finding, family.signature.peer)}"


def _kernel(finding: Finding, peer: str) -> str:
    """Return the program of a finding as the peer's source text."""
    return definitions(finding.program, peer).strip().replace("\n", "\n    ")


def _kept(written: WrittenFamily) -> str:
    """Return a line with the path of a script that shows a finding, and the last line of its output."""
    return f"{written.path}: confirmed, {written.said.splitlines()[-1]}"
