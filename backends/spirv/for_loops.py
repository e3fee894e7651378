"""This module emits `for` loops in SPIR-V: trip by trip, with a separate first trip, or several trips at a time.

    for k in range(n): B(k)      →      if 0 < n: B(0)                            where later trips have shorter code
                                        while n - k >= 4: B(k); ..; B(k + 3)      where B is short and calls nothing
                                        while k < n: B(k)

The first trip and the number of trips taken at a time are decided as on CUDA (codegen/argument_ranges.py). A
loop counter is a variable of the function, because every driver keeps it in a register.
"""

from __future__ import annotations

from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.roles import LOOPS
from ...compiler.ir.statement import Stmt, Value
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import used_values, walk
from ..codegen import ir
from ..codegen.argument_ranges import first_is_apart, needs_library
from ..codegen.stack_changes import AT_ONCE, SAVED_AT_ONCE
from ..codegen.types import value_type
from .code import I32, I64
from .emit import Emitter
from .gpu_trigonometric import LEAN
from .loop_capacity import check_loop_once
from .opaque_values import hidden_truth
from .ops import CALLED
from .pop_groups import PopGroups
from .statements import LOWER, lower_block
from .variables import ShaderVariable

PLAIN_AT_ONCE = ((8, 8), (16, 4))
"""Greatest number of statements of a loop without adstacks, with the number of trips taken at a time."""


