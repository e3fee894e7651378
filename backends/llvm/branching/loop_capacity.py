"""This module emits one check before a loop that its adstacks have room for the pushes of all trips.

    for %8 in %3 .. %6 { ..; adstack_push s, %7; .. }      →      room for (trips of the loop) more values, or overflow;
                                                                  then pushes without a check

holds of a stack if every trip pushes the same number of values: all pushes in the loop stand in its body itself, the
body neither pops nor empties the stack, and nothing leaves the loop early. In any other place each push compares.

On a GPU the same is done for pops: a loop whose trips pop as many values each is compared once, and inside the stack is
taken to be filled up to the last pop of a trip. Inside these loops the depth serves only for the address of a slot:
that is kept in a pointer that moves slot by slot (`Cursor`), and the depth gets its new value after the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....compiler.ir import nodes as n
from ...codegen import ir
from ...codegen.stack_changes import after_last_pop, pops_of_a_trip, pushes, pushes_of_a_trip, reads
from ...codegen.types import I64, const
from ..emit import Emitter
from .stack_state import Cursor, StackGroup, state_of


@contextmanager
def check_room_once(e: Emitter, loop: n.For, trips: ir.LLVMValue) -> Iterator[None]:
    """Emit the capacity checks of a loop's adstacks before the loop, so that its pushes need no checks.

    Debug builds compare at each push, so that the error names the very push.
    """
    outer = e.flow.roomy
    found = {} if e.m.options.debug else pushes_of_a_trip(loop)
    # One comparison serves all stacks of a group; the last entry for a key stays, so the first push names the error.
    groups = {id(state_of(e, name).group): push for name, push in reversed(found.items())}
    for push in groups.values():
        s = state_of(e, push.stack)
        check_room(e, loop, push, trips, s.depth(e), s.group.capacity)
    e.flow.roomy = outer | set(found)
    with _cursors(e, {name: pushes(loop.body, name) for name in found if not reads(loop.body, name)}, trips, 0):
        yield
    e.flow.roomy = outer


def check_room(
    e: Emitter, loop: n.For, push: n.StackPush, trips: ir.LLVMValue, depth: ir.LLVMValue, capacity: ir.LLVMValue
) -> None:
    """Emit a check that a stack has room for the pushes of `trips` trips; if not, the launch ends with an error.

    Args:
        e: Emitter of the function.
        loop: Loop that pushes.
        push: A push onto the stack, which the error names.
        trips: Trip count of the loop, i64.
        depth: Number of slots in use.
        capacity: Number of slots of the stack.
    """
    b, each = e.b, pushes(loop.body, push.stack)
    room = b.sub(capacity, depth)
    # Trips are compared, because the number of values itself might not fit 64 bits.
    trips_that_fit = room if each == 1 else b.udiv(room, const(I64, each))
    needed = b.add(depth, trips if each == 1 else b.mul(trips, const(I64, each)))
    e.flow.trap_if(b.icmp_unsigned(">", trips, trips_that_fit), e.m.site("room", e.task, push), needed, capacity)


@contextmanager
def check_depth_once(e: Emitter, loop: n.For, trips: ir.LLVMValue) -> Iterator[None]:
    """Emit depth checks of a loop's adstacks before the loop, so that its pops need none (GPUs only)."""
    outer = e.flow.filled
    found = pops_of_a_trip(loop) if e.m.target.entries and not e.m.options.debug else {}
    pops = {s.stack: s for s in loop.body if isinstance(s, n.StackPop)}
    # One comparison serves all stacks of a group.
    groups = {id(state_of(e, name).group): name for name in reversed(found)}
    for name in groups.values():
        depth, wanted = state_of(e, name).depth(e), e.b.mul(trips, const(I64, found[name]))
        e.flow.trap_if(e.b.icmp_unsigned(">", wanted, depth), e.m.site("empty", e.task, pops[name]), wanted, depth)
    e.flow.filled = outer | found
    early = {name: -count for name, count in found.items() if not reads(after_last_pop(loop.body, name), name)}
    with _cursors(e, early, trips, -1):
        yield
    e.flow.filled = outer


# ---- addresses instead of depths ----------------------------------------------------------------------------


@contextmanager
def _cursors(e: Emitter, changes: dict[str, int], trips: ir.LLVMValue, at: int) -> Iterator[None]:
    """Keep the cursor of each adstack in a register during the `with` block, unless its slots have adjoints.

    Stacks whose slots have adjoints get none, nor does a group of stacks of which one needs its depth.

    Args:
        e: Emitter of the function.
        changes: How much each trip changes the depth of each stack.
        trips: Trip count of the loop, i64.
        at: Distance of the cursor from the depth, in slots.
    """
    outer = e.flow.cursors
    groups: dict[int, StackGroup] = {}
    if e.m.target.entries and not e.m.options.debug:
        groups = {id(group): group for group in (state_of(e, name).group for name in changes)}
        groups = {key: group for key, group in groups.items() if _all_move(e, group, changes)}
    found = {name: Cursor.of(e, state_of(e, name), at) for group in groups.values() for name in group.pending}
    e.flow.cursors = outer | found
    yield
    e.flow.cursors = outer
    for group in groups.values():
        group.jump(e, e.b.mul(trips, const(I64, changes[next(iter(group.pending))])))


def _all_move(e: Emitter, group: StackGroup, changes: dict[str, int]) -> bool:
    """Return True if the loop pushes or pops every stack of the group and no stack has adjoints."""
    return all(name in changes and not state_of(e, name).stack.alloca.adjoint for name in group.pending)
