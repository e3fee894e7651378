"""This script draws the pictures of the pages, docs/pictures/*.svg.

    python ci/draw_pictures.py             draws them
    python ci/draw_pictures.py --check     says which of them are stale, with exit status 1, and draws nothing

The script computes the numbers in the drawings, and reads those of the plot from docs/performance.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from peer_plot import plot
from svg import BLUE, GREEN, INK, LINE, ORANGE, PALE, Picture

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/pictures"
PERFORMANCE = ROOT / "docs/performance.md"


def sweeps() -> Picture:
    """Return the drawing of a loop's forward and reverse sweep, with the numbers of a launch of three trips."""
    picture = Picture(860, 330, "The forward sweep of a loop pushes on an adstack what the reverse sweep pops")
    values = [0.7]
    for _ in range(3):
        values.append(math.sin(values[-1]))
    adjoints = [1.0]
    for value in reversed(values[:-1]):
        adjoints.append(adjoints[-1] * math.cos(value))
    adjoints.reverse()
    picture.text(24, 30, "for _ in range(n[i]):  v = sin(v)", mono=True, bold=True)
    picture.text(836, 30, "one iteration of the parallel loop, n[i] = 3", color=PALE, anchor="end")
    columns = [150, 370, 590]
    picture.text(24, 82, "forward sweep", bold=True, color=BLUE)
    picture.text(24, 292, "reverse sweep", bold=True, color=ORANGE)
    for k, x in enumerate(columns):
        picture.box(x, 56, 190, 44, "#eff4ff", BLUE)
        picture.text(x + 95, 75, f"step {k}: v = sin(v)", anchor="middle", mono=True, size=12)
        picture.text(x + 95, 92, f"{values[k]:.4f} → {values[k + 1]:.4f}", anchor="middle", size=12)
        picture.arrow([(x + 95, 100), (x + 95, 138)], BLUE)
        picture.text(x + 102, 125, "push", size=11, color=BLUE)
        picture.box(x, 140, 190, 38, "#f5f7fa")
        picture.text(x + 95, 164, f"cos({values[k]:.4f}) = {math.cos(values[k]):.4f}", anchor="middle", size=12)
        picture.arrow([(x + 95, 178), (x + 95, 264)], ORANGE)
        picture.text(x + 102, 226, "pop", size=11, color=ORANGE)
        picture.box(x, 266, 190, 44, "#fff7ed", ORANGE)
        picture.text(x + 95, 285, f"step {k}: v.adj *= cos", anchor="middle", mono=True, size=12)
        picture.text(x + 95, 302, f"{adjoints[k]:.4f} ← {adjoints[k + 1]:.4f}", anchor="middle", size=12)
    for x in columns[:-1]:
        picture.arrow([(x + 190, 78), (x + 218, 78)], BLUE)
        picture.arrow([(x + 220, 288), (x + 192, 288)], ORANGE)
    picture.text(24, 164, "adstack", bold=True)
    picture.arrow([(780, 78), (820, 78), (820, 288), (784, 288)], PALE)
    return picture


def pipeline() -> Picture:
    """Return the drawing of the way from a Python function to machine code."""
    picture = Picture(860, 250, "A Python function becomes a forward kernel and a gradient kernel, each compiled")
    steps = [
        (20, 96, "Python function", "your program"),
        (190, 96, "kernel", "typed statements"),
        (400, 40, "forward kernel", "passes"),
        (400, 152, "gradient kernel", "reverse transform, passes"),
        (640, 40, "backend", "CPU, CUDA, Vulkan"),
        (640, 152, "the same backend", "and the sizes of its adstacks"),
    ]
    for x, y, name, note in steps:
        width = 190 if x >= 400 else 140
        picture.box(x, y, width, 56, "#eff4ff" if "kernel" in name else "#f5f7fa", BLUE if "kernel" in name else LINE)
        picture.text(x + width / 2, y + 25, name, anchor="middle", bold=True)
        picture.text(x + width / 2, y + 43, note, anchor="middle", size=11, color=PALE)
    picture.arrow([(160, 124), (188, 124)])
    picture.arrow([(330, 116), (365, 116), (365, 68), (398, 68)])
    picture.arrow([(330, 132), (365, 132), (365, 180), (398, 180)])
    picture.arrow([(590, 68), (638, 68)])
    picture.arrow([(590, 180), (638, 180)])
    picture.text(174, 88, "traced", size=11, color=PALE, anchor="middle")
    picture.text(
        20, 236, "The interpreter of the reference runs each of these kernels as well, and defines what it means."
    )
    return picture


