"""This module emits GPU loops that pop adstacks in groups of trips, loading all tops before a group's first trip.

    while left >= 4:  read 4 tops of each stack
                      if all of them are as small as usual trips left them:  4 trips, short sines;  left -= 4
                      else:                                                  4 trips, one by one
    the trips left, one by one

The reads of a group are in flight together, and no trip delays them, because the loop pushes nothing. Where sines have
no shorter code for small arguments (argument_ranges.py), nothing is compared. `k` of the code below counts trips from
0.
"""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.roles import JUMPS, LOOPS
from ....compiler.ir.walk import used_values, walk
from ...codegen import ir
from ...codegen.argument_ranges import is_code_shorter, needs_library, ranges_of
from ...codegen.stack_changes import AT_ONCE, SAVED_AT_ONCE, pops_of_a_trip
from ...codegen.types import F32, I64, const, memory_type
from ..emit import Emitter
from .stack_state import state_of


def unroll_factor(e: Emitter, stmt: n.For | n.While) -> int:
    """Return how many trips of an innermost loop that pushes or pops run as one group; 1 means no groups.

    Only a GPU runs several, because it hides latency by loads in flight.
    """
    if not e.m.target.entries or e.m.options.debug or isinstance(stmt, n.While):
        return 1
    body = list(walk(stmt.body))
    if any(isinstance(inner, (*LOOPS, *JUMPS)) for inner in body):
        return 1
    reads = any(isinstance(inner, n.StackTop) for inner in stmt.body)
    if not reads and (not _saves(e, stmt) or needs_library(e, stmt)):
        return 1
    return next((count for size, count in (AT_ONCE if reads else SAVED_AT_ONCE) if len(body) <= size), 1)


def _saves(e: Emitter, loop: n.For) -> bool:
    """Return True if the loop pushes, and registers hold the addresses of its next pushes."""
    pushed = [s.stack for s in loop.body if isinstance(s, n.StackPush)]
    return bool(pushed) and all(stack in e.flow.cursors for stack in pushed)


def _suits(e: Emitter, loop: n.For) -> bool:
    """Return True if each trip pops one value of each popped stack, and cursors of these stacks are in registers.

    Nothing ends a loop of this kind early.
    """
    found = pops_of_a_trip(loop)
    # Exactly one value is popped of each stack in each trip.
    popped = {s.stack for s in walk(loop.body) if isinstance(s, n.StackPop)}
    alike = popped == found.keys() and all(count == 1 for count in found.values())
    return bool(found) and alike and loop.trips is None and all(stack in e.flow.cursors for stack in found)


