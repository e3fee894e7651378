"""This module emits the run of a task: on several threads of the pool if the work is worth it, else on one thread.

The work is the number of iterations times the time of one iteration in the launch before, which a variable of the
module keeps for each task and kind of code; before the first launch, times an estimate. The pool, like masked code, is
created at the request of the first launch that needs it. Small tasks wake no thread, and tasks of middle size wake only
some threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.layout import DECLINED
from ..codegen.types import I32, I64, PTR, VOID, const, pointer
from .clock import clock, slot
from .errors import FAILED, OK
from .polls import poll_function, run_signal_handlers

LANES = 64
"""Lanes of masked code unless the options say how many: chunks are multiples of this number."""
ENOUGH = 30_000
"""Nanoseconds of work from which the pool is used."""
SHARE = 15_000
"""Least nanoseconds of work for a thread."""
CHUNK = 8_000
"""Least nanoseconds of work for a chunk."""
CHUNKS = 32
"""Most chunks for each thread, unless they are longer than LONGEST."""
LONGEST = 1 << 28
"""Most nanoseconds of a chunk: behind each chunk the launch checks for signals."""
PART = 1 << 25
"""Estimated nanoseconds of a part of a task that one thread runs: between parts it checks for signals."""
LEAST = 4096
"""Least number of iterations of a part of a task that one thread runs."""
_SCALE = 10
"""Binary digits behind the point in times of an iteration, which are kept in 2^-10 ns."""
POOL = -1
"""This number asks the host for the pool, where the number of a task asks for its masked code."""


@dataclass(frozen=True)
class TaskCode:
    """Represent the compiled function of a task: its address and its number of lanes.

    Attributes:
        address: Address of the function.
        lanes: Number of iterations that it runs side by side.
    """

    address: ir.LLVMValue
    lanes: int


def whole_range_arguments(count: ir.LLVMValue) -> list[ir.LLVMValue]:
    """Return the arguments (first, last, stride, row) that make a task's function run all iterations on row 0."""
    return [const(I64, 0), count, const(I64, 1), const(I64, 0)]


def filled_address(m: ModuleState, b: IRBuilder, block: ir.LLVMValue, at: int, what: int) -> ir.LLVMValue:
    """Return the address in a word of the argument block, after a call of the host that sets it if it is 0.

    Args:
        m: Module being written.
        b: Builder to emit with.
        block: Address of the argument block.
        at: Byte offset of the slot.
        what: Number of the task whose masked code is wanted, or POOL.
    """
    first = b.load(slot(b, block, at), I64)
    before = b.block
    ask, known = b.function.append_basic_block("ask"), b.function.append_basic_block("known")
    b.cbranch(b.icmp_unsigned("==", first, const(I64, 0)), ask, known, unlikely=True)
    b.position_at_end(ask)
    run_signal_handlers(m, b, block)
    request = b.load(slot(b, block, m.layout.request_at), PTR)
    b.call_pointer(request, VOID, [block, const(I64, what)])
    answer = b.load(slot(b, block, at), I64)
    b.branch(known)
    b.position_at_end(known)
    address = b.phi(I64)
    address.add_incoming(first, before)
    address.add_incoming(answer, ask)
    return address


def run_on_threads(
    m: ModuleState, b: IRBuilder, block: ir.LLVMValue, task: int, count: ir.LLVMValue, code: TaskCode
) -> ir.LLVMValue:
    """Emit code that runs all `count` iterations of a task, on several threads if this is faster. Return the status."""
    # Branching and masked code take different times, so each has a variable.
    kept = m.module.variable(f"sg.spent.{task}.{code.lanes}", I64)
    work = _work(m, b, task, count, code, kept)
    wide, small, pooled, done = (b.function.append_basic_block(name) for name in ("wide", "alone", "pooled", "done"))
    begin = clock(m, b)
    b.cbranch(b.icmp_unsigned(">=", work, const(I64, ENOUGH)), wide, small)
    b.position_at_end(wide)
    threads = _threads(m, b, block, task, work)
    pool = filled_address(m, b, block, m.layout.pool_at, POOL)
    several = b.icmp_unsigned(">", threads, const(I64, 1))
    b.cbranch(b.and_(several, b.icmp_unsigned(">", pool, const(I64, DECLINED))), pooled, small)
    b.position_at_end(pooled)
    grain = _grain(m, b, count, work, threads, code.lanes)
    shared = slot(b, block, m.layout.shared_at)
    # Updates that threads share are atomic from here on (atomics.py).
    b.store(const(I64, 1), shared)
    call = [code.address, block, count, grain, threads, poll_function(m)]
    together = b.call_pointer(b.inttoptr(pool, PTR), I32, call)
    b.store(const(I64, 0), shared)
    b.branch(done)
    b.position_at_end(small)
    alone = run_on_this_thread(m, b, block, task, count, code)
    ran = b.block
    b.branch(done)
    b.position_at_end(done)
    status, used = b.phi(I32), b.phi(I64)
    for value, number, source in ((together, threads, pooled), (alone, const(I64, 1), ran)):
        status.add_incoming(value, source)
        used.add_incoming(number, source)
    # The time of all threads together counts, as if one thread had done the work.
    _keep(m, b, kept, b.mul(b.sub(clock(m, b), begin), used), count)
    return status


