"""How a launch runs a task on several threads: through the pool if the work is worth it, on its own thread otherwise.

The work is the number of iterations times what one took in the launch before, which a variable of the module keeps for
each task and kind of code; before the first launch, times an estimate. The pool is asked for, like masked code, when it
is first needed. Small tasks wake nobody, and middling ones not everybody.
"""
from __future__ import annotations

from dataclasses import dataclass

from . import ir
from .builder import IRBuilder
from .emit import Arith, ModuleState
from .layout import DECLINED
from .types import I8, I32, I64, PTR, VOID, const

LANES = 64
"""Lanes of masked code unless the options say how many: chunks are multiples of it."""
ENOUGH = 30_000
"""Nanoseconds of work from which the pool is used."""
SHARE = 15_000
"""Least nanoseconds of work for a thread."""
CHUNK = 8_000
"""Least nanoseconds of work for a chunk."""
CHUNKS = 32
"""Most chunks for each thread."""
_SCALE = 10
"""Times of an iteration are kept in 2^-10 ns."""
POOL = -1
"""What is asked of the host for the pool, where a task is asked for by its number."""


@dataclass(frozen=True)
class Code:
    """A function of a task: its address, and how many iterations it runs side by side."""

    address: ir.Value
    lanes: int


def whole(count: ir.Value) -> list[ir.Value]:
    """Arguments of a function of a task after the block: all iterations, one by one, on the first row."""
    return [const(I64, 0), count, const(I64, 1), const(I64, 0)]


def slot(b: IRBuilder, block: ir.Value, at: int) -> ir.Value:
    """Address of a slot of the block."""
    return b.gep(block, const(I64, at), I8, inbounds=True)


def filled(m: ModuleState, b: IRBuilder, block: ir.Value, at: int, what: int) -> ir.Value:
    """Content of a slot for an address, which the host is asked for if it is not there yet."""
    first = b.load(slot(b, block, at), I64)
    before = b.block
    ask, known = b.function.append_basic_block("ask"), b.function.append_basic_block("known")
    b.cbranch(b.icmp_unsigned("==", first, const(I64, 0)), ask, known, unlikely=True)
    b.position_at_end(ask)
    request = b.load(slot(b, block, m.layout.request_at), PTR)
    b.call_pointer(request, VOID, [block, const(I64, what)])
    answer = b.load(slot(b, block, at), I64)
    b.branch(known)
    b.position_at_end(known)
    address = b.phi(I64)
    address.add_incoming(first, before)
    address.add_incoming(answer, ask)
    return address


def spread(m: ModuleState, b: IRBuilder, block: ir.Value, task: int, count: ir.Value, code: Code) -> ir.Value:
    """Run all iterations of a task; gives the status."""
    kept = m.module.variable(f"sg.spent.{task}.{code.lanes}", I64)
    work = _work(m, b, task, count, code, kept)
    wide, small, pooled, done = (b.function.append_basic_block(name) for name in ("wide", "alone", "pooled", "done"))
    begin = clock(m, b)
    b.cbranch(b.icmp_unsigned(">=", work, const(I64, ENOUGH)), wide, small)
    b.position_at_end(wide)
    threads = _threads(m, b, block, task, work)
    pool = filled(m, b, block, m.layout.pool_at, POOL)
    several = b.icmp_unsigned(">", threads, const(I64, 1))
    b.cbranch(b.and_(several, b.icmp_unsigned(">", pool, const(I64, DECLINED))), pooled, small)
    b.position_at_end(pooled)
    grain = _grain(m, b, count, work, threads, code.lanes)
    shared = slot(b, block, m.layout.shared_at)
    b.store(const(I64, 1), shared)
    together = b.call_pointer(b.inttoptr(pool, PTR), I32, [code.address, block, count, grain, threads])
    b.store(const(I64, 0), shared)
    b.branch(done)
    b.position_at_end(small)
    alone = b.call_pointer(code.address, I32, [block, *whole(count)])
    b.branch(done)
    b.position_at_end(done)
    status, used = b.phi(I32), b.phi(I64)
    for value, number, source in ((together, threads, pooled), (alone, const(I64, 1), small)):
        status.add_incoming(value, source)
        used.add_incoming(number, source)
    _keep(m, b, kept, b.mul(b.sub(clock(m, b), begin), used), count)
    return status


