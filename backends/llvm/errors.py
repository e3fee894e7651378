"""This module generates code that writes an error of a running kernel to the error record of its launch.

The first error of a launch stays in the record. The record is four words of the argument block: site number + 1 (0: no
error), and two numbers whose meaning depends on the kind of the site (index and extent, or depth and capacity). The
record of a GPU lies in memory of the host, and a word in memory of the device tells later tasks not to run.
"""

from __future__ import annotations

from ..codegen import ir
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.types import I8, I64, VOID, const, pointer
from .emit import Emitter

OK, RETURNED, FAILED = 0, 1, 2
"""Status of a task: it went through; its serial code returned, so later tasks must not run; an error was recorded."""


def failer(m: ModuleState) -> ir.LLVMFunction:
    """Return the function `sg.fail(block, site, a, b)`, which writes an error record unless one is set already."""
    places = [pointer(m.target.space)] * (2 if m.layout.device else 1)
    body = _body_on_device if m.layout.device else _body
    return m.helper("sg.fail", VOID, [*places, I64, I64, I64], body, ("nounwind", "cold", "noinline"))


def report(e: Emitter, site: int, first: ir.LLVMValue, second: ir.LLVMValue) -> None:
    """Emit a call that records an error, at the position of the builder of `e`.

    Args:
        e: Emitter of the function that fails.
        site: Number of the place in the site table.
        first: First number of the error, i64.
        second: Second number of the error, i64.
    """
    layout, function = e.m.layout, failer(e.m)
    places = [e.argument_block]
    if layout.device:
        places = [e.slot_address(layout.errors_at), e.slot_address(layout.halted_at)]
    e.b.call(function, [*places, const(I64, site), first, second])


def _body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    block, site, first, second = function.args
    record = e.b.gep(block, const(I64, e.m.layout.error_at), I8, inbounds=True)
    _enter(e, record, site, first, second)
    e.b.ret_void()


def _body_on_device(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    record, halted, site, first, second = function.args
    _enter(e, record, site, first, second)
    e.b.store(const(I64, 1), halted)
    e.b.ret_void()


def _enter(
    e: ArithEmitter, record: ir.LLVMValue, site: ir.LLVMValue, first: ir.LLVMValue, second: ir.LLVMValue
) -> None:
    b = e.b
    _, first_report = b.cmpxchg(record, const(I64, 0), b.add(site, const(I64, 1)), "monotonic", e.m.target.scope)
    with b.if_then(first_report):
        for place, number in ((8, first), (16, second)):
            b.store(number, b.gep(record, const(I64, place), I8, inbounds=True))
