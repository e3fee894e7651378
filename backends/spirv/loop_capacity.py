"""This module emits one check before a loop that adstacks have room for all its pushes and values for all its pops.

Distances are in bytes. trips·pitch cannot overflow once the trips are no more than the capacity, because the slots of a
row lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...compiler.ir import nodes as n
from ..codegen import ir
from ..codegen.stack_changes import pops_of_a_trip, pushes, pushes_of_a_trip
from .emit import Emitter
from .stack_state import StackGroup, state_of


@contextmanager
def check_loop_once(e: Emitter, loop: n.For, trips: ir.LLVMValue) -> Iterator[None]:
    """Emit one check of free slots and depths before a loop, so that its pushes and pops need no checks.

    Debug builds check each push and pop instead.

    Args:
        e: emitter of the task
        loop: loop of the kernel
        trips: number of its trips, in 64 bits
    """
    outer = e.roomy, e.filled
    if not e.m.options.debug:
        _room(e, loop, trips)
        _content(e, loop, trips)
    try:
        yield
    finally:
        e.roomy, e.filled = outer


def _room(e: Emitter, loop: n.For, trips: ir.LLVMValue) -> None:
    """Emit a trap for the case that the pushes of all trips exceed the free slots of an adstack."""
    found = pushes_of_a_trip(loop)
    # Stacks of a group have one depth, so one check serves all of them.
    groups = {id(state_of(e, name).group): push for name, push in reversed(found.items())}
    for push in groups.values():
        s, each = state_of(e, push.stack), pushes(loop.body, push.stack)
        place = s.place(e)
        bad = _beyond(e, s.group, trips, each, e.b.sub(s.group.limit, place))
        e.trap_with(
            bad,
            e.m.site("room", e.task, push),
            lambda s=s, each=each, place=place: (  # type: ignore[misc]
                e.b.add(s.group.depth(e, place), e.b.mul(trips, e.word(each))),
                s.group.capacity,
            ),
        )
    e.roomy = e.roomy | set(found)


def _content(e: Emitter, loop: n.For, trips: ir.LLVMValue) -> None:
    """Emit a trap for the case that the pops of all trips exceed the number of values on an adstack."""
    found = pops_of_a_trip(loop)
    pops = {s.stack: s for s in loop.body if isinstance(s, n.StackPop)}
    groups = {id(state_of(e, name).group): name for name in reversed(found)}
    for name in groups.values():
        s, each = state_of(e, name), found[name]
        place = s.place(e)
        bad = _beyond(e, s.group, trips, each, e.b.sub(place, s.group.base))
        e.trap_with(
            bad,
            e.m.site("empty", e.task, pops[name]),
            lambda s=s, each=each, place=place: (  # type: ignore[misc]
                e.b.mul(trips, e.word(each)),
                s.group.depth(e, place),
            ),
        )
    e.filled = e.filled | found


def _beyond(e: Emitter, group: StackGroup, trips: ir.LLVMValue, each: int, there: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that all trips, with `each` slots per trip, need more than `there` bytes."""
    b = e.b
    taken = b.mul(b.mul(trips, e.word(each)), group.pitch)
    return b.or_(b.icmp_unsigned(">", trips, group.capacity), b.icmp_unsigned(">", taken, there))
