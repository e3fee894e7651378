"""This module emits code that sorts iterations by the trip counts of their loops, with a precision of one eighth.

Keys are small numbers: the exponent of the trip count and three more digits. A counting sort thus takes two passes, and
iterations with one key stay near their neighbors in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen import ir
from ...codegen.builder import IRBuilder
from ...codegen.emit import ArithEmitter
from ...codegen.types import F32, I1, I8, I32, I64, PTR, VOID, const
from .lanes import LaneEmitter

LONGEST = 1 << 20
"""Trip count from which on loops count as equally long."""

COUNT = 168
"""Number of keys: that of LONGEST is 161."""

WAYS = 4
"""Counters of one key, used in turns: a counter that was just stored is slow to read."""

_DIGITS = 3
_OF_ONE = (127 << _DIGITS) - 1


def keys(e: LaneEmitter, trips: ir.LLVMValue) -> ir.LLVMValue:
    """Return a sort key for each lane's trip count: keys rise with the count, and each count up to 15 has its own."""
    b = e.b
    trips = e.intrinsic("umin", trips, e.const(trips, LONGEST))
    # The bits of the trip count as f32 begin with its exponent and its highest digits.
    word = b.bitcast(b.uitofp(trips, e.wide(F32)), trips.type)
    key = b.sub(b.lshr(word, e.const(word, 23 - _DIGITS)), e.const(word, _OF_ONE))
    return b.select(b.icmp_unsigned("==", trips, e.const(trips, 0)), e.const(key, 0), key)


def sorter(a: ArithEmitter) -> ir.LLVMFunction:
    """Return the function sg.sort(places, keys, count, out), which writes `places` to `out`, sorted by key."""

    def body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
        b, (places, key_of, count, out) = a.b, function.args
        starts = b.alloca(I32, COUNT * WAYS)
        memset = a.m.declare("llvm.memset.p0.i64", VOID, [PTR, I8, I64, I1])
        b.call(memset, [starts, const(I8, 0), const(I64, 4 * COUNT * WAYS), const(I1, False)])

        def take(k: ir.LLVMValue) -> ir.LLVMValue:
            """Emit code that adds 1 to the counter for the key of entry k; return the counter's old value."""
            key = b.mul(b.zext(b.load(b.gep(key_of, k, I32), I32), I64), const(I64, WAYS))
            place = b.gep(starts, b.or_(key, b.and_(k, const(I64, WAYS - 1))), I32)
            number = b.load(place, I32)
            b.store(b.add(number, const(I32, 1)), place)
            return number

        def put(k: ir.LLVMValue) -> None:
            at = b.zext(take(k), I64)
            b.store(b.load(b.gep(places, k, I32), I32), b.gep(out, at, I32))

        sum_so_far = b.alloca(I32)
        b.store(const(I32, 0), sum_so_far)

        def begin(k: ir.LLVMValue) -> None:
            """Emit code that replaces the counter of key k by the number of entries with smaller keys."""
            place, before = b.gep(starts, k, I32), b.load(sum_so_far, I32)
            b.store(b.add(before, b.load(place, I32)), sum_so_far)
            b.store(before, place)

        _each(b, count, take)
        _each(b, const(I64, COUNT * WAYS), begin)
        _each(b, count, put)
        b.ret_void()

    return a.m.helper("sg.sort", VOID, [PTR, PTR, I64, PTR], body)


def _each(b: IRBuilder, count: ir.LLVMValue, visit: Callable[[ir.LLVMValue], object]) -> None:
    """Emit a loop that runs `visit(k)` for each k from 0 to count - 1."""
    head, body, done = map(b.function.append_basic_block, ("each", "entry", "done"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    k.add_incoming(const(I64, 0), before)
    b.cbranch(b.icmp_unsigned("<", k, count), body, done)
    b.position_at_end(body)
    visit(k)
    k.add_incoming(b.add(k, const(I64, 1)), b.block)
    b.branch(head)
    b.position_at_end(done)
