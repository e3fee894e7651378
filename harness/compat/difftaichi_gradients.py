"""Compare gradients of the programs of DiffTaichi with differences, on stackgrad and on Taichi, and their times.

The derivatives are compared in 64 bits, where differences are accurate, and the times are taken in the 32 bits that
the programs ask for.
"""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import children, table
from .genesis_runs import seconds

SCRIPT = Path(__file__).with_name("gradients.py")
OURS, THEIRS = "ours", "taichi"
HEAD = ("program", "gradient", "gradient of Taichi", "stackgrad", "Taichi", "ratio")
STEP = 1e-5
"""The amount by which a parameter of order one is changed: near the cube root of the rounding unit of 64 bits."""
JUDGED = 2
"""The gradient that is compared: some programs start where the loss has a kink, such as a symmetric shot."""
TIMED = 3
"""Number of gradients of a timed run; the first one compiles, and the fastest of the others is shown."""


@dataclass(frozen=True)
class Sides:
    """Represent how the two sides of a comparison are started.

    Attributes:
        pythons: the interpreter of each side; one without an interpreter is left out.
        limit: the number of seconds that a process may take.
    """

    pythons: dict[str, str]
    limit: float


@dataclass(frozen=True)
class GradientRun:
    """Represent one run of a program on one side.

    Attributes:
        entries: the derivatives, each with the difference of losses and the bound of its error.
        times: the seconds of each gradient.
        problem: why there is none of both, or an empty text.
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    problem: str = ""


def linked(program: Path, folder: Path) -> None:
    """Make the files beside a program that are no programs appear in a folder, for programs that read them."""
    for file in program.parent.iterdir():
        if file.is_file() and file.suffix != ".py":
            (folder / file.name).symlink_to(file)


def run_side(
    side: str, file: Path, bits: int, count: int, step: float, arguments: list[str], sides: Sides
) -> GradientRun:
    """Run a program on one side in a process and folder of its own.

    Args:
        side: "ours" or "taichi".
        file: the script of the program.
        bits: 32 or 64.
        count: the number of gradients that the program computes.
        step: the amount by which a parameter is changed; 0 for no comparison.
        arguments: the arguments of the program.
        sides: how the sides are started.
    """
    with tempfile.TemporaryDirectory() as folder:
        linked(file, Path(folder))
        told = [side, str(file), str(bits), str(count), str(step), *arguments]
        command = [sides.pythons[side], "-W", "ignore", str(SCRIPT), *told]
        ended = children.run(command, sides.limit, Path(folder), {"MPLBACKEND": "Agg"})
    return read_run(ended)


def read_run(ended: children.Ended) -> GradientRun:
    """Return what a process has told in its last line, or why it has told nothing."""
    if ended.status != 0:
        return GradientRun(problem=ended.reason)
    found = json.loads(ended.output.strip().splitlines()[-1])
    return GradientRun(found["entries"], found["seconds"])


def verdict(run: GradientRun) -> str:
    """Return how the derivatives of a run differ from differences of the loss.

    A derivative is right if it is within the bound. The number is the greatest deviation, as part of the derivative.
    """
    if run.problem:
        return run.problem
    apart = [abs(entry["slope"] - entry["difference"]) for entry in run.entries]
    wrong = sum(not a <= entry["bound"] for a, entry in zip(apart, run.entries, strict=True))
    parts = [a / abs(entry["difference"]) for a, entry in zip(apart, run.entries, strict=True) if entry["difference"]]
    worst = max(parts, key=lambda part: math.inf if math.isnan(part) else part, default=0.0)
    return f"wrong in {wrong} of {len(apart)} entries, by {worst:.1e}" if wrong else f"right, within {worst:.1e}"


def row(name: str, file: Path, arguments: list[str], sides: Sides) -> tuple[str, ...]:
    """Return the row of the table for one program."""
    judged = {side: run_side(side, file, 64, JUDGED, STEP, arguments, sides) for side in sides.pythons}
    timed = {side: run_side(side, file, 32, TIMED, 0.0, arguments, sides) for side in sides.pythons}
    best = {side: min(run.times[1:], default=None) for side, run in timed.items()}
    mine, other = best[OURS], best.get(THEIRS)
    ratio = f"{other / mine:.2f}x" if mine and other else ""
    theirs = verdict(judged[THEIRS]) if THEIRS in judged else ""
    return name, verdict(judged[OURS]), theirs, seconds(mine), seconds(other), ratio


def main(files: dict[str, Path], arguments: dict[str, list[str]], sides: Sides, page: str, title: str) -> int:
    """Compare programs, print the table, and return the exit status: 1 if a gradient of stackgrad is not right.

    Args:
        files: the scripts by the names of the programs.
        arguments: the arguments of each program.
        sides: how the sides are started.
        page: a page to which the table is written as Markdown, or an empty text.
        title: the line above the table.
    """
    found = []
    for name, file in files.items():
        found.append(row(name, file, arguments[name], sides))
        print(table.plain(HEAD, found[-1:]), flush=True)
    print(f"{title}\n{table.plain(HEAD, found)}")
    if page:
        table.store(Path(page), "gradients", title, HEAD, found)
    return int(any(not line[1].startswith("right") for line in found))
