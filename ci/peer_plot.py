"""This module draws the plot of the README: times of this package beside those of peers, from docs/performance.md.

The numbers, and the machine and the versions that the plot names, come from the first table of the page; this module
contains no measurements. Rows that were measured on another machine, or that are not times, are left out.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from svg import BLUE, GREEN, LINE, ORANGE, PALE, Picture

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
SYSTEMS = {"here": ("stackgrad", BLUE), "Quadrants": ("Quadrants", ORANGE), "JAX": ("JAX", GREEN)}
"""Columns of the table, with name and color in the plot."""
LEFT, RIGHT, TOP, STEP = 330, 40, 78, 22


class PageError(ValueError):
    """Signal that the page does not have the table or the machine that the plot needs."""


@dataclass(frozen=True)
class Sample:
    """Represent a row of the table.

    Attributes:
        work: the work that was timed, with its variant.
        times: for each system that was timed, its time in seconds.
    """

    work: str
    times: dict[str, float]


def seconds(cell: str) -> float | None:
    """Return the time that a cell of the table states, or None if it states none."""
    match = re.fullmatch(rf"([\d.,]+) ({'|'.join(UNITS)})", cell.strip())
    return float(match[1].replace(",", "")) * UNITS[match[2]] if match else None


def machine(page: str) -> str:
    """Return what the page says of the machine and the versions of the first table.

    Raises:
        PageError: the page does not name them.
    """
    match = re.search(r"^One run on an? (.*?):$", page, re.DOTALL | re.MULTILINE)
    if match is None:
        raise PageError("docs/performance.md does not say on which machine the first table was measured")
    return " ".join(match[1].split())


def samples(page: str) -> list[Sample]:
    """Return the rows of the first table that have times of this package and of a peer, measured on one machine.

    Raises:
        PageError: there is no table, or no such row.
    """
    match = re.search(r"^(\| work .*?)\n\| ---.*?\n((?:\|.*\n)+)", page, re.MULTILINE)
    if match is None:
        raise PageError("docs/performance.md has no table of works")
    head = [cell.strip() for cell in match[1].strip("|").split("|")]
    found, work = [], ""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in match[2].splitlines()]
    elsewhere = [k for k, row in enumerate(rows) if "another machine" in row[0]]
    for k, row in enumerate(rows):
        begins = row[0] and k not in elsewhere
        work = row[0].partition(":")[0].strip("`") if begins else work
        cells = dict(zip(head, row))
        times = {name: time for name in SYSTEMS if (time := seconds(cells.get(name, ""))) is not None}
        # A note in the first cell speaks of the work that began in the row above.
        if "here" in times and len(times) > 1 and not {k, k + 1} & set(elsewhere):
            found.append(Sample(f"{work}, {row[1]}" if row[1] else work, times))
    if not found:
        raise PageError("the table of docs/performance.md has no row with a peer")
    return found


def label(time: float) -> str:
    """Return the text for a power of ten of seconds, as a whole number with the largest possible unit."""
    unit = next(name for name in ("s", "ms", "µs", "ns") if time >= 0.999 * UNITS[name])
    return f"{time / UNITS[unit]:.0f} {unit}"


def plot(page: str) -> Picture:
    """Return the plot of the numbers on a page: a row for each work, a dot for each system, times on a log scale."""
    rows, where = samples(page), machine(page)
    times = [time for row in rows for time in row.times.values()]
    low, high = math.floor(math.log10(max(min(times), 1e-9))), math.ceil(math.log10(max(times)))
    width, bottom = 860, TOP + STEP * len(rows)
    picture = Picture(width, bottom + 62, f"Times of stackgrad, Quadrants and JAX on the same works, on {where}")

    def position(time: float) -> float:
        scale = (width - LEFT - RIGHT) / (high - low + 1)
        return LEFT + (math.log10(time) - low + 1) * scale

    picture.text(
        20, 28, "Time of a launch (sweeps: of a step) on a log scale; further left is better", size=15, bold=True
    )
    for k, (name, color) in enumerate(SYSTEMS.values()):
        picture.dot(LEFT + 8 + 110 * k, 52, color)
        picture.text(LEFT + 20 + 110 * k, 56, name)
    for power in range(low, high + 1):
        x = position(10.0**power)
        picture.line(x, TOP - 8, x, bottom, "#e4e7eb")
        picture.text(x, bottom + 16, label(10.0**power), size=11, color=PALE, anchor="middle")
    for k, row in enumerate(rows):
        y = TOP + STEP * k + 8
        picture.text(LEFT - 14, y + 4, row.work, size=12, anchor="end")
        ends = [position(time) for time in row.times.values()]
        picture.line(min(ends), y, max(ends), y, LINE)
        for name, time in row.times.items():
            picture.dot(position(time), y, SYSTEMS[name][1])
    picture.text(20, bottom + 36, f"{where}.", size=11, color=PALE)
    picture.text(20, bottom + 51, "Medians of 7, from docs/performance.md.", size=11, color=PALE)
    return picture
