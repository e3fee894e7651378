"""This module stores golden records: sorted lines with a digest for each kernel and stage, optionally with texts.

    # stackgrad golden 2
    # LLVM 22.1.0, llvmlite 0.50.0
    ops/sin.kir:01-f32 1.forward.02 9f86d081884c7d65 simplify

The words of a line are kernel, stage, digest and name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .inputs import GoldenError
from .texts import StageText

MAGIC = "# stackgrad golden 2"
"""First line of a record; its number rises when the net writes equal code in another form (ci/golden.sh)."""

_LENGTH = 16
"""Number of hexadecimal digits of a digest; 64 bits are enough for a hundred thousand texts."""


@dataclass(frozen=True, order=True)
class RecordRow:
    """Represent one line of a golden record: a kernel, a compiler stage, and the digest of its text there.

    Attributes:
        kernel: Name of the kernel.
        stage: Stage of the text.
        digest: Digest of the text.
        name: Name of the pass or part, which is not compared.
    """

    kernel: str
    stage: str
    digest: str
    name: str = ""

    @property
    def line(self) -> str:
        """Return the text of the row as one line of the record file."""
        return f"{self.kernel} {self.stage} {self.digest} {self.name}".rstrip()


@dataclass(frozen=True)
class GoldenRecord:
    """Represent the digests of all code that one checkout generates.

    Attributes:
        rows: A row for each kernel and stage.
        tools: A line for each foreign tool that the generated code depends on, see `code.tools`.
    """

    rows: tuple[RecordRow, ...]
    tools: tuple[str, ...] = ()

    def by_kernel(self) -> Mapping[str, dict[str, RecordRow]]:
        """Return the rows of the record as {kernel: {stage: row}}."""
        found: dict[str, dict[str, RecordRow]] = {}
        for row in self.rows:
            found.setdefault(row.kernel, {})[row.stage] = row
        return found


def row_of(text: StageText) -> RecordRow:
    """Return the row of a golden record for a text of IR or code, with its digest."""
    digest = hashlib.sha256(text.text.encode()).hexdigest()[:_LENGTH]
    return RecordRow(text.kernel, text.stage, digest, text.name)


def write_record(path: Path, rows: Iterable[RecordRow], tools: Iterable[str]) -> None:
    """Write the rows of a golden record, and the versions of the tools, to a file."""
    lines = [MAGIC, *(f"# {tool}" for tool in tools), *(row.line for row in sorted(rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_record(path: Path) -> GoldenRecord:
    """Return the golden record that `write_record` wrote to a file.

    Raises:
        GoldenError: There is no such file, or it is no record.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"cannot read {path}: {error}") from None
    if not lines or lines[0] != MAGIC:
        raise GoldenError(f"{path} is no record: its first line is not {MAGIC!r}")
    tools = tuple(line[2:] for line in lines[1:] if line.startswith("# "))
    rows = [_row(path, line) for line in lines[1:] if not line.startswith("# ")]
    return GoldenRecord(tuple(rows), tools)


def _row(path: Path, line: str) -> RecordRow:
    words = line.split(" ", 3)
    if len(words) < 3:
        raise GoldenError(f"{path} is no record: it has the line {line!r}")
    return RecordRow(*words)


# ---- texts --------------------------------------------------------------------------------------------------


def text_path(folder: Path, kernel: str, stage: str) -> Path:
    """Return the path at which the text of a kernel and stage is stored in a folder."""
    return folder / quote(kernel, safe="") / f"{stage}.txt"


def keep_text(folder: Path, text: StageText) -> None:
    """Write an IR or code text to a file in a folder of texts."""
    path = text_path(folder, text.kernel, text.stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.text, encoding="utf-8")


def read_text(folder: Path, kernel: str, stage: str) -> list[str] | None:
    """Return the lines of a text, or None if the folder does not contain it."""
    path = text_path(folder, kernel, stage)
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else None
