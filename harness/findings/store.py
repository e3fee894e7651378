"""The folder of findings: for each family a script, the program it was made from, and one page that lists them all.

A script is kept only if it ran in a process of its own and said that the peer is wrong. The folder may hold what others
put there: a file in its place is replaced and no link followed, and a script imports nothing that lies beside it.
"""

from __future__ import annotations

import re
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...backends.folders import write_beside
from ..apart import script_command
from ..model import to_json
from ..model.source import definitions
from ..peers import installed, peer_python
from .evidence import Evidence, evidence
from .families import LINES, Family, lines_of
from .script import can_be_written, script

WRONG = 1
"""Exit status of a script whose peer is wrong."""

SECONDS = 120.0
"""Time that a script may take."""


@dataclass(frozen=True)
class Written:
    """A family with its script. said: what the script printed."""

    family: Family
    path: Path
    said: str


def write(folder: Path, families: Iterable[Family]) -> list[Written]:
    """Scripts of all wrong gradients that are small, certain and confirmed, and the page about them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [w for family in families if (w := write_one(folder, family))]
    write_beside(folder / "FOUND.md", page(found))
    return found


def write_one(folder: Path, family: Family) -> Written | None:
    """The script of a family, run once; None if it is too long, cannot be written, or does not show the mistake."""
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
    return Written(family, path, said)


def _text(family: Family, known: Evidence) -> str:
    peer = family.signature.peer
    version = installed(peer, peer_python()) or "of unknown version"
    return script(family.finding.program, peer, known, family.signature.title, version)


def name_of(family: Family) -> str:
    """Of the file: the peer, the first trait, and what tells the kernel from others."""
    first = re.sub(r"\W+", "_", family.signature.title.split(": ")[-1].split(",")[0]).strip("_")
    text = definitions(family.finding.program)
    return f"{family.signature.peer}_{first}_{zlib.crc32(text.encode()):08x}"


def confirm(path: Path) -> tuple[int, str]:
    """Run a script by the interpreter of the peers: (exit status, what it printed)."""
    try:
        command = script_command(peer_python(), str(path))
        found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {SECONDS:.0f} s"
    return found.returncode, found.stdout


def page(found: Iterable[Written]) -> str:
    """Markdown: every family with its kernel and what its script printed."""
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
