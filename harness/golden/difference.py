"""This module compares two records and says at which stage each kernel differs first, with the texts side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .record import Record, Row, read_text

CONTEXT, MOST_LINES = 3, 60
"""A diff has so many lines around each change, and in all."""


@dataclass(frozen=True)
class Difference:
    """A difference is a kernel that two checkouts make otherwise. base, head: the first rows that differ, None where a
    side has none. count: stages that differ, of `stages`.
    """

    kernel: str
    base: Row | None
    head: Row | None
    count: int
    stages: int

    @property
    def stage(self) -> str:
        """This property is the first stage that differs."""
        row = self.base or self.head
        assert row is not None
        return row.stage

    @property
    def title(self) -> str:
        """This property is that stage, with what each side calls it."""
        names = dict.fromkeys(row.name for row in (self.base, self.head) if row and row.name)
        return " ".join([self.stage, *(f"({name})" for name in names)])

    @property
    def sides(self) -> str:
        """This property says which side lacks the stage; nothing if both have it."""
        return "" if self.base and self.head else f", which only {'the base' if self.base else 'the head'} has"


def differences(base: Record, head: Record) -> list[Difference]:
    """This function finds every kernel of which a stage differs, or that one side alone has."""
    before, after = base.by_kernel(), head.by_kernel()
    found = (_of(name, before.get(name, {}), after.get(name, {})) for name in sorted({*before, *after}))
    return [difference for difference in found if difference is not None]


def _of(kernel: str, before: dict[str, Row], after: dict[str, Row]) -> Difference | None:
    stages = sorted({*before, *after})
    wrong = [s for s in stages if _digest(before.get(s)) != _digest(after.get(s))]
    if not wrong:
        return None
    return Difference(kernel, before.get(wrong[0]), after.get(wrong[0]), len(wrong), len(stages))


def _digest(row: Row | None) -> str:
    return row.digest if row else ""


def chosen(found: Sequence[Difference], most: int) -> list[Difference]:
    """This function picks the differences worth showing: one for each first stage, as many as are wanted."""
    by_stage = {difference.title: difference for difference in reversed(found)}
    return [by_stage[title] for title in sorted(by_stage)][:most]


def summary(found: Sequence[Difference], base: Record, head: Record) -> Iterator[str]:
    """This function says in lines how many kernels differ, and at which stage first."""
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
    """This function shows one difference in lines, with a unified diff of its first stage.

    Args:
        difference: What is shown.
        base: A folder with the texts of one side.
        head: A folder with those of the other.
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