def trip_count(e: Emitter, stmt: n.For) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the begin and the trip count of a loop, in 64 bits, or in 32 bits if its bounds have at most 32."""
    b, t = e.b, stmt.begin.type
    begin, end = (_word(e, e.operand(v), t) for v in (stmt.begin, stmt.end))
    low, high = (begin, end) if stmt.step > 0 else (end, begin)
    # The distance is taken as an unsigned number, so it cannot overflow.
    less = (b.icmp_signed if t.is_signed else b.icmp_unsigned)("<", low, high)
    count, one = b.sub(high, low), e.const(low, 1)
    if abs(stmt.step) != 1:
        count = b.add(b.udiv(b.sub(count, one), e.const(low, abs(stmt.step))), one)
    return begin, b.select(less, count, e.const(low, 0))


def _word(e: Emitter, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
    """Return an integer widened to at least 32 bits."""
    if t.bits >= 32:
        return value
    return e.b.sext(value, I32) if t.is_signed else e.b.zext(value, I32)


def _index(e: Emitter, number: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
    """Return the low bits of an integer as a loop index of type `t`."""
    return number if t.bits >= 32 else e.b.trunc(number, value_type(t))


@LOWER.row(n.For)
def _for(e: Emitter, stmt: n.For) -> None:
    """Emit a `for` loop: by PopGroups if the loop pops adstacks and can run in groups of trips, else by ForLoop."""
    begin, count = trip_count(e, stmt)
    with check_loop_once(e, stmt, e.b.zext(count, I64)):
        trips, at_once = ForLoop(e, stmt, begin, count), unroll_factor(e, stmt)
        pops = PopGroups.of(e, stmt, at_once)
        if pops:
            pops.emit(trips.trip, count)
        else:
            trips.emit()


def unroll_factor(e: Emitter, stmt: n.For) -> int:
    """Return the number of trips of a loop that are emitted one after the other in one round.

    It is more than 1 only for innermost loops that no trip ends early.
    """
    body = list(walk(stmt.body))
    if e.m.options.debug or stmt.stop is not None or stmt.trips is not None or any(map(_is_long, body)):
        return 1
    emitter: Any = e
    pushed = [s.stack for s in body if isinstance(s, n.StackPush)]
    reads = any(isinstance(s, n.StackTop) for s in stmt.body)
    if not e.roomy.issuperset(pushed) or (not reads and needs_library(emitter, stmt)):
        return 1
    table = AT_ONCE if reads else SAVED_AT_ONCE if pushed else PLAIN_AT_ONCE
    return next((count for size, count in table if len(body) <= size), 1)


def _is_long(stmt: Stmt) -> bool:
    """Return True if the statement makes a trip long: a loop, or a called function other than sine and cosine."""
    called = isinstance(stmt, n.Op) and stmt.op in CALLED and stmt.op not in LEAN and stmt.args[0].type.is_real
    return called or isinstance(stmt, LOOPS)


class ForLoop:
    """Emit the SPIR-V of one `for` loop of a task.

    Attributes:
        e: emitter of the task
        loop: loop of the kernel
        begin: value of the index in the first trip
        count: number of trips
        ran: variable that counts the trips, if the kernel reads their number
        indexed: True if the body uses the index
        filled: adstacks known to hold values at the begin of a trip
    """

    def __init__(self, e: Emitter, loop: n.For, begin: ir.LLVMValue, count: ir.LLVMValue) -> None:
        self.e, self.loop, self.begin, self.count = e, loop, begin, count
        self.ran = trip_counter(e, loop.trips, begin.type)
        self.indexed = loop.index in used_values(walk(loop.body))
        self.filled = e.filled

    def trip(self, k: ir.LLVMValue) -> None:
        """Emit the body of the loop as trip number k, counted from 0."""
        e, b, loop = self.e, self.e.b, self.loop
        e.filled, one = self.filled, e.const(k, 1)
        if self.ran is not None:
            self.ran.set(b.add(k, one))
        if self.indexed:
            place = b.sub(b.sub(self.count, one), k) if loop.descending else k
            number = b.add(self.begin, b.mul(place, e.const(k, loop.step)))
            e.values[loop.index] = _index(e, number, loop.index.type)
        lower_block(e, loop.body)

    def emit(self) -> None:
        """Emit all trips of the loop: a separate first trip if useful, rounds of several trips, then single trips."""
        e, b = self.e, self.e.b
        emitter: Any = e
        apart, usual = first_is_apart(emitter, self.loop), e.usual
        done = b.scalar(self.count.type)
        done.set(e.const(self.count, 0))
        if apart:
            with b.if_then(b.icmp_unsigned("!=", self.count, e.const(self.count, 0))):
                self.trip(e.const(self.count, 0))
                done.set(self._behind_first())
        e.usual = apart or usual
        reads = any(isinstance(s, n.StackTop) for s in self.loop.body)
        self._several(done, 1 if reads else unroll_factor(e, self.loop))
        b.loop(
            lambda: b.icmp_unsigned("<", done.get(), self.count),
            lambda: self.trip(done.get()),
            lambda: self._step(done),
        )
        e.usual = usual
        read_trips(e, self.loop.trips, self.ran)

    def _behind_first(self) -> ir.LLVMValue:
        """Return the number of the trip after trip 0, or the trip count if the first trip has ended the loop."""
        one, stop = self.e.const(self.count, 1), stop_condition(self.e, self.loop)
        return one if stop is None else self.e.b.select(stop, self.count, one)

    def _step(self, done: ShaderVariable) -> ir.LLVMValue | None:
        """Emit an increment of the trip counter; return the loop's stop condition, or None if it has none."""
        done.set(self.e.b.add(done.get(), self.e.const(self.count, 1)))
        return stop_condition(self.e, self.loop)

    def _several(self, done: ShaderVariable, many: int) -> None:
        """Emit a loop that runs `many` trips per round as long as at least `many` trips are left."""
        b, count = self.e.b, self.count
        if many == 1:
            return
        step = self.e.const(count, many)

        def body() -> None:
            first = done.get()
            for k in range(many):
                self.trip(b.add(first, self.e.const(count, k)))

        b.loop(
            lambda: b.icmp_unsigned(">=", b.sub(count, done.get()), step),
            body,
            lambda: done.set(b.add(done.get(), step)),
        )


def stop_condition(e: Emitter, stmt: n.For | n.While) -> ir.LLVMValue | None:
    """Return the condition that a trip has ended the loop, or None if no trip can."""
    return None if stmt.stop is None else hidden_truth(e.b, e.locals[stmt.stop].get())


def trip_counter(e: Emitter, trips: Value | None, t: ir.Type = I64) -> ShaderVariable | None:
    """Declare a variable that counts trips, or return None if the kernel does not read the trip count."""
    if trips is None:
        return None
    ran = e.b.scalar(t)
    ran.set(e.b.const(t, 0))
    return ran


def read_trips(e: Emitter, trips: Value | None, ran: ShaderVariable | None) -> None:
    """Define the IR value `trips` after a loop as the number of trips that the loop ran."""
    if trips is not None and ran is not None:
        e.values[trips] = e.from_i64(e.b.zext(ran.get(), I64), trips.type)
