"""Run scenes of Genesis on stackgrad and on Quadrants, and compare positions, gradients and times."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..tools.peers import installed
from . import children, table
from .scenes import SCENES

SCRIPT = Path(__file__).with_name("scenes.py")
OURS, THEIRS = "stackgrad", "Quadrants"
SIDES = {OURS: ("-m", "stackgrad.compat", "quadrants"), THEIRS: ()}
"""The libraries that run a scene, each with the arguments of the interpreter in front of the script."""

PACKAGES = {"genesis-world": "1.4.5", "quadrants": "1.3.3", "torch": "2.13.0"}
"""The packages that the scenes need, with the versions for which the scenes were written."""

HEAD = ("scene", "greatest relative difference", "column", OURS, THEIRS, "ratio", "status")
COLUMNS = {
    "build": "build",
    "first_step": "first step",
    "step": "step",
    "first_backward": "first backward",
    "backward": "backward",
}


@dataclass(frozen=True)
class SideRun:
    """Represent one run of a scene on one library.

    Attributes:
        arrays: positions and gradients by their names.
        times: seconds by the keys of COLUMNS.
        problem: why there is no result, or an empty text.
    """

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


def absent(python: str) -> str | None:
    """Return a text that says what to install so that an interpreter can run scenes, or None if it has everything."""
    missing = [name for name in PACKAGES if not installed(name, python)]
    if not missing:
        return None
    wanted = " ".join(f"{name}=={PACKAGES[name]}" for name in missing)
    return (
        f"{python} does not have {', '.join(missing)}; cure: {python} -m pip install {wanted}, or --python INTERPRETER"
    )


def run_side(scene: str, side: str, python: str, precision: str, repeat: int, limit: float) -> SideRun:
    """Run a scene on one library in a process of its own, without code that was compiled earlier.

    Args:
        scene: a key of SCENES.
        side: a key of SIDES.
        python: the interpreter that runs the scene.
        precision: "32" or "64".
        repeat: the number of timed steps or backward passes.
        limit: the number of seconds that the process may take.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        command = [python, *SIDES[side], str(SCRIPT), scene, precision, str(repeat), str(file)]
        ended = children.run(command, limit, given={"QD_OFFLINE_CACHE": "0"})
        if not file.exists() or ended.status != 0:
            return SideRun(problem=ended.reason or "wrote no result")
        return read_result(file.read_text())


def read_result(text: str) -> SideRun:
    """Return the result of one run of a scene, parsed from the JSON text that scenes.py has written."""
    found = json.loads(text)
    return SideRun({name: np.array(values) for name, values in found["arrays"].items()}, found["times"])


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the greatest difference between two arrays, divided by the greatest magnitude in the second one.

    It is infinite if the shapes differ or a value is not finite.
    """
    if ours.shape != theirs.shape or not np.isfinite(ours).all() or not np.isfinite(theirs).all():
        return float("inf")
    scale = float(np.abs(theirs).max(initial=0.0))
    apart = float(np.abs(ours - theirs).max(initial=0.0))
    return apart / scale if scale else (float("inf") if apart else 0.0)


def verdict(differences: Mapping[str, float], precision: str) -> str:
    """Return "agrees" if at least half of the digits of the precision agree in every array, or the arrays that differ.

    Both libraries add in their own order, so that the last digits differ after the first step, and each step and each
    contact multiplies this difference.
    """
    half = float(np.finfo(np.float32 if precision == "32" else np.float64).eps) ** 0.5
    wrong = [name for name, apart in differences.items() if not apart <= half]
    return f"differs: {', '.join(wrong)}" if wrong else "agrees"


def rows(scene: str, runs: Mapping[str, SideRun], precision: str) -> list[tuple[str, ...]]:
    """Return the rows of the table for one scene: one for each kind of time that was measured."""
    ours, theirs = runs[OURS], runs[THEIRS]
    problems = [f"{side} fails: {found.problem}" for side, found in runs.items() if found.problem]
    apart = {} if problems else {k: difference(a, theirs.arrays[k]) for k, a in ours.arrays.items()}
    status = "; ".join(problems) or verdict(apart, precision)
    told = ", ".join(f"{name} {value:.1e}" for name, value in apart.items())
    lines: list[tuple[str, ...]] = []
    for key, title in COLUMNS.items():
        mine, other = ours.times.get(key), theirs.times.get(key)
        if mine is not None or other is not None:
            ratio = f"{other / mine:.2f}x" if mine and other else ""
            lines.append((scene, told, title, seconds(mine), seconds(other), ratio, status))
            scene = told = status = ""
    return lines or [(scene, told, "", "", "", "", status)]


def seconds(time: float | None) -> str:
    """Return a time with its unit, or an empty text for None."""
    if time is None:
        return ""
    return f"{time:.3g} s" if time >= 1 else f"{time * 1e3:.3g} ms"


def main(scenes: list[str], python: str, precision: str, repeat: int, limit: float, file: str, machine: str) -> int:
    """Run the scenes, print the table, and return the exit status: 1 if a scene does not agree.

    Args:
        scenes: keys of SCENES; all if there are none.
        python: the interpreter that has Genesis, Quadrants and stackgrad.
        precision: "32" or "64".
        repeat: the number of timed steps or backward passes.
        limit: the number of seconds that a process may take.
        file: a page to which the table is written as Markdown, or an empty text.
        machine: the machine in words.
    """
    unknown = [name for name in scenes if name not in SCENES]
    missing = f"no scene is called {unknown[0]!r}; there are: {', '.join(SCENES)}" if unknown else absent(python)
    if missing:
        print(missing)
        return 2
    found: list[tuple[str, ...]] = []
    for scene in scenes or SCENES:
        runs = {side: run_side(scene, side, python, precision, repeat, limit) for side in SIDES}
        found += rows(scene, runs, precision)
        print(table.plain(HEAD, found[-len(COLUMNS) :]), flush=True)
    title = f"{precision} bits; 1 thread; processor time, medians of {repeat}; {machine}."
    print(f"{title}\n{table.plain(HEAD, found)}")
    if file:
        table.store(Path(file), f"scenes with {precision} bits", title, HEAD, found)
    return int(any(row[-1] not in ("", "agrees") for row in found))
