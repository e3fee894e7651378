"""The table of docs/blocks.md, made of the functions of `sg.simt`:  python tests/docs/blocks_page.py

What stands above the heading of the table is written by hand; the table is made, and a test fails if it is not what
this module makes.
"""

from __future__ import annotations

from pathlib import Path

from stackgrad.compiler.frontend.simt_names import SIMT_FUNCTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "blocks.md"
HEADING = "## Every function"


def table() -> str:
    """Return the generated part of the page."""
    lines = [HEADING, "", "| function behind `sg.simt.` | what it does |", "| --- | --- |"]
    for path, entry in SIMT_FUNCTIONS.items():
        lines.append(f"| `{path}({', '.join(entry.parameters)})` | {entry.text} |")
    return "\n".join([*lines, ""])


def text() -> str:
    """Return the text of the whole page."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + table()


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
