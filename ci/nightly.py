"""What runs at night: a long campaign, a hunt for planted mistakes, peers where they are installed; and their report.

    python ci/nightly.py FOLDER                                       eight hours' worth, more or less
    python ci/nightly.py FOLDER --cases 20000 --mutants 0 --peers 0   a campaign of so many programs and nothing else

FOLDER then holds `report.html` and its twin `report.json`, the campaign with the corpus of what it found, what each
step printed, and `nightly.json`: each step with its outcome. The exit status is 1 if an executor of ours disagrees
with another or crashes, or if a planted mistake is missed; what peers get wrong is reported and decides nothing.
Runs under an interpreter that has the package.
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
"""Of the hunts; what each finds depends on its seed alone."""


@dataclass(frozen=True)
class Step:
    """One command. decides: whether its failure is one of the night. status, seconds: when it has run."""

    name: str
    command: tuple[str, ...]
    decides: bool = True
    status: int | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the night failed here."""
        return self.decides and self.status != 0


def steps(given: argparse.Namespace, peers: Sequence[str]) -> Iterator[Step]:
    """What is to run, in order."""
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
    """Other systems that can be compared with here."""
    return [name for name in PEERS if importlib.util.find_spec(name)]


def run_step(step: Step, folder: Path) -> Step:
    """Run one; what it prints goes to a file of its name."""
    begin = time.monotonic()
    with (folder / f"{step.name}.txt").open("w", encoding="utf-8") as out:
        command = [sys.executable, "-m", "stackgrad", *step.command]
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    return replace(step, status=done.returncode, seconds=round(time.monotonic() - begin, 1))


def run_all(wanted: Iterator[Step], folder: Path, run: Callable[[Step, Path], Step] = run_step) -> list[Step]:
    """All steps; one that fails does not keep the others from running."""
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
    """The page and its twin, copied to where they are kept."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "report.json"):
        shutil.copyfile(folder / name, place / name)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
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
    given = parse(arguments)
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = run_all(steps(given, installed_peers()), folder)
    if given.publish and (folder / "report.json").exists():
        publish(folder, Path(given.publish))
    return 1 if any(step.failed for step in done) else 0


if __name__ == "__main__":
    sys.exit(main())
