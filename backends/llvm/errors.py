"""The error record: how native code reports what went wrong. The first report of a launch stands.

The record is four slots of the argument block: site number + 1 (0: no error), and two numbers whose meaning the
kind of the site gives (index and extent, or depth and capacity).
"""
from __future__ import annotations

from . import ir
from .emit import Arith, ModuleState
from .types import I8, I64, VOID, const, pointer

OK, RETURNED, FAILED = 0, 1, 2
"""Status of a task: went through; its serial code returned, so later tasks must not run; an error was recorded."""


def failer(m: ModuleState) -> ir.Function:
    """sg.fail(block, site, a, b): enter the error unless there is one."""
    params = [pointer(m.target.space), I64, I64, I64]
    return m.helper("sg.fail", VOID, params, _body, ("nounwind", "cold", "noinline"))


def _body(e: Arith, function: ir.Function) -> None:
    b = e.b
    block, site, first, second = function.args
    record = b.gep(block, const(I64, e.m.layout.error_at), I8, inbounds=True)
    _, first_report = b.cmpxchg(record, const(I64, 0), b.add(site, const(I64, 1)), "monotonic")
    with b.if_then(first_report):
        for place, number in ((8, first), (16, second)):
            b.store(number, b.gep(record, const(I64, place), I8, inbounds=True))
    b.ret_void()
