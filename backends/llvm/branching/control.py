"""This module emits control flow as branching code: one iteration at a time, a branch wherever the IR has one.

Everything that depends on how control flow is emitted is in this module: blocks, loops and jumps, access to memory, and
traps. The table entries of statements reach memory through `load`, `store` and `trap_if` of the flow, so masked code
offers the same methods, and its own table in place of BRANCHING.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....compiler.ir import nodes as n
from ....compiler.ir.roles import CONTROL
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.table import Table
from ....compiler.ir.walk import used_values, walk
from ...codegen import ir
from ...codegen.argument_ranges import first_is_apart
from ...codegen.index_checks import check_before_loop
from ...codegen.types import I1, I32, I64, const
from ..emit import Emitter
from ..errors import FAILED, report
from ..polls import poll_in_loop
from .loop_capacity import check_depth_once, check_room_once
from .pop_groups import PopGroups, unroll_factor
from .stack_state import Cursor

BRANCHING: Table[type[Stmt], Callable[..., None]] = Table(
    "branching", CONTROL, about="the blocks and branches of a statement of control flow"
)


@dataclass(frozen=True)
class ExitBlocks:
    """Represent the blocks to which `break` and `continue` of a loop or scope jump; a scope has no latch."""

    exit: ir.BasicBlock
    latch: ir.BasicBlock | None


class Branching:
    """Emit the control flow of one function of branching code: blocks, loops, branches and traps.

    Attributes:
        e: Emitter of the function.
        rows: Table entries of the statements that are not control flow.
        leave: Emits what a `return` does.
        frames: Loops and scopes around the open block, innermost last.
        roomy: Adstacks known to have room for the pushes being emitted.
        filled: Number of values that adstacks are known to hold at least, by name.
        usual: The trips being emitted are known to be usual (real_ranges.py).
        cursors: Adstacks that are reached through a cursor, by name.
        tops: Contents of top slots that were read ahead, by name of the adstack.
    """

    def __init__(self, e: Emitter, rows: Table[type[Stmt], Callable[..., None]], leave: Callable[[], None]) -> None:
        self.e = e
        self.rows = rows
        self.leave = leave
        self.frames: list[ExitBlocks] = []
        self.roomy: frozenset[str] = frozenset()
        self.filled: dict[str, int] = {}
        self.usual = False
        self.cursors: dict[str, Cursor] = {}
        self.tops: dict[str, ir.LLVMValue] = {}

    def block(self, body: Block) -> None:
        """Emit the statements of a block in order, up to a jump; statements after a jump are never reached."""
        function, lines = self.e.function, self.e.m.module.lines
        around = function.mark
        for stmt in body:
            if self.e.b.block.is_terminated:
                break
            lines.at(function, stmt.loc)
            row = BRANCHING.get(type(stmt)) or self.rows[type(stmt)]
            row(self.e, stmt)
        function.mark = around

    def append(self, name: str) -> ir.BasicBlock:
        """Append a new block to the function, without emitting into it yet."""
        return self.e.function.append_basic_block(name)

    def go(self, target: ir.BasicBlock) -> None:
        """Emit a branch to `target` unless the current block is terminated, then emit into `target`."""
        self.jump(target)
        self.e.b.position_at_end(target)

    def jump(self, target: ir.BasicBlock) -> None:
        """Emit a branch to `target` unless the current block is terminated."""
        if not self.e.b.block.is_terminated:
            self.e.b.branch(target)

    # -- memory and traps -----------------------------------------------------------------------------------

    def load(self, t: ir.Type, address: ir.LLVMValue) -> ir.LLVMValue:
        """Emit a load of a value of type `t` from an address."""
        return self.e.b.load(address, t)

    def store(self, value: ir.LLVMValue, address: ir.LLVMValue) -> None:
        """Emit a store of a value to an address."""
        self.e.b.store(value, address)

    def trap_if(self, bad: ir.LLVMValue, site: int, first: ir.LLVMValue, second: ir.LLVMValue) -> None:
        """Emit a trap: if `bad` holds, record an error with two numbers and end the launch."""
        trap_with(self.e, bad, site, lambda: (first, second))

    def trap_with(self, bad: ir.LLVMValue, site: int, numbers: Callable[[], tuple[ir.LLVMValue, ir.LLVMValue]]) -> None:
        """Record an error and end the launch if `bad` holds; `numbers` emits the error's two numbers in that branch."""
        trap_with(self.e, bad, site, numbers)


