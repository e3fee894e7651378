"""Rows of LOWER on control flow: `if`, `for` and `while`, as the structured constructs of SPIR-V.

A loop counter is a variable of the function: every driver makes it a register.
"""
from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Value
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import used_values, walk
from ..llvm import ir
from ..llvm.types import value_type
from .code import I32, I64
from .emit import Emitter
from .room import looked_at_once
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
    """(begin, number of iterations), in 64 bits, or in 32 where the bounds have no more: the distance is taken
    unsigned, where it cannot overflow.
    """
    b, t = e.b, stmt.begin.type
    begin, end = (_word(e, e.operand(v), t) for v in (stmt.begin, stmt.end))
    low, high = (begin, end) if stmt.step > 0 else (end, begin)
    less = (b.icmp_signed if t.is_signed else b.icmp_unsigned)("<", low, high)
    count, one = b.sub(high, low), e.const(low, 1)
    if abs(stmt.step) != 1:
        count = b.add(b.udiv(b.sub(count, one), e.const(low, abs(stmt.step))), one)
    return begin, b.select(less, count, e.const(low, 0))


def _word(e: Emitter, value: ir.Value, t: Scalar) -> ir.Value:
    """An integer in 32 bits, or in the 64 that it has."""
    if t.bits >= 32:
        return value
    return e.b.sext(value, I32) if t.is_signed else e.b.zext(value, I32)


def _index(e: Emitter, number: ir.Value, t: Scalar) -> ir.Value:
    """The low bits of a number, as a value of an integer type of no more bits."""
    return number if t.bits >= 32 else e.b.trunc(number, value_type(t))


@LOWER.row(n.For)
def _for(e: Emitter, stmt: n.For) -> None:
    begin, count = trip_count(e, stmt)
    with looked_at_once(e, stmt, e.b.zext(count, I64)):
        _trips(e, stmt, begin, count)


def _trips(e: Emitter, stmt: n.For, begin: ir.Value, count: ir.Value) -> None:
    b, one = e.b, e.const(begin, 1)
    done = b.scalar(begin.type)
    done.set(e.const(begin, 0))
    ran = _trip_counter(e, stmt.trips, begin.type)
    indexed = stmt.index in used_values(walk(stmt.body))

    def body() -> None:
        k = done.get()
        if ran is not None:
            ran.set(b.add(k, one))
        if indexed:
            place = b.sub(b.sub(count, one), k) if stmt.descending else k
            number = b.add(begin, b.mul(place, e.const(begin, stmt.step)))
            e.values[stmt.index] = _index(e, number, stmt.index.type)
        lower_block(e, stmt.body)

    def step() -> ir.Value | None:
        done.set(b.add(done.get(), one))
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


def _trip_counter(e: Emitter, trips: Value | None, t: ir.Type = I64) -> Variable | None:
    if trips is None:
        return None
    ran = e.b.scalar(t)
    ran.set(e.b.const(t, 0))
    return ran


def _read_trips(e: Emitter, trips: Value | None, ran: Variable | None) -> None:
    if trips is not None and ran is not None:
        e.values[trips] = e.from_i64(e.b.zext(ran.get(), I64), trips.type)
