"""This module emits the polls by which native CPU code finds out if a signal, such as Ctrl-C, ends its launch.

`sg.poll(block) -> i32` is called between tasks, between the chunks of a parallel loop, and, in interruptible code, now
and then in loops of unknown length. It reads the clock, and every PERIOD asks the host (cpu/signals.py), which takes
the interpreter's lock; so it costs a few nanoseconds. What a signal handler raised then stands in the argument block,
and every thread of the launch finds it there. Where there is no clock, no signal is looked for.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.roles import LOOPS
from ...compiler.ir.walk import walk
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.types import I32, I64, PTR, const, pointer
from .clock import clock, slot
from .emit import Emitter
from .errors import FAILED, OK

PERIOD = 1 << 26
"""Nanoseconds from one check for signals to the next."""

ROUNDS = 1 << 18
"""Rounds of a long loop from one reading of the clock to the next, a power of two."""

MOST = 1 << 28
"""Rounds of loops after which a launch that must end counts as too long."""

TOO_LONG = 2
"""This number stands in the argument block, in place of what a signal raised, after MOST rounds."""


def poll(m: ModuleState, b: IRBuilder, block: ir.LLVMValue) -> ir.LLVMValue:
    """Emit a call of `sg.poll` and return an i1 that is true if the launch must end."""
    function = poll_function(m)
    return b.icmp_unsigned("!=", b.call(function, [block]), const(I32, OK))


def run_signal_handlers(m: ModuleState, b: IRBuilder, block: ir.LLVMValue) -> None:
    """Emit a call that runs pending signal handlers before generated code calls back into Python."""
    b.call(m.helper("sg.look", I32, [pointer(m.target.space)], _look, ("nounwind", "noinline")), [block])


def poll_function(m: ModuleState) -> ir.LLVMFunction:
    """Return the function `sg.poll(block)`, which returns FAILED if a signal asks the launch to end, else OK."""
    return m.helper("sg.poll", I32, [pointer(m.target.space)], _body, ("nounwind", "noinline"))


def _body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    b, layout, (block,) = e.b, e.m.layout, function.args
    now, due = clock(e.m, b), slot(b, block, layout.poll_at)
    with b.if_then(b.icmp_unsigned("<", now, b.load(due, I64))):
        raised = b.load(slot(b, block, layout.raised_at), I64)
        b.ret(b.select(b.icmp_unsigned("==", raised, const(I64, 0)), const(I32, OK), const(I32, FAILED)))
    b.store(b.add(now, const(I64, PERIOD)), due)
    b.ret(b.call(e.m.helper("sg.look", I32, [function.args[0].type], _look, ("nounwind", "noinline")), [block]))


def _look(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Write the body of `sg.look(block)`, a function that calls the host to run pending signal handlers.

    It returns FAILED if a handler has raised an exception, now or earlier in this launch, else OK.
    """
    b, layout, (block,) = e.b, e.m.layout, function.args
    raised = slot(b, block, layout.raised_at)
    with b.if_then(b.icmp_unsigned("!=", b.load(raised, I64), const(I64, 0))):
        b.ret(const(I32, FAILED))
    signals = b.load(slot(b, block, layout.signals_at), I64)
    with b.if_then(b.icmp_unsigned("==", signals, const(I64, 0))):
        b.ret(const(I32, OK))
    found = b.call_pointer(b.inttoptr(signals, PTR), I32, [raised])
    b.ret(b.select(b.icmp_unsigned("==", found, const(I32, 0)), const(I32, OK), const(I32, FAILED)))


def is_long(loop: n.For | n.While) -> bool:
    """Return True if a loop may run long: all but a `for` with a 32-bit index, no `until` and no inner loop."""
    if isinstance(loop, n.While) or loop.stop is not None or loop.index.type.bits == 64:
        return True
    return any(isinstance(s, LOOPS) for s in walk(loop.body))


def poll_in_loop(e: Emitter, loop: n.For | n.While) -> None:
    """Emit into a long loop of interruptible code a check that ends the launch if a signal asks for that.

    Code of a GPU gets no check: its argument block has no function of the host to call and cannot be written.
    """
    if e.m.target.entries or not e.m.options.interruptible or not is_long(loop):
        return
    b = e.b
    if e.ticks is None:
        e.ticks = e.alloca(I64)
        e.entry.store(const(I64, 0), e.ticks)
    counter = e.ticks
    rounds = b.add(b.load(counter, I64), const(I64, 1))
    b.store(rounds, counter)
    # Reading the clock in each round would cost more than a short round itself.
    turn = b.icmp_unsigned("==", b.and_(rounds, const(I64, ROUNDS - 1)), const(I64, 0))
    with b.if_then(turn):
        ends = poll(e.m, b, e.argument_block)
        with b.if_then(ends):
            b.ret(const(I32, FAILED))
        if not e.m.options.endless:
            too_long = b.icmp_unsigned(">=", rounds, const(I64, MOST))
            with b.if_then(too_long):
                b.store(const(I64, TOO_LONG), slot(b, e.argument_block, e.m.layout.raised_at))
                b.ret(const(I32, FAILED))