class PopGroups:
    """Represent a loop that pops adstacks and is emitted in groups of trips that share their loads.

    Attributes:
        e: Emitter of the function.
        loop: Loop that pops adstacks.
        begin: First value of the index.
        wide: Trip count in 64 bits.
        word: Type in which trips are counted.
        at_once: Trips of a group.
        count: Trip count as a `word`.
        read: Stacks whose top a trip reads.
        assumed: Largest magnitude of the top in usual trips, by name of the stack.
    """

    def __init__(self, e: Emitter, loop: n.For, begin: ir.LLVMValue, count: ir.LLVMValue, word: ir.IntType) -> None:
        self.e, self.loop, self.begin, self.wide, self.word = e, loop, begin, count, word
        self.at_once = unroll_factor(e, loop)
        self.count = count if word is I64 else e.b.trunc(count, word)
        tops = dict.fromkeys(s.stack for s in walk(loop.body) if isinstance(s, n.StackTop))
        self.read = [stack for stack in tops if stack in e.flow.cursors]
        self.assumed = ranges_of(e.m, e.task).assumed.get(loop.index, {}) if is_code_shorter(e, loop) else {}

    @classmethod
    def of(
        cls, e: Emitter, loop: n.For, begin: ir.LLVMValue, count: ir.LLVMValue, word: ir.IntType
    ) -> PopGroups | None:
        """Return the PopGroups object for a loop, or None if its trips cannot be grouped."""
        if not _suits(e, loop) or unroll_factor(e, loop) == 1:
            return None
        return cls(e, loop, begin, count, word)

    def emit(self) -> None:
        """Emit the whole loop; the builder then appends after it."""
        e, b = self.e, self.e.b
        head, group, single, done = map(e.flow.append, ("pops.head", "pops.group", "pops.single", "pops.done"))
        before = b.block
        e.flow.go(head)
        left = b.phi(self.word)
        left.add_incoming(self.count, before)
        b.cbranch(b.icmp_unsigned(">=", left, self._number(self.at_once)), group, single)
        b.position_at_end(group)
        tops = {stack: self._tops(stack) for stack in self.read}
        # The shorter code holds only if the tops are as small as usual trips left them.
        small = self._are_small(tops)
        if small is not None:
            short = e.flow.append("pops.short")
            b.cbranch(small, short, single)
            b.position_at_end(short)
        self._together(tops, left)
        left.add_incoming(b.sub(left, self._number(self.at_once)), b.block)
        b.branch(head, e.m.module.unrolled(1))
        b.position_at_end(single)
        self._one_by_one(left, head, done)
        b.position_at_end(done)

    def _number(self, number: int) -> ir.LLVMValue:
        return const(self.word, number)

    # -- a group --------------------------------------------------------------------------------------------

    def _tops(self, stack: str) -> list[ir.LLVMValue]:
        """Emit loads of the stack values that the trips of a group will pop, and return them, first trip first."""
        e, cursor, found = self.e, self.e.flow.cursors[stack], []
        address = cursor.address(e)
        for _ in range(self.at_once):
            found.append(e.flow.load(memory_type(state_of(e, stack).dtype), address))
            address = cursor.moved(e, address, -1)
        return found

    def _are_small(self, tops: dict[str, list[ir.LLVMValue]]) -> ir.LLVMValue | None:
        """Return the condition that short code is valid for the loaded stack values, or None if no code needs it."""
        e, b = self.e, self.e.b
        small: ir.LLVMValue | None = None
        for stack, most in self.assumed.items():
            for largest in self._largest(tops.get(stack) or self._tops(stack)):
                within = b.fcmp_unordered("<=", largest, e.const(largest, most))
                small = within if small is None else b.and_(small, within)
        return small

    def _largest(self, values: list[ir.LLVMValue]) -> list[ir.LLVMValue]:
        """Return a list of magnitudes of which one is the largest of all values; it has one item for values in f32."""
        sizes = [self.e.intrinsic("fabs", v) for v in values]
        while len(sizes) > 1 and sizes[0].type == F32:
            # The instruction prefers numbers to NaN.
            sizes = [self.e.intrinsic("maxnum", *pair) for pair in zip(sizes[::2], sizes[1::2])]
        return sizes

    def _together(self, tops: dict[str, list[ir.LLVMValue]], left: ir.LLVMValue) -> None:
        """Emit the `at_once` trips of one group, which use the stack values loaded before the group."""
        e = self.e
        usual = e.flow.usual
        for trip in range(self.at_once):
            e.flow.usual, e.flow.tops = bool(self.assumed), {stack: found[trip] for stack, found in tops.items()}
            self._trip(e.b.sub(left, self._number(trip)))
        e.flow.usual, e.flow.tops = usual, {}

    # -- single trips ---------------------------------------------------------------------------------------

    def _one_by_one(self, left: ir.Phi, head: ir.BasicBlock, done: ir.BasicBlock) -> None:
        """Emit a loop over single trips: the trips of one group, or the trips that are left if these are fewer."""
        e, b = self.e, self.e.b
        few = b.icmp_unsigned("<", left, self._number(self.at_once))
        stop = b.select(few, self._number(0), b.sub(left, self._number(self.at_once)))
        test, body = e.flow.append("pop.test"), e.flow.append("pop")
        before = b.block
        e.flow.go(test)
        now = b.phi(self.word)
        now.add_incoming(left, before)
        more, end = e.flow.append("pop.more"), e.flow.append("pop.end")
        b.cbranch(b.icmp_unsigned("==", now, stop), end, body)
        b.position_at_end(body)
        self._trip(now)
        e.flow.go(more)
        now.add_incoming(b.sub(now, self._number(1)), more)
        b.branch(test, e.m.module.unrolled(1))
        b.position_at_end(end)
        # Without assumed magnitudes, single trips are reached only behind the last group.
        if self.assumed:
            left.add_incoming(stop, end)
            b.cbranch(b.icmp_unsigned("==", stop, self._number(0)), done, head)
        else:
            b.branch(done)

    def _trip(self, left: ir.LLVMValue) -> None:
        """Emit one trip; `left` is the number of trips left including this one."""
        e, b, loop = self.e, self.e.b, self.loop
        if loop.index in used_values(walk(loop.body)):
            ahead = b.sub(left, const(I64, 1))
            place = ahead if loop.descending else b.sub(b.sub(self.wide, const(I64, 1)), ahead)
            e.set_index(loop.index, b.add(self.begin, b.mul(place, const(I64, loop.step))))
        filled = e.flow.filled
        e.flow.block(loop.body)
        e.flow.filled = filled