def trap_with(
    e: Emitter, bad: ir.LLVMValue, site: int, numbers: Callable[[], tuple[ir.LLVMValue, ir.LLVMValue]]
) -> None:
    """Emit a trap: if `bad` holds, record an error with the two `numbers` and end the launch.

    Args:
        e: Emitter of the function.
        bad: Scalar condition of the error.
        site: Number of the place in the site table.
        numbers: Emits the two numbers of the error, in the branch that is taken if `bad` holds.
    """
    b = e.b
    fail, go_on = (e.function.append_basic_block(name) for name in ("fail", "checked"))
    b.cbranch(bad, fail, go_on, unlikely=True)
    b.position_at_end(fail)
    report(e, site, *numbers())
    if e.failed is None:
        b.ret(const(I32, FAILED))
    else:
        b.branch(e.failed)
    b.position_at_end(go_on)


@BRANCHING.row(n.If)
def _if(e: Emitter, stmt: n.If) -> None:
    flow = e.flow
    then, done = flow.append("then"), flow.append("endif")
    orelse = flow.append("else") if stmt.orelse else done
    e.b.cbranch(e.operand(stmt.cond), then, orelse)
    e.b.position_at_end(then)
    flow.block(stmt.then)
    flow.jump(done)
    if stmt.orelse:
        e.b.position_at_end(orelse)
        flow.block(stmt.orelse)
        flow.jump(done)
    e.b.position_at_end(done)


