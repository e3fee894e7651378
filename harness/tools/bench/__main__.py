"""Run benchmarks on stackgrad and peers: `python -m stackgrad.harness.tools.bench [WORK ...] [OPTION ...]`.

Options: [--peers NAMES] [--repeat N] [--threads N] [--arch ARCH] [--shrink N] [--json FILE]. The archs cuda and vulkan
have their own works, see device_works.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from ....backends import registry
from . import cache_works, index_works
from .device_works import DEVICE_WORKS, SHRINK
from .jax_works import NAMES as OF_JAX
from .process import UNCHECKED
from .run import Figures, SampleColumn, machine, measure
from .works import WORKS

OURS = "stackgrad"

assert cache_works and index_works, "they enter their works"


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen benchmarks, print a table, and return the exit status."""
    given = _arguments(arguments)
    works = WORKS if given.arch == "cpu" else DEVICE_WORKS
    unknown = [name for name in given.works if name not in works]
    if unknown:
        print(f"no work is called {unknown[0]!r}; there are: {', '.join(works)}", file=sys.stderr)
        return 2
    os.environ[SHRINK] = str(given.shrink)
    libraries = [OURS, *filter(None, given.peers.split(","))]
    pythons = {name: sys.executable if name in (OURS, UNCHECKED, "jax") else given.peer_python for name in libraries}
    print(f"{machine(given.arch)}; {given.threads} threads; medians of {given.repeat}")
    results: dict[str, Figures] = {}
    for work in given.works or works:
        here = [name for name in libraries if name != "jax" or work in OF_JAX]
        results[work] = measure(work, here, pythons, given.threads, given.repeat, given.arch)
        print("\n".join(rows(work, results[work])), flush=True)
    if given.json:
        whole = {"machine": machine(given.arch), "works": plain(results)}
        Path(given.json).write_text(json.dumps(whole, indent=1) + "\n")
    return 0


DEVICES = tuple(name for name in registry.launching() if name != "reference")
"""Backends that are measured."""


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stackgrad.harness.tools.bench", description=__doc__)
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}; all if none is given")
    parser.add_argument("--arch", default="cpu", choices=DEVICES, help="what the works run on")
    parser.add_argument(
        "--shrink",
        type=int,
        default=1,
        help="works of a device on so many times fewer elements, to see on a slow one that they are right",
    )
    parser.add_argument(
        "--peers",
        default="",
        help="libraries to run beside: quadrants, taichi, jax; and unchecked, stackgrad without checks of indices",
    )
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--repeat", type=int, default=9, help="samples a column (at least 7 for a claim)")
    parser.add_argument("--threads", type=int, default=2, help="threads that each library may use")
    parser.add_argument("--json", default="", help="a file for the figures")
    return parser.parse_args(arguments)


def rows(work: str, figures: Figures) -> list[str]:
    """Return the result lines of one benchmark, each with the ratio of a library's result to that of stackgrad."""
    lines = []
    for column, by_library in figures.items():
        ours = by_library.get(OURS, SampleColumn()).median
        parts = []
        for name, found in by_library.items():
            if found.median is None:
                parts.append(f"{name}: {found.problem}")
                continue
            ratio = f" ({found.median / ours:.1f}x)" if ours and name != OURS else ""
            parts.append(f"{name} {found.median:.4g} {found.unit} [{min(found.samples):.4g}]{ratio}")
        lines.append(f"{work:18s} {column:20s} " + ", ".join(parts))
    return lines


def plain(results: dict[str, Figures]) -> dict[str, object]:
    """Return the samples of all benchmarks in a form that JSON can hold."""
    return {
        work: {column: {name: vars(found) for name, found in by.items()} for column, by in figures.items()}
        for work, figures in results.items()
    }


if __name__ == "__main__":
    sys.exit(main())
