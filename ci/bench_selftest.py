"""This script shows that `ci/bench_compare.py` finds planted regressions and is silent on equal packages.

    python ci/bench_selftest.py [FOLDER] [--no-plants] [--quiet-runs N] [--rounds N]

It copies the installed package, plants one regression in each copy, and compares each with the package as it is. Then
it compares two copies without a plant as often as `--quiet-runs` says. Several of these commands may run side by side,
each on processors of its own (`taskset`). Exit status: 0 if every plant was found, by the
metrics of its kind, and no equal pair was reported; else 1. With FOLDER, FOLDER/selftest.txt is the report.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench_compare import compare, table
from link_tree import ROOT, make_links, package_folders, wanted_links


@dataclass(frozen=True)
class Plant:
    """Represent a regression that is planted in a copy of the package.

    Attributes:
        name: the quantity that gets worse, for the report.
        kind: kind of the metrics that must report it.
        code: Python code that is run when the package is imported.
    """

    name: str
    kind: str
    code: str


SLOW_LAUNCH = """
from .launch.kernels import Kernel as _Kernel
_direct = _Kernel.direct
def _slower(kernel, is_grad, function):
    calls = 0
    def launch(*arguments, **keywords):
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            function(*arguments, **keywords)
        return function(*arguments, **keywords)
    _direct(kernel, is_grad, launch)
_Kernel.direct = _slower
"""

SLOW_COMPILE = """
import time as _time
from .compiler import driver as _driver
_prepare = _driver.prepare_reverse
def _slower(*arguments, **keywords):
    started = _time.perf_counter()
    made = _prepare(*arguments, **keywords)
    end = _time.perf_counter() + 0.2 * (_time.perf_counter() - started)
    while _time.perf_counter() < end:
        pass
    return made
_driver.prepare_reverse = _slower
"""

LARGE_HEAP = """
from dataclasses import replace as _replace
from .backends.launching.launcher import Launcher as _Launcher
_find = _Launcher._look
def _larger(self, *arguments):
    sizes, source = _find(self, *arguments)
    return _replace(sizes, capacities={name: 2 * size for name, size in sizes.capacities.items()}), source
_Launcher._look = _larger
"""

PLANTS = (
    Plant("a launch goes through one more call of Python, and every fifth runs twice", "launch", SLOW_LAUNCH),
    Plant("the reverse transform takes 20 % longer", "compile", SLOW_COMPILE),
    Plant("adstacks get twice the slots they need", "heap", LARGE_HEAP),
)


def copy_of_package(folder: Path, code: str = "") -> Path:
    """Copy the package of this checkout into a folder, run `code` at the end of its import, and return the folder."""
    links = folder / "links"
    make_links(links, wanted_links(ROOT, package_folders(ROOT / "pyproject.toml")))
    shutil.copytree(links / "stackgrad", folder / "stackgrad", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "stackgrad" / "__init__.py").open("a") as module:
        module.write(code)
    return folder


def is_found(plant: Plant, worse: set[str]) -> bool:
    """Return True if a metric of the plant's kind is reported as worse."""
    return any(name.startswith(f"{plant.kind}.") for name in worse)


def report_on_plants(base: Path, work: Path, rounds: int) -> Iterator[tuple[bool, str]]:
    """Yield, for each plant, whether its comparison with the base found it, and the report."""
    for number, plant in enumerate(PLANTS):
        found, worse, drift = compare(base, copy_of_package(work / str(number), plant.code), rounds)
        right = is_found(plant, worse)
        yield right, "\n".join([f"{'found' if right else 'MISSED'}: {plant.name}", *table(found, worse, drift)])


def report_on_equals(base: Path, equal: Path, rounds: int, runs: int) -> Iterator[tuple[bool, str]]:
    """Yield, for each comparison of equal packages, whether it reported nothing, and the report."""
    for number in range(runs):
        _, worse, drift = compare(base, equal, rounds)
        said = ", ".join(sorted(worse)) or "quiet"
        yield not worse, f"equal packages, run {number + 1}: {said} (controls moved by a factor of {drift:.2f})"


def main(given: Sequence[str] | None = None) -> int:
    """Compare with each plant, then equal packages, and return the exit status."""
    parser = argparse.ArgumentParser(description="Show that regressions are found and equal commits are not reported.")
    parser.add_argument("folder", nargs="?", type=Path, help="folder for the report")
    parser.add_argument("--no-plants", action="store_true", help="compare equal packages alone")
    parser.add_argument("--quiet-runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args(given)
    right, lines = True, []
    with tempfile.TemporaryDirectory(prefix="bench_selftest.") as folder:
        work = Path(folder)
        base, equal = copy_of_package(work / "base"), copy_of_package(work / "equal")
        plants = () if asked.no_plants else report_on_plants(base, work, asked.rounds)
        for passed, text in chain(plants, report_on_equals(base, equal, asked.rounds, asked.quiet_runs)):
            right &= passed
            lines.append(text)
            print(text, flush=True)
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
        (asked.folder / "selftest.txt").write_text("\n".join(lines) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
