"""The corpus: one folder for each finding, with all that is needed to run it again or to read it.

    case.py        runs by itself under any backend: python case.py cpu
    kernel.ir      the kernel as traced
    program.json   the program and its inputs, exactly
    plan.json      launches and executors of the case, and the comparison that failed
    verdict.txt    a table: comparison by verdict
"""
from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...compiler.errors import StackgradError
from ...compiler.ir.printer import print_kernel
from ..model import Program, from_json, load, render_source, to_json
from .plan import Key, Plan
from .result import Judged
from .statistics import Finding

PROGRAM, PLAN, SOURCE, KERNEL, VERDICT = "program.json", "plan.json", "case.py", "kernel.ir", "verdict.txt"


@dataclass(frozen=True)
class Entry:
    """One folder, read. key: the comparison that failed, None if the process died."""

    folder: Path
    program: Program
    plan: Plan
    key: Key | None


def write(root: Path, finding: Finding) -> Path:
    """A new folder for a finding, or the one that holds the same program. Returns it."""
    text = to_json(finding.program, indent=1)
    folder = root / f"{_slug(finding)}-{zlib.crc32(text.encode()):08x}"
    folder.mkdir(parents=True, exist_ok=True)
    key = failed_key(finding.judged)
    plan = {k: v for k, v in asdict(finding.plan).items() if k != "only"}
    (folder / PROGRAM).write_text(text + "\n", encoding="utf-8")
    (folder / PLAN).write_text(json.dumps({"plan": plan, "failed": key}, indent=1) + "\n", encoding="utf-8")
    (folder / SOURCE).write_text(render_source(finding.program), encoding="utf-8")
    (folder / KERNEL).write_text(_kernel_text(finding.program), encoding="utf-8")
    (folder / VERDICT).write_text(verdict_text(finding.judged, finding.crash), encoding="utf-8")
    return folder


def read(folder: Path) -> Entry:
    """A folder that `write` made. Raises ValueError, naming the file, for anything else."""
    try:
        program = from_json((folder / PROGRAM).read_text(encoding="utf-8"))
        stored = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        key = None if stored["failed"] is None else (stored["failed"][0], stored["failed"][1])
        return Entry(folder, program, plan_from_plain(stored["plan"]), key)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder} is no folder of a corpus: {type(error).__name__}: {error}") from None


def plan_from_plain(plain: Mapping[str, Any]) -> Plan:
    """A plan from its fields as JSON keeps them. Raises TypeError for a field that plans do not have."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}
    return Plan(**values)


def entries(roots: Iterable[Path]) -> Iterator[Entry]:
    """Every entry at or below some folders, in order of name."""
    for root in roots:
        folders = [root] if (root / PROGRAM).exists() else sorted(p.parent for p in root.glob(f"*/{PROGRAM}"))
        yield from map(read, folders)


def failed_key(judged: Iterable[Judged]) -> Key | None:
    """The first comparison that failed."""
    return next((j.key for j in judged if j.verdict == "disagree"), None)


def verdict_text(judged: Iterable[Judged], crash: str = "") -> str:
    """One line for each comparison, in columns."""
    rows = [("direction", "executor", "against", "verdict", "reason")]
    rows += [(j.direction, j.executor, j.reference, j.verdict, " ".join(j.reason.split())) for j in judged]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[4]]).rstrip() for row in rows]
    return "\n".join([*([f"crash: {crash}"] if crash else lines), ""])


def _slug(finding: Finding) -> str:
    key = failed_key(finding.judged)
    return "-".join(key) if key else "crash"


def _kernel_text(program: Program) -> str:
    try:
        return print_kernel(load(program)[0])
    except StackgradError as error:
        return f"// not traced: {type(error).__name__}: {error}\n".replace("\n    ", "\n//     ")
