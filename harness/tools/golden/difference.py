"""This module compares two golden records, and shows the texts of each kernel at the first stage that differs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .record import GoldenRecord, RecordRow, read_text

CONTEXT, MOST_LINES = 3, 60
"""Maximum numbers of lines of a diff around each change, and of the whole diff."""


@dataclass(frozen=True)
class Difference:
    """Represent a kernel for which two checkouts generate different code.

    Attributes:
        kernel: Name of the kernel.
        base: Row of the base at the first stage that differs, or None if the base has no such stage.
        head: Row of the head at the first stage that differs, or None if the head has no such stage.
        count: Number of stages that differ.
        stages: Number of all stages.
    """

    kernel: str
    base: RecordRow | None
    head: RecordRow | None
    count: int
    stages: int

    @property
    def stage(self) -> str:
        """Return the name of the first compiler stage after which the texts of the two checkouts differ."""
        row = self.base or self.head
        assert row is not None
        return row.stage

    @property
    def title(self) -> str:
        """Return the first differing stage, with the pass names of both checkouts."""
        names = dict.fromkeys(row.name for row in (self.base, self.head) if row and row.name)
        return " ".join([self.stage, *(f"({name})" for name in names)])

    @property
    def sides(self) -> str:
        """Return a clause which says that only one of the two checkouts has the stage, or "" if both do."""
        return "" if self.base and self.head else f", which only {'the base' if self.base else 'the head'} has"


def differences(base: GoldenRecord, head: GoldenRecord) -> list[Difference]:
    """Return the difference of each kernel that differs at some stage or is in one of the records only."""
    before, after = base.by_kernel(), head.by_kernel()
    found = (_of(name, before.get(name, {}), after.get(name, {})) for name in sorted({*before, *after}))
    return [difference for difference in found if difference is not None]


def _of(kernel: str, before: dict[str, RecordRow], after: dict[str, RecordRow]) -> Difference | None:
    stages = sorted({*before, *after})
    wrong = [s for s in stages if _digest(before.get(s)) != _digest(after.get(s))]
    if not wrong:
        return None
    return Difference(kernel, before.get(wrong[0]), after.get(wrong[0]), len(wrong), len(stages))


def _digest(row: RecordRow | None) -> str:
    return row.digest if row else ""


def shown_differences(found: Sequence[Difference], most: int) -> list[Difference]:
    """Return at most `most` differences to show, one for each stage at which kernels first differ."""
    by_stage = {difference.title: difference for difference in reversed(found)}
    return [by_stage[title] for title in sorted(by_stage)][:most]


def summary(found: Sequence[Difference], base: GoldenRecord, head: GoldenRecord) -> Iterator[str]:
    """Yield lines that say how many kernels differ, and at which stage first."""
    for before, after in zip(base.tools, head.tools):
        if before != after:
            yield f"made by other tools: {before}, {after}"
    if not found:
        yield f"identical: {len(base.by_kernel())} kernels, {len(base.rows)} texts"
        return
    total = len({*base.by_kernel(), *head.by_kernel()})
    yield f"different: {len(found)} of {total} kernels"
    titles = [difference.title for difference in found]
    for title in sorted(set(titles)):
        first = next(d for d in found if d.title == title)
        yield f"  {titles.count(title):5} first at {title}{first.sides}: {first.kernel}"


def shown(difference: Difference, base: Path, head: Path) -> Iterator[str]:
    """Yield lines that show one difference, with a unified diff of its first stage.

    Args:
        difference: The difference to show.
        base: Folder with the texts of the base.
        head: Folder with the texts of the head.
    """
    kernel, stage = difference.kernel, difference.stage
    count = f"{difference.count} of {difference.stages} stages"
    yield f"{kernel} differs first at {difference.title}{difference.sides}; {count}"
    before, after = read_text(base, kernel, stage), read_text(head, kernel, stage)
    if before is None and after is None:
        yield f"    neither folder has its text; write it with --only '{kernel}' --texts DIR"
        return
    lines = list(difflib.unified_diff(before or [], after or [], "base", "head", n=CONTEXT, lineterm=""))
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"... {len(lines) - MOST_LINES} lines more"
