"""This module contains mutants of launches: wrong offsets and sizes of adstacks, and sizes that are not updated."""

from __future__ import annotations

from typing import Any

from ....backends.base import SLABS, Sizes
from ....backends.codegen.layout import StackLayout
from ....backends.cpu import stacks
from ....backends.launching import prelaunch
from .planting import Mutant, Plant, patched


def _offset_of_the_one_before() -> Plant:
    right = stacks._place

    def wrong(out: stacks.StackPlan, found: list[StackLayout], sizes: Sizes, places: int) -> int:
        size = right(out, found, sizes, places)
        known = dict(out.words)
        moved = {s.offset_at: known[before.offset_at] for before, s in zip(found, found[1:])}
        out.words = [(at, moved.get(at, word)) for at, word in out.words]
        return size

    return patched(stacks, "_place", wrong)


def _gate_of_the_next_slab() -> Plant:
    right = stacks.stack_capacity

    def wrong(stack: StackLayout, sizes: Sizes) -> int:
        other = SLABS[(SLABS.index(stack.slab) + 1) % len(SLABS)]
        return 0 if sizes.rows.get((stack.task, other)) == 0 else right(stack, sizes)

    return patched(stacks, "stack_capacity", wrong)


def _versions_ignored() -> Plant:
    right = prelaunch.PreLaunch.key

    def wrong(self: Any, arrays: Any, scalars: Any, draws: Any, versions: tuple[int, ...] | None) -> object:
        return right(self, arrays, scalars, draws, versions and ())

    return patched(prelaunch.PreLaunch, "key", wrong)


MUTANTS = (
    Mutant(
        "offsets-confused",
        "A stack begins where the one before it in its slab does.",
        "stacks of a task lie one after another in its rows",
        _offset_of_the_one_before,
    ),
    Mutant(
        "gate-of-other-slab",
        "A task gets no slots of one kind if no iteration needs any of the next kind.",
        "a slab of a task has rows if an iteration pushes to that slab",
        _gate_of_the_next_slab,
    ),
    Mutant(
        "sizes-outlive-content",
        "Sizes of adstacks are used again when what decides them was written.",
        "sizes are kept for the versions of all that the counting kernel loads",
        _versions_ignored,
        "relaunch",
    ),
)