def depth() -> Picture:
    """Return the drawing of adstacks whose depths are the trip counts of their lanes."""
    trips = (3, 5, 0, 2, 4)
    picture = Picture(620, 220, "Each lane has a stack as deep as its loop is long; the row is as deep as the largest")
    for k, count in enumerate(trips):
        x = 150 + 84 * k
        for slot in range(max(trips)):
            taken = slot < count
            fill, edge = ("#dbe7ff", BLUE) if taken else ("#ffffff", "#e4e7eb")
            picture.box(x, 146 - 28 * slot, 60, 24, fill, edge)
        picture.text(x + 30, 192, f"n[{k}] = {count}", anchor="middle", mono=True, size=12)
    top = 146 - 28 * (max(trips) - 1)
    picture.line(140, top, 580, top, ORANGE, dashed=True)
    picture.text(20, top + 6, f"depth {max(trips)}", bold=True, color=ORANGE)
    picture.text(20, top + 24, "= max n[i]", mono=True, size=12)
    picture.text(20, 212, "An iteration without steps pushes nothing and needs no row.", size=12, color=PALE)
    return picture


def heap() -> Picture:
    """Return the drawing of rows in a slab, each used by one thread for iteration after iteration."""
    picture = Picture(720, 230, "A slab holds one row for each thread; iterations of a thread use its row in turns")
    picture.text(20, 30, "slab of reals", bold=True)
    for row in range(3):
        y = 48 + 44 * row
        picture.text(20, y + 22, f"row of thread {row}", size=12)
        for slot in range(8):
            stack = "v" if slot < 5 else "w"
            fill, edge = ("#dbe7ff", BLUE) if stack == "v" else ("#d9f3e8", GREEN)
            picture.box(150 + 44 * slot, y, 40, 32, fill, edge)
            picture.text(170 + 44 * slot, y + 20, f"{stack}{slot if slot < 5 else slot - 5}", anchor="middle", size=11)
        picture.arrow([(512, y + 16), (540, y + 16)])
        picture.text(548, y + 20, "one iteration after another", size=12)
    picture.text(150, 196, "stack of v: 5 slots", size=12, color=INK)
    picture.text(370, 196, "stack of w: 3 slots", size=12, color=INK)
    picture.text(20, 218, "Memory grows with the threads, not with the iterations.", size=12, color=PALE)
    return picture


def peers() -> Picture:
    """Return the plot that compares the times of this package with those of its peers."""
    return plot(PERFORMANCE.read_text(encoding="utf-8"))


PICTURES: dict[str, Callable[[], Picture]] = {
    "sweeps.svg": sweeps,
    "pipeline.svg": pipeline,
    "depth.svg": depth,
    "heap.svg": heap,
    "peers.svg": peers,
}
"""The function that draws each file."""


def stale(folder: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the names of picture files that are missing, that differ from their texts, or that have no text."""
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    return sorted(name for name in {*present, *texts} if present.get(name) != texts.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the pictures, or say which are stale, and return the exit status."""
    parser = argparse.ArgumentParser(description="Draws docs/pictures.")
    parser.add_argument("--check", action="store_true", help="draw nothing; exit status 1 if a picture is stale")
    options = parser.parse_args(arguments)
    texts = {name: draw().svg() for name, draw in PICTURES.items()}
    if options.check:
        differing = stale(FOLDER, texts)
        print("\n".join(f"{name} is stale: run python ci/draw_pictures.py" for name in differing) or "up to date")
        return 1 if differing else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
