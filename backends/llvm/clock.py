"""This module emits readings of the clock for native code of a CPU, and addresses of words of the argument block."""

from __future__ import annotations

from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.types import I8, I64, PTR, const


def slot(b: IRBuilder, block: ir.LLVMValue, at: int) -> ir.LLVMValue:
    """Return the address of the word at byte offset `at` of the argument block."""
    return b.gep(block, const(I64, at), I8, inbounds=True)


def clock(m: ModuleState, b: IRBuilder) -> ir.LLVMValue:
    """Emit a clock reading in approximate nanoseconds since a fixed time; 0 if the machine has no fast clock."""
    return b.call(m.helper("sg.clock", I64, [], lambda e, _: _CLOCKS[m.target.clock](e)), [])


def _no_clock(e: ArithEmitter) -> None:
    e.b.ret(const(I64, 0))


def _time_stamp_counter(e: ArithEmitter) -> None:
    """Emit a reading of the time stamp counter of x86, scaled to nanoseconds."""
    # The counter counts 2 to 4 times in a nanosecond; the code assumes 8/3 times.
    ticks = e.b.call(e.m.declare("llvm.readcyclecounter", I64, []), [])
    e.b.ret(e.b.lshr(e.b.mul(ticks, const(I64, 3)), const(I64, 3)))


def _generic_timer(e: ArithEmitter) -> None:
    """Emit a reading of the timer of AArch64, scaled by its frequency."""
    ticks, frequency = (
        e.b.call_pointer(ir.LLVMValue(PTR, f'asm sideeffect "mrs $0, {name}", "=r"'), I64, [])
        for name in ("cntvct_el0", "cntfrq_el0")
    )
    e.b.ret(e.b.mul(ticks, e.b.udiv(const(I64, 1_000_000_000), frequency)))


_CLOCKS = {"": _no_clock, "tsc": _time_stamp_counter, "cntvct": _generic_timer}
