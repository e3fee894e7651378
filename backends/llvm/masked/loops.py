"""This module emits `for` and `while` loops of masked code (entries of the table MASKED_CONTROL).

A loop whose bounds and `until` are uniform is scalar control around a body of vectors. In any other loop, all lanes run
in rounds of one common counter: round k of a lane is its iteration k, and the lane is masked out in the rounds that are
not its own. A descending loop counts rounds down from the longest lane's, so that a lane's last iteration meets the
last ones of the others: the pops of a reverse sweep line up with the pushes.
"""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.statement import Value
from ...codegen import ir
from ...codegen.types import I32, I64, const, value_type
from ..branching.control import trip_count
from ..polls import poll_in_loop
from .adstack import check_room_once
from .index_checks import check_before_loop
from .lanes import LaneEmitter
from .masks import MASKED_CONTROL


class _LoopBlocks:
    """Hold the basic blocks of a masked loop, and its trip counters if the kernel reads the trip count."""

    def __init__(self, e: LaneEmitter, stmt: n.For | n.While) -> None:
        self.e, self.stmt = e, stmt
        self.head, self.body, self.latch, self.done = (
            e.flow.append(f"loop.{part}") for part in ("head", "body", "latch", "exit")
        )
        self.trips: ir.LLVMValue | None = None
        if stmt.trips is not None:
            t = e.type_of(stmt.trips)
            self.trips = e.alloca(t)
            e.b.store(const(t, 0), self.trips)

    def count(self) -> None:
        """Emit code that adds 1 to the trip counter of each active lane. Interruptible code also polls for signals."""
        poll_in_loop(self.e, self.stmt)
        if self.trips is not None and self.stmt.trips is not None:
            b, t = self.e.b, self.e.type_of(self.stmt.trips)
            # The mask counts 1 for each lane that runs this round.
            one = b.zext(self.e.flow.mask, t) if isinstance(t, ir.VectorType) else const(t, 1)
            b.store(b.add(b.load(self.trips, t), one), self.trips)

    def close(self) -> None:
        """Continue to emit after the loop, and define the value of its trip count if the kernel reads it."""
        self.e.b.position_at_end(self.done)
        if self.trips is not None and self.stmt.trips is not None:
            self.e.values[self.stmt.trips] = self.e.b.load(self.trips, self.e.type_of(self.stmt.trips))

    def stop(self) -> ir.LLVMValue:
        """Return the flag that ends a loop by `until`: a vector, or a scalar if it is equal in all lanes."""
        assert self.stmt.stop is not None
        local = self.e.locals[self.stmt.stop]
        return self.e.b.load(local.address, self.e.storage(self.stmt.stop, local.dtype))

    def back(self) -> None:
        """Emit the end of a loop body that all lanes leave together: test `until`, then branch to head or exit."""
        self.e.flow.go(self.latch)
        if self.stmt.stop is None:
            self.e.b.branch(self.head)
        else:
            self.e.b.cbranch(self.stop(), self.done, self.head)
        self.close()


class _AliveLanes:
    """Hold, in memory, the mask of the lanes that have not yet left a loop."""

    def __init__(self, e: LaneEmitter) -> None:
        self.e = e
        self.place = e.alloca(e.mask_type)
        e.b.store(e.flow.mask, self.place)

    def mask(self) -> ir.LLVMValue:
        """Load the mask of the lanes that have not left the loop, and return it."""
        return self.e.b.load(self.place, self.e.mask_type)

    def drop(self, lanes: ir.LLVMValue) -> None:
        """Emit code that removes the given lanes from those that still run the loop."""
        b = self.e.b
        b.store(b.and_(self.mask(), b.xor(lanes, self.e.const(lanes, True))), self.place)


# ---- for ----------------------------------------------------------------------------------------------------


@MASKED_CONTROL.row(n.For)
def _for(e: LaneEmitter, stmt: n.For) -> None:
    (_divergent_for if e.u.diverges(stmt) else _uniform_for)(e, stmt)


def _uniform_for(e: LaneEmitter, stmt: n.For) -> None:
    """Emit a `for` loop whose bounds are equal in all lanes."""
    b = e.b
    begin, count = trip_count(e, stmt)
    check_before_loop(e, stmt, begin, count)
    outer = e.flow.roomy
    e.flow.roomy = outer | check_room_once(e, stmt, count)
    loop, before = _LoopBlocks(e, stmt), b.block
    e.flow.go(loop.head)
    k = b.phi(I64)
    k.add_incoming(const(I64, 0), before)
    b.cbranch(b.icmp_unsigned("<", k, count), loop.body, loop.done)
    b.position_at_end(loop.body)
    following = b.add(k, const(I64, 1))
    loop.count()
    place = b.sub(b.sub(count, k), const(I64, 1)) if stmt.descending else k
    e.values[stmt.index] = e.from_i64(b.add(begin, b.mul(place, const(I64, stmt.step))), stmt.index.type)
    e.flow.block(stmt.body)
    e.flow.roomy = outer
    loop.back()
    k.add_incoming(following, loop.latch)