def run_on_this_thread(
    m: ModuleState, b: IRBuilder, block: ir.LLVMValue, task: int, count: ir.LLVMValue, code: TaskCode
) -> ir.LLVMValue:
    """Emit code that runs all iterations of a task on the launching thread, and return the status."""
    # Only the program decides how long parts are, so that sums over parts are added up in one order.
    each = max(m.sharing(task).nanoseconds(code.lanes), 2.0**-_SCALE)
    part = max(LEAST, round(PART / each) // LEAST * LEAST)
    run = m.helper("sg.parts", I32, [PTR, pointer(m.target.space), I64, I64], _parts, ("nounwind", "noinline"))
    one, several, done = (b.function.append_basic_block(name) for name in ("at.once", "in.parts", "alone.done"))
    b.cbranch(b.icmp_unsigned("<=", count, const(I64, part)), one, several)
    b.position_at_end(one)
    whole_status = b.call_pointer(code.address, I32, [block, *whole_range_arguments(count)])
    b.branch(done)
    b.position_at_end(several)
    parts_status = b.call(run, [code.address, block, count, const(I64, part)])
    b.branch(done)
    b.position_at_end(done)
    status = b.phi(I32)
    status.add_incoming(whole_status, one)
    status.add_incoming(parts_status, several)
    return status


def _parts(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Write sg.parts(function, block, count, part), which calls a task's function on `part` iterations at a time.

    It returns the first status that is not OK, and FAILED where the launch is to end.
    """
    b, (code, block, count, part) = e.b, function.args
    head, body, on, done = (function.append_basic_block(name) for name in ("parts", "part", "on", "done"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    first = b.phi(I64)
    first.add_incoming(const(I64, 0), before)
    b.cbranch(b.icmp_unsigned("<", first, count), body, done)
    b.position_at_end(body)
    last = _least(e.m, b, b.add(first, part), count)
    status = b.call_pointer(code, I32, [block, first, last, const(I64, 1), const(I64, 0)])
    with b.if_then(b.icmp_unsigned("!=", status, const(I32, OK))):
        b.ret(status)
    with b.if_then(b.icmp_unsigned("!=", b.call(poll_function(e.m), [block]), const(I32, OK))):
        b.ret(const(I32, FAILED))
    b.branch(on)
    b.position_at_end(on)
    first.add_incoming(last, on)
    b.branch(head)
    b.position_at_end(done)
    b.ret(const(I32, OK))


def _work(
    m: ModuleState, b: IRBuilder, task: int, count: ir.LLVMValue, code: TaskCode, kept: ir.LLVMValue
) -> ir.LLVMValue:
    """Return the estimated time in nanoseconds that all iterations of the task take on one thread."""
    nanoseconds = m.sharing(task).nanoseconds(code.lanes)
    known = b.load(kept, I64)
    guess = const(I64, max(1, round(nanoseconds * 2**_SCALE)))
    each = b.select(b.icmp_unsigned("==", known, const(I64, 0)), guess, known)
    return b.lshr(b.mul(count, each), const(I64, _SCALE))


def _keep(m: ModuleState, b: IRBuilder, kept: ir.LLVMValue, elapsed: ir.LLVMValue, count: ir.LLVMValue) -> None:
    """Emit a store of the measured time per iteration, from which the next launch estimates the work of the task."""
    # A count of 0 becomes 1, so that the division is defined.
    some = b.or_(count, b.zext(b.icmp_unsigned("==", count, const(I64, 0)), I64))
    b.store(b.udiv(b.shl(elapsed, const(I64, _SCALE)), some), kept)


def _threads(m: ModuleState, b: IRBuilder, block: ir.LLVMValue, task: int, work: ir.LLVMValue) -> ir.LLVMValue:
    """Return the number of threads for a task, limited by the rows of the launch and by the estimated work."""
    most: ir.LLVMValue = const(I64, m.options.threads)
    if any(stack.task == task for stack in m.layout.stacks):
        most = _least(m, b, most, b.load(slot(b, block, m.layout.threads_at[task]), I64))
    return _least(m, b, most, b.udiv(work, const(I64, SHARE)))


def _grain(
    m: ModuleState, b: IRBuilder, count: ir.LLVMValue, work: ir.LLVMValue, threads: ir.LLVMValue, lanes: int
) -> ir.LLVMValue:
    """Return the number of iterations that a thread takes from the pool at a time, a multiple of the lanes."""
    most = b.mul(threads, const(I64, CHUNKS))
    chunks = _least(m, b, most, b.add(b.udiv(work, const(I64, CHUNK)), const(I64, 1)))
    short = b.udiv(work, const(I64, LONGEST))
    chunks = b.select(b.icmp_unsigned(">", short, chunks), short, chunks)
    unit: ir.LLVMValue = const(I64, lanes)
    # Neighboring elements share cache lines, which matters where there are many iterations.
    if lanes == 1:
        unit = b.select(b.icmp_unsigned(">=", count, const(I64, 4096)), const(I64, 64), unit)
    exact = b.udiv(b.add(count, b.sub(chunks, const(I64, 1))), chunks)
    return b.mul(b.udiv(b.add(exact, b.sub(unit, const(I64, 1))), unit), unit)


def _least(m: ModuleState, b: IRBuilder, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the lesser of two unsigned numbers."""
    return b.call(m.declare("llvm.umin.i64", I64, [I64, I64]), [x, y])
