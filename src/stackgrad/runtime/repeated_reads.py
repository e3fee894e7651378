"""Repeat the reads of a trace on the objects of an equal function, so that the function can share the trace.

The repeated reads serve to make guards on these objects. Invariant: a repetition keeps alive what a guard keeps alive,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler.frontend.reads import NUMBERS, EvaluationRead, NameRead, PartRead, Read, materialize
from ..compiler.frontend.snapshots import reference_to, word
from ..compiler.frontend.source import MISSING, outer_name
from .fresh_objects import FreshObjects

Repetition = Callable[[], Read]
"""A function that makes a read again. It may raise what the read raises."""


def repetition_of(read: Read, fresh: FreshObjects) -> Repetition:
    """Return a function that repeats a read of a trace on the objects that are now in place of those that it read.

    Args:
        read: The record of the read.
        fresh: The objects of the trace that have others in their place now.
    """
    if isinstance(read, NameRead):
        return _name_repetition(read, fresh)
    if isinstance(read, PartRead):
        return _part_repetition(read, fresh)
    return _evaluation_repetition(read, fresh)


def _name_repetition(read: NameRead, fresh: FreshObjects) -> Repetition:
    function, name = fresh.reach(read.function) or reference_to(read.function), read.name

    def again() -> Read:
        found = function()
        return NameRead(found, name, outer_name(found, name))

    return again


def _part_repetition(read: PartRead, fresh: FreshObjects) -> Repetition:
    reach, name, look = fresh.reach(read.owner) or reference_to(read.owner), read.name, read.look

    def again() -> Read:
        owner = reach()
        return PartRead(owner, name, look, look(owner))

    return again


def _evaluation_repetition(read: EvaluationRead, fresh: FreshObjects) -> Repetition:
    function, code, outer = fresh.reach(read.function) or reference_to(read.function), read.code, read.outer
    held = {name: fresh.held(value) for name, value in read.bound.items()}

    def again() -> Read:
        found, bound = function(), {name: one() for name, one in held.items()}
        around = {name: outer_name(found, name) for name in outer}
        names = bound | {name: one for name, one in around.items() if one is not MISSING}
        return EvaluationRead(found, code, outer, bound, materialize(eval(code, names)))

    return again


def evaluation_key(read: EvaluationRead) -> tuple[Any, ...]:
    """Return a key that is equal for one expression of a function, which is inlined several times, on equal objects."""
    bound = [(name, word(value) if isinstance(value, NUMBERS) else id(value)) for name, value in read.bound.items()]
    return id(read.function), read.code, tuple(bound)
