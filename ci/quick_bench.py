"""This script runs the benchmarks once at the commit that is checked out, and keeps their numbers and their pages.

    python ci/quick_bench.py FOLDER [ARGUMENTS]

FOLDER then holds `results`, in asv's own format, and `html`, the site that `make dashboard` makes. ARGUMENTS are for
`asv run`; without any, each benchmark is sampled once (`--quick`), which shows that all of them run. The exit status is
that of asv, or 1 if a benchmark failed. The script runs under an interpreter that has asv.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import bench_machine

BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_bench"
KEPT = ("results", ".asv/html")
"""Folders below asv_bench that are kept."""


def commands(machine: str, arguments: Sequence[str]) -> list[list[str]]:
    """Return the command lines of asv: the run on a machine with this name, and the pages."""
    measure = ["run", "--machine", machine, "--launch-method", "forkserver", "--show-stderr"]
    measure += [*(arguments or ["--quick"]), "HEAD^!"]
    return [[sys.executable, "-m", "asv", *words] for words in (measure, ["publish", "HEAD"])]


def keep(source: Path, folder: Path) -> None:
    """Copy the results and the HTML pages of asv into a folder."""
    for name in KEPT:
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / Path(name).name, dirs_exist_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run asv and return the exit status of the first command that failed, or 0."""
    folder, *rest = sys.argv[1:] if arguments is None else arguments
    status = 0
    for command in commands(bench_machine.register(), rest):
        status = status or subprocess.run(command, cwd=BENCHMARKS).returncode
    keep(BENCHMARKS, Path(folder))
    return status


if __name__ == "__main__":
    sys.exit(main())
