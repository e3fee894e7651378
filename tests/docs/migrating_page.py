"""Write the tables of docs/migrating.md from the names of the peers:  python tests/docs/migrating_page.py

The text above the heading of the tables is written by hand; the text below is generated, and a test fails if it differs
from what this module generates.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stackgrad.compat.described import text_of
from stackgrad.compat.peers import PEERS, modules_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migrating.md"
HEADING = "## Every name"
INTRODUCTION = """\
These tables are made by `python tests/docs/migrating_page.py`. They hold every public name of Quadrants {quadrants} and
Taichi {taichi}, and what a program gets for it: run by `python -m stackgrad.compat`, or with the import changed. A name
that is refused can be imported and passed around; each use of it raises an error with the cure that stands here.
"""
MODULES = (
    "",
    "ad",
    "algorithms",
    "aot",
    "experimental",
    "graph",
    "interop",
    "lang.simt.block",
    "lang.simt.grid",
    "lang.simt.subgroup",
    "lang.simt.warp",
    "linalg",
    "math",
    "profiler",
    "sparse",
    "tools",
    "types",
    "ui",
)
"""The modules of the peers that programs address, by their paths."""
SHOWN = {"quadrants": "Quadrants", "taichi": "Taichi"}


def rows(path: str) -> dict[str, list[str]]:
    """Return the names of a module by their common text, each with the peer if only one peer has it."""
    owners: dict[str, list[str]] = {}
    for peer in PEERS:
        for name in modules_of(peer).get(path, ()):
            owners.setdefault(name, []).append(peer)
    found: dict[str, list[str]] = {}
    for name in sorted(owners, key=str.lower):
        alone = f" ({SHOWN[owners[name][0]]})" if len(owners[name]) < len(PEERS) else ""
        found.setdefault(text_of(owners[name][0], path, name), []).append(f"`{name}`{alone}")
    return found


def lines() -> Iterator[str]:
    """Return the generated part of the page."""
    versions = {peer: ".".join(map(str, version)) for peer, version in PEERS.items()}
    yield from (HEADING, "", *INTRODUCTION.format(**versions).splitlines())
    for path in MODULES:
        title = path.removeprefix("lang.") or "The top"
        yield from ("", f"### {f'`{title}`' if path else title}", "", "| names | here |", "| --- | --- |")
        for text, names in sorted(rows(path).items(), key=lambda row: (-len(row[1]), row[0])):
            yield f"| {', '.join(names)} | {text} |"


def page() -> str:
    """Return the text of the whole page."""
    written = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    return written.rstrip() + "\n\n" + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
