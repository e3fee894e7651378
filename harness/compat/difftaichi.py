"""Run programs of a checkout of DiffTaichi on stackgrad, without a display."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from . import children, table

SCRIPT = Path(__file__).with_name("headless.py")
HEAD = ("program", "outcome", "last line, or reason")
Row = tuple[str, str, str]


def programs(checkout: Path) -> dict[str, Path]:
    """Return the programs of a checkout of DiffTaichi by name: its scripts that can be started.

    Args:
        checkout: the folder of the checkout, whose programs lie in `examples` or in itself.
    """
    folder = checkout / "examples" if (checkout / "examples").is_dir() else checkout
    return {file.stem: file for file in sorted(folder.glob("*.py")) if "init(" in file.read_text(encoding="utf-8")}


def run_program(name: str, file: Path, python: str, limit: float, arguments: list[str]) -> Row:
    """Run one program in a process and folder of its own, and return its row of the table of results.

    Args:
        name: the name of the program.
        file: the script of the program.
        python: the interpreter that has stackgrad.
        limit: the number of seconds that the program may take.
        arguments: the arguments of the program.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-W", "ignore", str(SCRIPT), str(file), *arguments]
        ended = children.run(command, limit, Path(folder), {"MPLBACKEND": "Agg"})
    lines = ended.output.strip().splitlines()
    told = lines[-1] if lines else ""
    if ended.status is None:
        # A program that optimizes for long, and has said so, runs as it should.
        return (name, "runs on", f"after {limit:.0f} s: {children.shortened(told)}")
    return (name, "failed", ended.reason) if ended.reason else (name, "ended", children.shortened(told))


def main(
    checkout: str,
    names: list[str],
    python: str = sys.executable,
    limit: float = 300.0,
    arguments: list[str] | None = None,
) -> int:
    """Run programs of a checkout of DiffTaichi, print a table, and return the exit status: 1 if a program fails.

    Args:
        checkout: the folder of the checkout.
        names: names of programs; all if there are none.
        python: the interpreter that runs the programs; it has stackgrad.
        limit: the number of seconds that a program may take.
        arguments: the arguments of each program.
    """
    found = programs(Path(checkout).resolve())
    unknown = [name for name in names if name not in found]
    if unknown or not found:
        print(f"{checkout} has no program {', '.join(unknown)}; there are: {', '.join(found) or 'none'}")
        return 2
    rows = [run_program(name, found[name], python, limit, arguments or []) for name in names or found]
    print(table.plain(HEAD, rows))
    return int(any(outcome == "failed" for _, outcome, _ in rows))
