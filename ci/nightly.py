"""This script runs the nightly jobs: a fuzzing campaign, a search for planted mutants, and fuzzing of peers.

It also writes the report of the campaign.

    python ci/nightly.py FOLDER                                       about eight hours of work
    python ci/nightly.py FOLDER --cases 20000 --mutants 0 --peers 0   a campaign of so many programs and nothing else

FOLDER then holds `report.html` and the same report as `report.json`, the campaign with the corpus of its findings, the
output of each step, and `nightly.json`: each step with its outcome. The exit status is 1 if an executor of this project
disagrees with another or crashes, or if a planted mistake is missed. Mistakes of peers are reported and decide nothing.
The script runs under an interpreter that has the package.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

BACKENDS = "cpu,cpu-masked"
PEERS = ("quadrants", "taichi")
SEEDS = (2, 50001, 4000011)
"""Seeds of the hunts; the findings of each hunt depend only on its seed."""


@dataclass(frozen=True)
class Step:
    """Represent one command of the nightly run, such as a fuzzing campaign, with its outcome.

    Attributes:
        name: its name, also of its output file.
        command: the arguments of `python -m stackgrad`.
        decides: True if its failure makes the nightly run fail.
        status: the exit status after it has run.
        seconds: the duration after it has run.
    """

    name: str
    command: tuple[str, ...]
    decides: bool = True
    status: int | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Return True if this step failed and its failure makes the nightly run fail."""
        return self.decides and self.status != 0


def steps(given: argparse.Namespace, peers: Sequence[str]) -> Iterator[Step]:
    """Yield the commands of the nightly run in order: campaign, its report, search for mutants, fuzzing of peers."""
    folder, processes = Path(given.folder), ("--processes", str(given.processes))
    campaign = str(folder / "campaign")
    end = ("--cases", str(given.cases)) if given.cases else ("--seconds", str(given.seconds))
    seed = ("--seed", str(given.seed)) if given.seed is not None else ()
    common = (*processes, "--backends", BACKENDS)
    thorough = ("--thorough",) if given.thorough else ()
    yield Step("campaign", ("campaign", campaign, *end, *seed, "--unit", str(given.unit), *thorough, *common))
    html, twin = str(folder / "report.html"), str(folder / "report.json")
    yield Step("report", ("report", campaign, "--html", html, "--json", twin, "--title", given.title, "--reduce", "30"))
    names = tuple(given.mutant)
    for number in SEEDS[: given.mutants]:
        limit = ("--seconds", str(given.hunt), "--seed", str(number))
        yield Step(f"mutants-{number}", ("fuzz", "--mutants", *names, *limit, *common))
    for peer in peers if given.peers else ():
        found = ("--corpus", str(folder / peer), "--seconds", str(given.peers))
        yield Step(peer, ("fuzz", "--peers", peer, *found, *common), decides=False)


def installed_peers() -> list[str]:
    """Return the peers that are installed on this machine."""
    return [name for name in PEERS if importlib.util.find_spec(name)]


def run_step(step: Step, folder: Path) -> Step:
    """Run a step with its output in a file named after it, and return the step with its exit status."""
    begin = time.monotonic()
    with (folder / f"{step.name}.txt").open("w", encoding="utf-8") as out:
        command = [sys.executable, "-m", "stackgrad", *step.command]
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    return replace(step, status=done.returncode, seconds=round(time.monotonic() - begin, 1))


def run_all(wanted: Iterator[Step], folder: Path, run: Callable[[Step, Path], Step] = run_step) -> list[Step]:
    """Run all steps and return them; a step that fails does not prevent the next ones."""
    done: list[Step] = []
    for step in wanted:
        print(f"== {step.name}: stackgrad {' '.join(step.command)}", flush=True)
        done.append(run(step, folder))
        outcome = "failed" if done[-1].failed else "passed" if done[-1].decides else "reported"
        print(f"   {outcome} after {done[-1].seconds:.0f} s: {folder / step.name}.txt", flush=True)
    described = {"passed": not any(step.failed for step in done), "steps": [asdict(step) for step in done]}
    (folder / "nightly.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return done


def publish(folder: Path, place: Path) -> None:
    """Copy the HTML and JSON reports to the folder where reports are kept."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "report.json"):
        shutil.copyfile(folder / name, place / name)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="A long campaign, its report, and a hunt for planted mistakes.")
    parser.add_argument("folder", metavar="FOLDER", help="where everything goes; a campaign that lies there goes on")
    parser.add_argument("--seconds", type=float, default=6 * 3600.0, metavar="N", help="of the campaign (6 h)")
    parser.add_argument("--cases", type=int, metavar="N", help="programs of the campaign, in place of a time")
    parser.add_argument("--seed", type=int, metavar="S", help="of the first program (default: drawn)")
    parser.add_argument("--unit", type=int, default=200, metavar="N", help="programs that one process runs (200)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="(default: all cores)")
    parser.add_argument("--mutants", type=int, default=len(SEEDS), metavar="K", help="seeds of the hunt (3; 0: none)")
    parser.add_argument("--mutant", action="append", default=[], metavar="NAME", help="hunt these alone")
    parser.add_argument("--hunt", type=float, default=60.0, metavar="N", help="seconds for one mistake (60)")
    parser.add_argument("--peers", type=float, default=600.0, metavar="N", help="seconds for each peer (600; 0: none)")
    parser.add_argument("--thorough", action="store_true", help="backends run the gradient of every program")
    parser.add_argument("--title", default="Fuzzing campaign", help="of the page")
    parser.add_argument("--publish", metavar="DIR", help="copy the page and its twin there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps, publish the report if asked, and return the exit status."""
    given = parse(arguments)
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = run_all(steps(given, installed_peers()), folder)
    if given.publish and (folder / "report.json").exists():
        publish(folder, Path(given.publish))
    return 1 if any(step.failed for step in done) else 0


if __name__ == "__main__":
    sys.exit(main())
