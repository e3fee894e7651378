"""This module writes the folder of findings: a script and a program for each family, and one page that lists them all.

A script is kept only if it ran in its own process and showed that the peer is wrong. The folder may hold files of
strangers: a file in the place of a script is replaced and no link is followed, and a script imports nothing that lies
beside it.
"""

from __future__ import annotations

import re
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ....backends.folders import write_beside
from ..isolated_python import script_command
from ..model import to_json
from ..model.source import definitions
from ..peers import installed, peer_python
from .evidence import Evidence, evidence
from .families import LINES, Family, lines_of
from .script import can_be_written, script

WRONG = 1
"""Exit status of a script that shows that the peer is wrong."""

SECONDS = 120.0
"""Time that a script may take, in seconds."""


@dataclass(frozen=True)
class WrittenFamily:
    """Represent a family of findings, with the script that shows the peer to be wrong.

    Attributes:
        family: the family that the script shows.
        path: the path of the script.
        said: the output of the script.
    """

    family: Family
    path: Path
    said: str


def write(folder: Path, families: Iterable[Family]) -> list[WrittenFamily]:
    """Write scripts of all wrong gradients that are small, certain and confirmed, and the page about them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [w for family in families if (w := write_one(folder, family))]
    write_beside(folder / "FOUND.md", page(found))
    return found


def write_one(folder: Path, family: Family) -> WrittenFamily | None:
    """Write and run the script of a family; return None if the program is unsuitable or no mistake shows."""
    program = family.finding.program
    known = evidence(program)
    if known is None or not known.suffices or not can_be_written(program) or lines_of(program) > LINES:
        return None
    path = folder / f"{name_of(family)}.py"
    write_beside(path, _text(family, known))
    status, said = confirm(path)
    if status != WRONG:
        path.unlink()
        return None
    write_beside(path.with_suffix(".json"), to_json(program, indent=1) + "\n")
    return WrittenFamily(family, path, said)


def _text(family: Family, known: Evidence) -> str:
    peer = family.signature.peer
    version = installed(peer, peer_python()) or "of unknown version"
    return script(family.finding.program, peer, known, family.signature.title, version)


def name_of(family: Family) -> str:
    """Return the name of a family's script: the peer, the first trait, and a checksum of the kernel."""
    first = re.sub(r"\W+", "_", family.signature.title.split(": ")[-1].split(",")[0]).strip("_")
    text = definitions(family.finding.program)
    return f"{family.signature.peer}_{first}_{zlib.crc32(text.encode()):08x}"


def confirm(path: Path) -> tuple[int, str]:
    """Run a script with the interpreter of the peers. Return its exit status and its output."""
    try:
        command = script_command(peer_python(), str(path))
        found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {SECONDS:.0f} s"
    return found.returncode, found.stdout


def page(found: Iterable[WrittenFamily]) -> str:
    """Return a Markdown page with the kernel of every family and the output of its script."""
    parts = ["# Wrong gradients of peers", ""]
    for w in found:
        kernel = definitions(w.family.finding.program, w.family.signature.peer).strip()
        lines = [line for line in w.said.splitlines() if not line.startswith("[")]
        parts += [
            f"## {w.family.signature.title}",
            "",
            f"`{w.path.name}`; made small {w.family.count} times.",
            "",
            "```python",
            kernel,
            "```",
            "",
            "```",
            *lines,
            "```",
            "",
        ]
    return "\n".join(parts)