def _work(m: ModuleState, b: IRBuilder, task: int, count: ir.Value, code: Code, kept: ir.Value) -> ir.Value:
    """Nanoseconds that the task is thought to take on one thread."""
    nanoseconds = m.sharing(task).nanoseconds(code.lanes)
    known = b.load(kept, I64)
    guess = const(I64, max(1, round(nanoseconds * 2**_SCALE)))
    each = b.select(b.icmp_unsigned("==", known, const(I64, 0)), guess, known)
    return b.lshr(b.mul(count, each), const(I64, _SCALE))


def _keep(m: ModuleState, b: IRBuilder, kept: ir.Value, elapsed: ir.Value, count: ir.Value) -> None:
    """Note the time of an iteration, of at least one; where there is no clock it stays 0."""
    some = b.or_(count, b.zext(b.icmp_unsigned("==", count, const(I64, 0)), I64))
    b.store(b.udiv(b.shl(elapsed, const(I64, _SCALE)), some), kept)


def _threads(m: ModuleState, b: IRBuilder, block: ir.Value, task: int, work: ir.Value) -> ir.Value:
    """How many threads to use: at most one for each row that the launch has, and each with enough to do."""
    most: ir.Value = const(I64, m.options.threads)
    if any(stack.task == task for stack in m.layout.stacks):
        most = _least(m, b, most, b.load(slot(b, block, m.layout.threads_at[task]), I64))
    return _least(m, b, most, b.udiv(work, const(I64, SHARE)))


def _grain(m: ModuleState, b: IRBuilder, count: ir.Value, work: ir.Value, threads: ir.Value, lanes: int) -> ir.Value:
    """Iterations of a chunk: so that a thread has several, of some length each; a multiple of the lanes."""
    most = b.mul(threads, const(I64, CHUNKS))
    chunks = _least(m, b, most, b.add(b.udiv(work, const(I64, CHUNK)), const(I64, 1)))
    unit: ir.Value = const(I64, lanes)
    if lanes == 1:  # neighbours share cache lines, which matters where there are many
        unit = b.select(b.icmp_unsigned(">=", count, const(I64, 4096)), const(I64, 64), unit)
    exact = b.udiv(b.add(count, b.sub(chunks, const(I64, 1))), chunks)
    return b.mul(b.udiv(b.add(exact, b.sub(unit, const(I64, 1))), unit), unit)


def _least(m: ModuleState, b: IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.call(m.declare("llvm.umin.i64", I64, [I64, I64]), [x, y])


def clock(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Nanoseconds, roughly, from a fixed time on; 0 where there is no clock that is read in a few of them."""
    return b.call(m.helper("sg.clock", I64, [], lambda e, _: _CLOCKS[m.target.clock](e)), [])


def _no_clock(e: Arith) -> None:
    e.b.ret(const(I64, 0))


def _time_stamp_counter(e: Arith) -> None:
    """It counts 2 to 4 times in a nanosecond; read as 2.7."""
    ticks = e.b.call(e.m.declare("llvm.readcyclecounter", I64, []), [])
    e.b.ret(e.b.lshr(e.b.mul(ticks, const(I64, 3)), const(I64, 3)))


def _generic_timer(e: Arith) -> None:
    """The counter of AArch64 that programs may read, and its frequency."""
    ticks, frequency = (
        e.b.call_pointer(ir.Value(PTR, f'asm sideeffect "mrs $0, {name}", "=r"'), I64, [])
        for name in ("cntvct_el0", "cntfrq_el0")
    )
    e.b.ret(e.b.mul(ticks, e.b.udiv(const(I64, 1_000_000_000), frequency)))


_CLOCKS = {"": _no_clock, "tsc": _time_stamp_counter, "cntvct": _generic_timer}
