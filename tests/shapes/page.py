"""Write docs/shapes.md from the table of shapes:  python tests/shapes/page.py

The page is never edited by hand: a test fails if it is not what this module makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
PAGE = _HERE.parents[1] / "docs" / "shapes.md"
if str(_HERE) not in sys.path:
    sys.path.append(str(_HERE))

import shape_rows  # noqa: E402, F401 - fills the table
from shape_table import GROUPS, SHAPES, Refused, Shape  # noqa: E402

HEAD = """\
# Shapes

Kernels whose gradients are easily got wrong, one line each. The page is generated from the table in
`tests/shapes/`; after a change there, run `python tests/shapes/page.py`.

*right*: when called by hand, `kernel.grad()`, and under a tape. *right under a tape*: the kernel overwrites what its
own gradient reads, so a call by hand is refused with the lines of both; a tape keeps the old content. *refused*: there
is no gradient to be had, and the error says so with file, line and cure.

Each right one is run on the reference and on the CPU, in double and in single precision, under both lowerings, with
lanes that take different numbers of trips, from outputs that are not zero, twice in a row; and compared with JAX, with
dual numbers and with the order of the Taylor remainder. {counts}
"""

TITLES = {
    "loops": "Every loop: conditions, exits, ranges, nests.",
    "values": "Every value: what is carried, kept, shared, rebuilt.",
    "memory": "Every access: overwriting, scatter, atomics.",
}


def outcome(shape: Shape) -> str:
    """Return the text of the middle column: whether the gradient is right, needs a tape, or is refused."""
    if isinstance(shape.how, Refused):
        return f"refused: {shape.how.why}"
    return {"hand": "right", "tape": "right under a tape"}[shape.how]


def line(shape: Shape) -> str:
    """Return one row of the page."""
    test = "test_refused" if isinstance(shape.how, Refused) else "test_gradient"
    return f"| {shape.what} | {outcome(shape)} | `{test}[{shape.name}]` |"


def text() -> str:
    """Return the text of the whole page."""
    shapes = list(SHAPES.values())
    taped, refused = sum(s.how == "tape" for s in shapes), sum(isinstance(s.how, Refused) for s in shapes)
    right = f"{len(shapes) - refused} right, {taped} of them under a tape only"
    counts = f"{len(shapes)} shapes: {right}; {refused} refused."
    parts = [HEAD.format(counts=counts)]
    for group, title in GROUPS.items():
        rows = [line(s) for s in shapes if s.group == group]
        parts.append(f"## {title}\n\n{TITLES[group]} Tests in `tests/shapes/test_shapes.py`.\n")
        parts.append("\n".join(["| Shape | Gradient | Test |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