def trip_count(e: Emitter, stmt: n.For) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the begin of a loop and its number of trips, both in 64 bits."""
    b = e.b
    begin, end = e.index(stmt.begin), e.index(stmt.end)
    low, high = (begin, end) if stmt.step > 0 else (end, begin)
    compare = b.icmp_signed if stmt.begin.type.is_signed else b.icmp_unsigned
    # The distance is taken unsigned, so it cannot overflow.
    last = b.sub(b.sub(high, low), const(I64, 1))
    count = b.add(b.udiv(last, const(I64, abs(stmt.step))), const(I64, 1)) if abs(stmt.step) != 1 else b.sub(high, low)
    return begin, b.select(compare("<", low, high), count, const(I64, 0))


@BRANCHING.row(n.For)
def _for(e: Emitter, stmt: n.For) -> None:
    begin, count = trip_count(e, stmt)
    check_before_loop(e, stmt, begin, count)
    with check_room_once(e, stmt, count), check_depth_once(e, stmt, count):
        groups = PopGroups.of(e, stmt, begin, count, _counter_type(e, stmt))
        if groups:
            groups.emit()
        else:
            _trips(e, stmt, begin, count)


def _trips(e: Emitter, stmt: n.For, begin: ir.LLVMValue, count: ir.LLVMValue) -> None:
    """Emit a loop that runs its trips one by one; the first is emitted separately if later ones can be shorter."""
    b, flow = e.b, e.flow
    header, body, latch, done = (flow.append(f"for.{part}") for part in ("head", "body", "latch", "exit"))
    ran = _trip_counter(e, stmt.trips)
    word = _counter_type(e, stmt)
    limit = count if word is I64 else b.trunc(count, word)
    apart = first_is_apart(e, stmt)
    start: ir.LLVMValue = const(word, 0)
    if apart:
        first, second = flow.append("for.first"), flow.append("for.second")
        b.cbranch(b.icmp_unsigned("==", limit, start), done, first)
        b.position_at_end(first)
        start = _start_trip(e, stmt, begin, count, start, ran)
        _body(e, stmt, ExitBlocks(done, second), header)
    before = second if apart else b.block
    flow.go(header)
    k = b.phi(word)
    k.add_incoming(start, before)
    b.cbranch(b.icmp_unsigned("<", k, limit), body, done)
    b.position_at_end(body)
    following = _start_trip(e, stmt, begin, count, k, ran)
    # Behind a first trip that stands apart, all trips are usual.
    flow.usual, usual = apart, flow.usual
    _body(e, stmt, ExitBlocks(done, latch), header)
    flow.usual = usual
    k.add_incoming(following, latch)
    b.position_at_end(done)
    _read_trips(e, stmt.trips, ran)


def _start_trip(
    e: Emitter, stmt: n.For, begin: ir.LLVMValue, count: ir.LLVMValue, k: ir.LLVMValue, ran: ir.LLVMValue | None
) -> ir.LLVMValue:
    """Emit the start of trip number k: set trip counter and index. Return the number of the next trip."""
    b = e.b
    following = b.add(k, const(k.type, 1))
    if ran is not None:
        b.store(following if k.type is I64 else b.zext(following, I64), ran)
    if k.type is I64:
        place = b.sub(b.sub(count, k), const(I64, 1)) if stmt.descending else k
        e.set_index(stmt.index, b.add(begin, b.mul(place, const(I64, stmt.step))))
    return following


def _counter_type(e: Emitter, stmt: n.For) -> ir.IntType:
    """Return the type in which trips are counted: 64 bits, or 32 on a GPU where these suffice."""
    # A GPU adds 64 bits in two steps, so a number that only counts and fits 32 bits has 32.
    if not e.m.target.entries or stmt.begin.type.bits > 32 or stmt.index in used_values(walk(stmt.body)):
        return I64
    return I32


@BRANCHING.row(n.While)
def _while(e: Emitter, stmt: n.While) -> None:
    b, flow = e.b, e.flow
    header, body, latch, done = (flow.append(f"while.{part}") for part in ("head", "body", "latch", "exit"))
    ran = _trip_counter(e, stmt.trips)
    flow.go(header)
    flow.block(stmt.condition)
    b.cbranch(e.operand(stmt.test), body, done)
    b.position_at_end(body)
    if ran is not None:
        b.store(b.add(b.load(ran, I64), const(I64, 1)), ran)
    _body(e, stmt, ExitBlocks(done, latch), header)
    b.position_at_end(done)
    _read_trips(e, stmt.trips, ran)


def _body(e: Emitter, stmt: n.For | n.While, frame: ExitBlocks, header: ir.BasicBlock) -> None:
    """Emit the body and the latch of a loop; the latch tests `until` and goes back to the header."""
    assert frame.latch is not None
    e.flow.frames.append(frame)
    poll_in_loop(e, stmt)
    e.flow.block(stmt.body)
    e.flow.frames.pop()
    e.flow.go(frame.latch)
    if stmt.stop is None:
        count = unroll_factor(e, stmt)
        e.b.branch(header, e.m.module.unrolled(count) if count > 1 else "")
    else:
        e.b.cbranch(e.b.load(e.locals[stmt.stop].address, I1), frame.exit, header)


def _trip_counter(e: Emitter, trips: Value | None) -> ir.LLVMValue | None:
    """Emit a variable that counts the trips of a loop and return it, or None if nothing reads the count."""
    if trips is None:
        return None
    ran = e.alloca(I64)
    e.b.store(const(I64, 0), ran)
    return ran


def _read_trips(e: Emitter, trips: Value | None, ran: ir.LLVMValue | None) -> None:
    """Set the result `trips` of a loop from its counter."""
    if trips is not None and ran is not None:
        e.values[trips] = e.from_i64(e.b.load(ran, I64), trips.type)


@BRANCHING.row(n.Scope)
def _scope(e: Emitter, stmt: n.Scope) -> None:
    done = e.flow.append("scope.exit")
    e.flow.frames.append(ExitBlocks(done, None))
    e.flow.block(stmt.body)
    e.flow.frames.pop()
    e.flow.go(done)


@BRANCHING.row(n.Break)
def _break(e: Emitter, stmt: n.Break) -> None:
    e.b.branch(e.flow.frames[-stmt.depth].exit)


@BRANCHING.row(n.Continue)
def _continue(e: Emitter, stmt: n.Continue) -> None:
    latch = e.flow.frames[-stmt.depth].latch
    # The verifier has made sure that `continue` names a loop.
    assert latch is not None
    e.b.branch(latch)


@BRANCHING.row(n.Return)
def _return(e: Emitter, stmt: n.Return) -> None:
    e.flow.leave()
