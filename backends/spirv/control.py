"""Rows of LOWER on control flow: `if`, `for` and `while`, as the structured constructs of SPIR-V.

A loop counter is a variable of the function: every driver makes it a register.
"""
from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Value
from ..llvm import ir
from .code import I64
from .emit import Emitter
from .statements import LOWER, lower_block
from .variables import Variable


@LOWER.row(n.If)
def _if(e: Emitter, stmt: n.If) -> None:
    cond = e.operand(stmt.cond)
    if stmt.orelse:
        e.b.if_else(cond, lambda: lower_block(e, stmt.then), lambda: lower_block(e, stmt.orelse))
        return
    with e.b.if_then(cond):
        lower_block(e, stmt.then)


def trip_count(e: Emitter, stmt: n.For) -> tuple[ir.Value, ir.Value]:
    """(begin, number of iterations) in 64 bits; the distance is taken unsigned, where it cannot overflow."""
    b = e.b
    begin, end = e.index(stmt.begin), e.index(stmt.end)
    low, high = (begin, end) if stmt.step > 0 else (end, begin)
    less = (b.icmp_signed if stmt.begin.type.is_signed else b.icmp_unsigned)("<", low, high)
    count = b.sub(high, low)
    if abs(stmt.step) != 1:
        count = b.add(b.udiv(b.sub(count, e.word(1)), e.word(abs(stmt.step))), e.word(1))
    return begin, b.select(less, count, e.word(0))


@LOWER.row(n.For)
def _for(e: Emitter, stmt: n.For) -> None:
    b = e.b
    begin, count = trip_count(e, stmt)
    done = b.scalar(I64)
    done.set(e.word(0))
    ran = _trip_counter(e, stmt.trips)

    def body() -> None:
        k = done.get()
        if ran is not None:
            ran.set(b.add(k, e.word(1)))
        place = b.sub(b.sub(count, k), e.word(1)) if stmt.descending else k
        e.values[stmt.index] = e.from_i64(b.add(begin, b.mul(place, e.word(stmt.step))), stmt.index.type)
        lower_block(e, stmt.body)

    def step() -> ir.Value | None:
        done.set(b.add(done.get(), e.word(1)))
        return _stopped(e, stmt)

    b.loop(lambda: b.icmp_unsigned("<", done.get(), count), body, step)
    _read_trips(e, stmt.trips, ran)


@LOWER.row(n.While)
def _while(e: Emitter, stmt: n.While) -> None:
    b = e.b
    ran = _trip_counter(e, stmt.trips)

    def test() -> ir.Value:
        lower_block(e, stmt.condition)
        return e.operand(stmt.test)

    def body() -> None:
        if ran is not None:
            ran.set(b.add(ran.get(), e.word(1)))
        lower_block(e, stmt.body)

    b.loop(test, body, lambda: _stopped(e, stmt))
    _read_trips(e, stmt.trips, ran)


def _stopped(e: Emitter, stmt: n.For | n.While) -> ir.Value | None:
    return None if stmt.stop is None else e.locals[stmt.stop].get()


def _trip_counter(e: Emitter, trips: Value | None) -> Variable | None:
    if trips is None:
        return None
    ran = e.b.scalar(I64)
    ran.set(e.word(0))
    return ran


def _read_trips(e: Emitter, trips: Value | None, ran: Variable | None) -> None:
    if trips is not None and ran is not None:
        e.values[trips] = e.from_i64(ran.get(), trips.type)
