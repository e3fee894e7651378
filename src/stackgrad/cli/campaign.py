"""Run `stackgrad campaign` and `stackgrad report`: fuzz in units that can be resumed, and report the results."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from ..backends.folders import write_beside
from ..backends.registry import UnknownBackend
from ..harness.testing.executors import present_backends
from ..harness.tools.campaign.page import environment, page
from ..harness.tools.campaign.plain_results import total
from ..harness.tools.campaign.report import report
from ..harness.tools.campaign.reproducers import reproducers
from ..harness.tools.campaign.run import ClusterPool, ProcessPool, WorkerPool, run
from ..harness.tools.campaign.spec import CampaignSpec
from ..harness.tools.campaign.store import SPEC, CampaignStore
from ..harness.tools.campaign.unit import UnitError
from ..harness.tools.mutants import MUTANTS
from . import CommandError, check_folder
from .fuzz import command_errors, distinct_findings, panel_of, table, wanted_backends
from .live import Status
from .peers import wanted_peers


def run_campaign(given: argparse.Namespace) -> int:
    """Fuzz in units until the campaign's limit. Return 1 if the campaign has any finding, old or new, else 0."""
    store = _opened(given)
    if given.seconds is None and given.cases is None:
        raise CommandError("a campaign needs an end: --cases or --seconds")
    try:
        with Status() as status:
            found = run(store, _pool(given), given.cases, given.seconds, status.show)
    except UnitError as error:
        raise CommandError(str(error), 1) from None
    except ValueError as error:  # Something in the folder was not written by a campaign.
        raise CommandError(str(error)) from None
    print(table(found))
    print(f"{store.folder}: `stackgrad report {store.folder}` makes a page of it; the same command goes on")
    return 1 if found.findings else 0


def _opened(given: argparse.Namespace) -> CampaignStore:
    """Return the campaign that is stored in a folder; start a new one if there is none."""
    folder = Path(given.folder)
    check_folder(folder, "DIR")
    try:
        if (folder / SPEC).exists():
            return CampaignStore(folder)
        seed = random.SystemRandom().randrange(1 << 40) if given.seed is None else given.seed
        backends, peers = wanted_backends(given.backends), wanted_peers(given.peers)
        kind = given.profile or ""
        return CampaignStore(
            folder, CampaignSpec(seed, given.unit, backends, peers, kind, _mutant(given.mutant), given.thorough)
        )
    except ValueError as error:
        raise CommandError(str(error)) from None


def _mutant(name: str | None) -> str:
    """Return the name of a mutant, or an empty text for none. Raise CommandError if there is no such mutant."""
    if name and name not in MUTANTS:
        raise CommandError(f"there is no mutant {name!r}; known: {', '.join(MUTANTS)}")
    return name or ""


def _pool(given: argparse.Namespace) -> WorkerPool:
    """Return the pool of workers that runs the units of a campaign: processes of this machine, or a cluster."""
    if given.dask is None:
        return ProcessPool(given.processes)
    try:
        return ClusterPool(given.dask)
    except ImportError:
        raise CommandError("Dask is not installed; cure: pip install 'stackgrad[cluster]'") from None
    except OSError as error:
        raise CommandError(f"no scheduler answers at {given.dask}: {error}") from None


def run_report(given: argparse.Namespace) -> int:
    """Write the HTML and JSON report of a campaign from the results stored so far. Return the exit status."""
    folder = Path(given.folder)
    environment()  # to reduce findings takes long, so the templates must be there
    try:
        store = CampaignStore(folder)
        findings = total(part for _, part in store.results()).findings
        here = tuple(e.name for e in present_backends(store.spec.backends)[0])
    except (ValueError, UnknownBackend) as error:
        raise CommandError(str(error)) from None
    small, panel = findings, panel_of(here)
    with command_errors(f"findings of {folder} cannot be run again"):
        if given.reduce:
            small = distinct_findings(
                findings, wanted_backends(",".join(store.spec.backends)), store.spec.mutant, given.reduce
            )
        plain = report(store, small, reproducers(small, panel.backends, store.spec.mutant))
    html = _written(given.html, folder / "report.html", page(plain, given.title))
    twin = _written(given.json, folder / "report.json", json.dumps(plain, indent=1) + "\n")
    print(f"{plain['summary']['cases']} cases, {len(findings)} findings: {html}, {twin}")
    return 0


def _written(named: str | None, default: Path, text: str) -> Path:
    """Write a report to the file that the user named, or to its default path. Return the path.

    In the folder a link is replaced and not followed, because somebody else may have put it there.
    """
    if named:
        Path(named).write_text(text, encoding="utf-8")
        return Path(named)
    write_beside(default, text)
    return default
