"""The corpus stores one folder for each finding, with everything that is needed to run the finding again or to read it.

    case.py        runs by itself under any backend: python case.py cpu
    kernel.ir      the kernel as traced
    program.json   the program and its inputs, exactly
    plan.json      launches and executors of the case, and the comparison that failed
    verdict.txt    a table: comparison by verdict

A corpus may come from an untrusted author. Only `program.json` and `plan.json` are read, as small regular files of the
folder itself and as data that closed tables allow (`plain_data`). `case.py` is for people and is never run. A written
file replaces a link in its place and does not follow the link.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from ....backends.folders import Folder
from ....compiler.errors import StackgradError
from ....compiler.ir.printer import print_kernel
from ..model import Program, from_json, load, render_source, to_json
from ..plain_data import MalformedDataError, without_controls
from .plan import FuzzPlan, Key
from .result import JudgedComparison
from .statistics import Finding
from .words import SCHEMA

PROGRAM, PLAN, SOURCE, KERNEL, VERDICT = "program.json", "plan.json", "case.py", "kernel.ir", "verdict.txt"


T = TypeVar("T")
LONGEST = 4 << 20
"""Largest number of bytes of a file of a corpus."""


@dataclass(frozen=True)
class StoredPlan:
    """Represent the file plan.json of a stored finding: the plan of its case, and the comparison that failed."""

    plan: FuzzPlan
    failed: Key | None


@dataclass(frozen=True)
class CorpusEntry:
    """Represent one entry of the corpus: a stored finding's folder, program, plan and failed comparison.

    Attributes:
        key: The comparison that failed; None if the process died.
    """

    folder: Path
    program: Program
    plan: FuzzPlan
    key: Key | None


def write(root: Path, finding: Finding) -> Path:
    """Write a finding to a new folder, or to the folder that holds the same program, and return the folder."""
    text = to_json(finding.program, indent=1)
    folder = root / f"{_slug(finding)}-{zlib.crc32(text.encode()):08x}"
    root.mkdir(parents=True, exist_ok=True)
    plan = {k: v for k, v in asdict(finding.plan).items() if k != "only"}
    stored = json.dumps({"plan": plan, "failed": failed_key(finding.judged)}, indent=1)
    with Folder(root, follow=True) as corpus, _made(corpus, folder.name) as held:
        held.write(PROGRAM, text + "\n")
        held.write(PLAN, stored + "\n")
        held.write(SOURCE, render_source(finding.program))
        held.write(KERNEL, _kernel_text(finding.program))
        held.write(VERDICT, verdict_text(finding.judged, finding.crash))
    return folder


def _made(corpus: Folder, name: str) -> Folder:
    """Return the folder of a corpus entry, created if it is missing. Raise OSError if it is no folder."""
    if name not in corpus.names():
        corpus.make(name)
    return corpus.folder(name)


def read(folder: Path) -> CorpusEntry:
    """Return the corpus entry that `write` stored in a folder. Raise ValueError if the folder is no entry.

    The folder itself may be a link, because the user named it; nothing in the folder may be a link.

    Raises:
        ValueError: The folder is no entry; the message names the file, the place and the reason.
    """
    try:
        with Folder(folder, follow=True) as held:
            return _read(folder, held)
    except OSError as error:
        raise unusable_error(folder, error) from None


def _read(folder: Path, held: Folder) -> CorpusEntry:
    program = _parsed(folder, held, PROGRAM, from_json)
    stored = _parsed(folder, held, PLAN, lambda text: SCHEMA.parse(text, StoredPlan))
    return CorpusEntry(folder, program, stored.plan, stored.failed)


def _parsed(folder: Path, held: Folder, name: str, parse: Callable[[str], T]) -> T:
    """Return the parsed contents of a file of an entry. Raise ValueError if the file cannot be read or parsed."""
    try:
        return parse(held.read(name, LONGEST).decode())
    except (OSError, MalformedDataError, UnicodeDecodeError) as error:
        raise unusable_error(folder / name, error) from None


def unusable_error(path: Path, error: Exception) -> ValueError:
    """Return the error for a file or folder of a corpus that cannot be used."""
    reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
    reason = "it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else reason
    cure = (
        "" if isinstance(error, MalformedDataError) else "; cure: keep regular files of a corpus there, or leave it out"
    )
    return ValueError(f"{without_controls(str(path))} is no part of a corpus: {reason}{cure}")


def entries(roots: Iterable[Path]) -> Iterator[CorpusEntry]:
    """Yield every corpus entry at or in some folders, in order of name; a missing folder has no entries.

    Raises:
        ValueError: An entry cannot be read.
    """
    for root in roots:
        try:
            with Folder(root, follow=True) as held:
                if PROGRAM in held.names():
                    yield _read(root, held)
                    continue
                for name in held.names():
                    yield from _entry(root / name, held)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unusable_error(root, error) from None


def _entry(path: Path, corpus: Folder) -> Iterator[CorpusEntry]:
    """Yield the entry in a folder of a corpus, if there is one; a link is not followed."""
    try:
        about = corpus.look(path.name)
        if S_ISREG(about.st_mode):
            return
        with corpus.folder(path.name) as held:
            if PROGRAM in held.names():
                yield _read(path, held)
    except OSError as error:
        raise unusable_error(path, error) from None


def failed_key(judged: Iterable[JudgedComparison]) -> Key | None:
    """Return the direction and the executor of the first comparison that failed, or None if none failed."""
    return next((j.key for j in judged if j.verdict == "disagree"), None)


def verdict_text(judged: Iterable[JudgedComparison], crash: str = "") -> str:
    """Return the verdicts as a text table with one line for each comparison, or the text of the crash."""
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