def _divergent_for(e: LaneEmitter, stmt: n.For) -> None:
    """Emit a `for` loop whose bounds differ by lane. It runs as many rounds as the lane with the most trips needs."""
    b = e.b
    word = I64 if stmt.begin.type.bits == 64 else I32
    counts = counts_of(e, stmt, word)
    if e.checks_before(stmt):
        check_before_loop(e, stmt, e.index(stmt.begin), counts if word is I64 else b.zext(counts, e.wide(I64)))
    # The loop has as many rounds as the longest lane has trips.
    rounds = e.reduce("umax", counts)
    alive = _AliveLanes(e) if stmt.stop is not None else None
    loop, before = _LoopBlocks(e, stmt), b.block
    e.flow.go(loop.head)
    k = b.phi(word)
    k.add_incoming(const(word, 0), before)
    more = b.icmp_unsigned("<", k, rounds)
    b.cbranch(b.and_(more, e.any(alive.mask())) if alive else more, loop.body, loop.done)
    b.position_at_end(loop.body)
    following = b.add(k, const(word, 1))
    place = b.sub(b.sub(rounds, k), const(word, 1)) if stmt.descending else k
    # A lane sits out the rounds beyond its own trips.
    live = b.icmp_unsigned("<", e.splat(place), counts)
    if alive:
        live = b.and_(live, alive.mask())
        # With `until`, there may be rounds that no active lane runs, and the body must run for at least one lane.
        inside = e.flow.append("loop.some")
        b.cbranch(e.any(live), inside, loop.latch)
        b.position_at_end(inside)
    with e.flow.under(live):
        loop.count()
        _index(e, stmt, place)
        e.flow.block(stmt.body)
    if alive:
        alive.drop(b.and_(live, e.splat(loop.stop())))
    e.flow.go(loop.latch)
    b.branch(loop.head)
    k.add_incoming(following, loop.latch)
    loop.close()


def _resized(e: LaneEmitter, value: Value, word: ir.IntType) -> ir.LLVMValue:
    """Return an integer operand, a vector or a scalar, converted to the width of the loop counter."""
    found = e.operand(value)
    if value.type.bits == word.width:
        return found
    to = e.wide(word) if isinstance(found.type, ir.VectorType) else word
    return e.b.sext(found, to) if value.type.is_signed else e.b.zext(found, to)


def counts_of(e: LaneEmitter, stmt: n.For, word: ir.IntType) -> ir.LLVMValue:
    """Return a vector of the trip counts of all lanes, with 0 for lanes that are not active."""
    b = e.b
    begin, end = (e.splat(_resized(e, v, word)) for v in (stmt.begin, stmt.end))
    low, high = (begin, end) if stmt.step > 0 else (end, begin)
    compare = b.icmp_signed if stmt.begin.type.is_signed else b.icmp_unsigned
    runs = b.and_(compare("<", low, high), e.flow.mask)
    # The distance is unsigned, so it cannot overflow.
    count, size = b.sub(high, low), abs(stmt.step)
    if size != 1:
        one = e.const(count, 1)
        count = b.add(b.udiv(b.sub(count, one), e.const(count, size)), one)
    return b.select(runs, count, e.const(count, 0))


def _index(e: LaneEmitter, stmt: n.For, place: ir.LLVMValue) -> None:
    """Set the loop index to begin + place * step, wrapped to its type; it is a scalar if begin is uniform."""
    b, t = e.b, value_type(stmt.index.type)
    word = place.type
    assert isinstance(word, ir.IntType)
    moved = b.mul(place, const(word, stmt.step))

    def number(begin: ir.LLVMValue) -> ir.LLVMValue:
        return begin if begin.type in (t, e.wide(t)) else b.trunc(begin, e.wide(t) if _is_vector(begin) else t)

    begin = _resized(e, stmt.begin, word)
    e.values[stmt.index] = number(b.add(begin, e.splat(moved) if _is_vector(begin) else moved))
    if stmt.index in e.u.strides:
        start = e.base(stmt.begin)
        wide = start if start.type == word else b.sext(start, word)
        e.bases[stmt.index] = number(b.add(wide, moved))


def _is_vector(value: ir.LLVMValue) -> bool:
    """Return True if an LLVM value is a vector with one element for each lane."""
    return isinstance(value.type, ir.VectorType)


# ---- while --------------------------------------------------------------------------------------------------


@MASKED_CONTROL.row(n.While)
def _while(e: LaneEmitter, stmt: n.While) -> None:
    (_divergent_while if e.u.diverges(stmt) else _uniform_while)(e, stmt)


def _uniform_while(e: LaneEmitter, stmt: n.While) -> None:
    """Emit a `while` loop that all lanes leave together."""
    loop = _LoopBlocks(e, stmt)
    e.flow.go(loop.head)
    e.flow.block(stmt.condition)
    e.b.cbranch(e.operand(stmt.test), loop.body, loop.done)
    e.b.position_at_end(loop.body)
    loop.count()
    e.flow.block(stmt.body)
    loop.back()


def _divergent_while(e: LaneEmitter, stmt: n.While) -> None:
    """Emit a `while` loop that each lane leaves when its own condition fails."""
    b = e.b
    loop, alive = _LoopBlocks(e, stmt), _AliveLanes(e)
    e.flow.go(loop.head)
    before = alive.mask()
    # The head is entered only while some lane is active, so the condition runs for at least one lane.
    with e.flow.under(before):
        e.flow.block(stmt.condition)
        live = b.and_(before, e.vector(stmt.test))
    b.store(live, alive.place)
    b.cbranch(e.any(live), loop.body, loop.done)
    b.position_at_end(loop.body)
    with e.flow.under(live):
        loop.count()
        e.flow.block(stmt.body)
    e.flow.go(loop.latch)
    if stmt.stop is None:
        b.branch(loop.head)
    else:
        alive.drop(b.and_(live, e.splat(loop.stop())))
        b.cbranch(e.any(alive.mask()), loop.head, loop.done)
    loop.close()
