"""This module emits loops that pop adstacks in groups of trips, with all tops read before the first trip of a group.

    while left >= 4: read 4 tops of each stack; 4 trips; left -= 4
    while left: one trip; left -= 1

So the reads are on their way together. Sines have shorter code for arguments as small as usual trips left them. Where
such code serves, the tops are looked at, and trips that find larger ones are written apart, as for CUDA:

    while left:  stop = left < 4 ? 0 : left - 4
                 if left >= 4 and the tops are small: 4 trips, short sines;  else: trips one by one down to stop
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.walk import walk
from ..codegen import ir
from ..codegen.argument_ranges import is_code_shorter, needs_library, ranges_of
from ..codegen.stack_changes import after_last_pop, pops_of_a_trip, reads
from ..codegen.types import memory_type
from . import access
from .code import I1
from .emit import Emitter
from .stack_state import StackState, state_of
from .variables import ShaderVariable

Trip = Callable[[ir.LLVMValue], None]
"""The type of a function that writes the trip of a given number."""


class PopGroups:
    """Represent a loop that pops adstacks and is emitted in groups of trips.

    Attributes:
        e: emitter of the task
        at_once: number of trips of a group
        assumed: the largest magnitude that usual trips find on top of some stacks, by stack
        read: stacks of which a trip reads the top
    """

    def __init__(self, e: Emitter, loop: n.For, at_once: int, assumed: dict[str, float]) -> None:
        self.e, self.at_once, self.assumed = e, at_once, assumed
        tops = dict.fromkeys(s.stack for s in walk(loop.body) if isinstance(s, n.StackTop))
        self.read = [state_of(e, stack) for stack in tops if stack in pops_of_a_trip(loop)]

    @classmethod
    def of(cls, e: Emitter, loop: n.For, at_once: int) -> PopGroups | None:
        """Return a PopGroups for the loop, or None if its trips cannot be emitted in groups.

        Args:
            e: emitter of the task
            loop: loop of the kernel
            at_once: number of trips of a group; 1 for none
        """
        if at_once == 1 or not _suits(e, loop):
            return None
        emitter: Any = e
        known = ranges_of(emitter.m, e.task).assumed.get(loop.index, {}) if is_code_shorter(emitter, loop) else {}
        if not known:
            return None if needs_library(emitter, loop) else cls(e, loop, at_once, {})
        made = cls(e, loop, at_once, known)
        return made if known.keys() <= {s.stack.alloca.stack for s in made.read} else None

    def emit(self, trip: Trip, count: ir.LLVMValue) -> None:
        """Emit all trips of the loop, in groups where possible and else one by one.

        Args:
            trip: writes the trip of a number
            count: number of trips
        """
        left = self.e.b.scalar(count.type)
        left.set(count)
        write = self._looking if self.assumed else self._certain
        write(lambda: trip(self.e.b.sub(count, left.get())), left)

    # -- groups ---------------------------------------------------------------------------------------------

    def _certain(self, trip: Callable[[], None], left: ShaderVariable) -> None:
        """Emit a loop over groups of trips while enough trips are left, and then a loop over single trips."""
        e, b = self.e, self.e.b
        none, step = e.const(left.get(), 0), e.const(left.get(), self.at_once)
        b.loop(
            lambda: b.icmp_unsigned(">=", left.get(), step),
            lambda: self._together(self._tops(), trip, left),
            lambda: None,
        )
        self._singly(trip, left, none)

    def _looking(self, trip: Callable[[], None], left: ShaderVariable) -> None:
        """Emit groups of trips with short sines where the popped values are small enough, and other trips singly."""
        e, b = self.e, self.e.b
        none, step = e.const(left.get(), 0), e.const(left.get(), self.at_once)
        stop, large = b.scalar(left.type), b.scalar(I1)

        def body() -> None:
            now = left.get()
            few = b.icmp_unsigned("<", now, step)
            stop.set(b.select(few, none, b.sub(now, step)))
            large.set(b.const(I1, True))
            with b.if_then(b.xor(few, b.const(I1, True))):
                tops = self._tops()
                with b.if_then(self._are_small(tops)):
                    self._together(tops, trip, left)
                    large.set(b.const(I1, False))
            with b.if_then(large.get()):
                self._singly(trip, left, stop.get())

        b.loop(lambda: b.icmp_unsigned("!=", left.get(), none), body, lambda: None)

    def _together(self, tops: dict[str, list[ir.LLVMValue]], trip: Callable[[], None], left: ShaderVariable) -> None:
        """Emit the trips of one group, with the tops of the adstacks already loaded."""
        e = self.e
        usual, e.usual = e.usual, bool(self.assumed) or e.usual
        for k in range(self.at_once):
            e.tops = {stack: found[k] for stack, found in tops.items()}
            trip()
            left.set(e.b.sub(left.get(), e.const(left.get(), 1)))
        e.usual, e.tops = usual, {}

    def _singly(self, trip: Callable[[], None], left: ShaderVariable, stop: ir.LLVMValue) -> None:
        """Emit a loop of single trips that runs until `stop` trips are left."""
        e, b = self.e, self.e.b
        b.loop(
            lambda: b.icmp_unsigned("!=", left.get(), stop),
            trip,
            lambda: left.set(b.sub(left.get(), e.const(left.get(), 1))),
        )

    # -- tops -----------------------------------------------------------------------------------------------

    def _tops(self) -> dict[str, list[ir.LLVMValue]]:
        """Return the loaded values that each trip of a group finds on top of each adstack."""
        return {s.stack.alloca.stack: [self._top(s, k) for k in range(self.at_once)] for s in self.read}

    def _top(self, s: StackState, k: int) -> ir.LLVMValue:
        """Emit a load of the value that trip `k` of a group finds on top of a stack, and return the value."""
        e = self.e
        place = e.b.sub(s.place(e), e.b.mul(s.group.pitch, e.word(k + 1)))
        return access.load(e.b, s.slot(e, place, 0), memory_type(s.dtype))

    def _are_small(self, tops: dict[str, list[ir.LLVMValue]]) -> ir.LLVMValue:
        """Return the condition that each top is NaN or within the magnitude that the short code for sines assumes."""
        e, b = self.e, self.e.b
        small: ir.LLVMValue = b.const(I1, True)
        for stack, most in self.assumed.items():
            for value in tops[stack]:
                small = b.and_(small, b.fcmp_unordered("<=", e.intrinsic("fabs", value), e.const(value, most)))
        return small


def _suits(e: Emitter, loop: n.For) -> bool:
    """Return True if a loop that pops history can run several trips at a time.

    Every trip must pop one value of each stack that it pops, and read none after that pop. Stacks that grow together
    must do so in this loop, and have no adjoints.
    """
    found = pops_of_a_trip(loop)
    popped = {s.stack for s in walk(loop.body) if isinstance(s, n.StackPop)}
    if not found or popped != found.keys() or any(count != 1 for count in found.values()):
        return False
    if any(reads(after_last_pop(loop.body, stack), stack) for stack in found):
        return False
    states = [state_of(e, stack) for stack in found]
    return all(not s.stack.alloca.adjoint and s.group.pending.keys() <= found.keys() for s in states)
