"""Run programs of a checkout of DiffTaichi on stackgrad, without a display, and compare their gradients."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import children, difftaichi_gradients, table

SCRIPT = Path(__file__).with_name("headless.py")
HEAD = ("program", "outcome", "last line, or reason")
PLANNED = (
    "billiards",
    "diffmpm",
    "diffmpm3d",
    "electric",
    "liquid",
    "mass_spring",
    "rigid_body",
    "smoke_taichi_gpu",
    "volume_renderer",
    "water_renderer",
    "wave",
)
"""The programs whose loss can be computed again, in the order of the page; `gradients.py` says how."""
ARGUMENTS = {"mass_spring": ["2", "train"], "rigid_body": ["1", "train"]}
"""The arguments of programs that do not run without: a robot, and what to do with it."""
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Given:
    """Represent what a command says about the programs that it runs.

    Attributes:
        checkout: the folder of the checkout.
        names: names of programs; all if there are none.
        python: the interpreter that has stackgrad.
        limit: the number of seconds that a process may take.
        arguments: the arguments of each program; those that it needs if there are none.
        iterations: the number of gradients after which a program is stopped; 0 for no limit.
        gradients: True to compare gradients with differences instead.
        taichi: the interpreter that has Taichi, to compare with; none if empty.
        page: the page to which the table of gradients is written; none if empty.
    """

    checkout: str
    names: list[str]
    python: str = sys.executable
    limit: float = 300.0
    arguments: tuple[str, ...] = ()
    iterations: int = 0
    gradients: bool = False
    taichi: str = ""
    page: str = ""

    def of(self, name: str) -> list[str]:
        """Return the arguments of a program."""
        return list(self.arguments) or ARGUMENTS.get(name, [])


def programs(checkout: Path) -> dict[str, Path]:
    """Return the programs of a checkout of DiffTaichi by name: its scripts that can be started.

    Args:
        checkout: the folder of the checkout, whose programs lie in `examples` or in itself.
    """
    folder = checkout / "examples" if (checkout / "examples").is_dir() else checkout
    return {file.stem: file for file in sorted(folder.glob("*.py")) if "init(" in file.read_text(encoding="utf-8")}


def run_program(name: str, file: Path, given: Given) -> Row:
    """Run a program in a process and folder of its own, which has the files that it reads, and return its row."""
    with tempfile.TemporaryDirectory() as folder:
        difftaichi_gradients.linked(file, Path(folder))
        command = [given.python, "-W", "ignore", str(SCRIPT), str(given.iterations), str(file), *given.of(name)]
        ended = children.run(command, given.limit, Path(folder), {"MPLBACKEND": "Agg"})
    lines = ended.output.strip().splitlines()
    told = lines[-1] if lines else ""
    if ended.status is None:
        # A program that optimizes for long, and has said so, runs as it should.
        return (name, "runs on", f"after {given.limit:.0f} s: {children.shortened(told)}")
    return (name, "failed", ended.reason) if ended.reason else (name, "ended", children.shortened(told))


def main(given: Given, machine: str = "") -> int:
    """Run programs of a checkout, print a table, and return the exit status: 1 if a program fails.

    Args:
        given: the programs and what to do with them.
        machine: the machine in words.
    """
    found = programs(Path(given.checkout).resolve())
    unknown = [name for name in given.names if name not in found]
    if unknown or not found:
        print(f"{given.checkout} has no program {', '.join(unknown)}; there are: {', '.join(found) or 'none'}")
        return 2
    chosen = {name: found[name] for name in given.names or found}
    if given.gradients:
        return _compare({name: file for name, file in chosen.items() if name in PLANNED}, given, machine)
    rows = [run_program(name, file, given) for name, file in chosen.items()]
    print(table.plain(HEAD, rows))
    return int(any(outcome == "failed" for _, outcome, _ in rows))


def _compare(files: dict[str, Path], given: Given, machine: str) -> int:
    """Compare the gradients of programs with differences, and return the exit status."""
    pythons = {difftaichi_gradients.OURS: given.python}
    if given.taichi:
        pythons[difftaichi_gradients.THEIRS] = given.taichi
    sides = difftaichi_gradients.Sides(pythons, given.limit)
    title = f"Gradients in 64 bits; times in 32 bits, 1 thread, processor time; {machine}."
    return difftaichi_gradients.main(files, {name: given.of(name) for name in files}, sides, given.page, title)
