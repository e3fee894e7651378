"""This module defines LOWER, the table that translates each statement except control flow to LLVM IR.

Values, assertions and prints are in this file; memory and adstacks add their entries from files of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ....compiler.ir import nodes as n
from ....compiler.ir.nodes import STATEMENTS
from ....compiler.ir.roles import CONTROL
from ....compiler.ir.statement import Stmt
from ....compiler.ir.table import Table
from ....compiler.ir.types import u1, u8
from ...codegen import casts, ir, random
from ...codegen.argument_ranges import reach_of
from ...codegen.emit import ArithEmitter
from ...codegen.libcall import LIBRARY
from ...codegen.ops import apply
from ...codegen.sincos import paired_result
from ...codegen.types import I32, I64, PTR, VOID, const, memory_type, value_type
from ..emit import Emitter
from ..polls import run_signal_handlers
from .prints import record

LOWER: Table[type[Stmt], Callable[..., None]] = Table(
    "lower",
    [c for c in STATEMENTS.values() if c not in CONTROL],
    about="the instructions of branching code for the statement",
)


@LOWER.row(n.Const)
def _const(e: Emitter, stmt: n.Const) -> None:
    e.values[stmt.result] = const(value_type(stmt.result.type), stmt.value)


@LOWER.row(n.Arg)
def _arg(e: Emitter, stmt: n.Arg) -> None:
    at, t = e.m.layout.scalars[stmt.name]
    content = e.slot(at, memory_type(t))
    e.values[stmt.result] = from_memory(e, content, t.is_bool)


def from_memory(e: ArithEmitter, content: ir.LLVMValue, is_bool: bool) -> ir.LLVMValue:
    """Return a value that was loaded from memory in its register type: a boolean, one byte, becomes an i1."""
    return e.b.icmp_unsigned("!=", content, e.const(content, 0)) if is_bool else content


def to_memory(e: ArithEmitter, value: ir.LLVMValue, is_bool: bool) -> ir.LLVMValue:
    """Return a value in the type that it has in memory: a boolean, an i1, becomes a byte."""
    return casts.cast(e, value, u1, u8) if is_bool else value


@LOWER.row(n.Shape)
def _shape(e: Emitter, stmt: n.Shape) -> None:
    array = e.m.layout.arrays.get(stmt.array) or e.m.layout.arrays[stmt.array.removesuffix(".grad")]
    e.values[stmt.result] = e.from_i64(e.slot(array.shape_at + 8 * stmt.axis), stmt.result.type)


@LOWER.row(n.Op)
def _op(e: Emitter, stmt: n.Op) -> None:
    args = [e.operand(a) for a in stmt.args]
    types = tuple(a.type for a in stmt.args)
    if e.m.options.debug and stmt.op in ("floordiv", "mod") and types[0].is_int:
        zero = e.b.icmp_unsigned("==", args[1], e.const(args[1], 0))
        e.flow.trap_if(zero, e.m.site("division", e.task, stmt), const(I64, 0), const(I64, 0))
    flags, e.flags = e.flags, () if stmt.result in e.m.exact else e.flags
    e.alike = stmt.op in LIBRARY and stmt.result in e.m.deciding
    e.reach = reach_of(e, stmt)
    e.values[stmt.result] = paired_result(e, stmt) or apply(e, stmt.op, types, *args)
    e.flags, e.alike = flags, False


@LOWER.row(n.Cast)
def _cast(e: Emitter, stmt: n.Cast) -> None:
    e.values[stmt.result] = casts.cast(e, e.operand(stmt.arg), stmt.arg.type, stmt.result.type)


@LOWER.row(n.BitCast)
def _bit_cast(e: Emitter, stmt: n.BitCast) -> None:
    e.values[stmt.result] = casts.bit_cast(e, e.operand(stmt.arg), stmt.result.type)


@LOWER.row(n.Random)
def _random(e: Emitter, stmt: n.Random) -> None:
    draws = e.draws
    # The emitter has made this register because the body draws.
    assert draws is not None
    d = e.flow.load(I32, draws)
    e.flow.store(e.b.add(d, e.const(d, 1)), draws)
    key = (e.slot(e.m.layout.draws_at, I32), e.slot(e.m.layout.draws_at + 4, I32))
    low = e.b.trunc(e.iteration, I32)
    high = e.b.trunc(e.b.lshr(e.iteration, const(I64, 32)), I32)
    task = e.task if stmt.task is None else stmt.task
    both = random.words(e, key, (const(I32, task), low, high, d))
    e.values[stmt.result] = random.draw(e, both, stmt.result.type)


@LOWER.row(n.Assert)
def _assert(e: Emitter, stmt: n.Assert) -> None:
    if e.m.options.debug:
        cond = e.operand(stmt.cond)
        site = e.m.site("assert", e.task, stmt)
        e.flow.trap_if(e.b.xor(cond, e.const(cond, True)), site, const(I64, 0), const(I64, 0))


@LOWER.row(n.Print)
def _print(e: Emitter, stmt: n.Print) -> None:
    """Emit a call of the print callback with the site number and an array of 8-byte argument words."""
    if e.m.layout.device:
        record(e, stmt, [to_memory(e, e.operand(value), value.type.is_bool) for value in stmt.args])
        return
    buffer = e.alloca(I64, max(len(stmt.args), 1))
    for place, value in enumerate(stmt.args):
        address = e.b.gep(buffer, const(I64, place), I64)
        e.b.store(to_memory(e, e.operand(value), value.type.is_bool), address)
    run_signal_handlers(e.m, e.b, e.argument_block)
    callback = e.slot(e.m.layout.print_at, PTR)
    e.b.call_pointer(callback, VOID, [const(I64, e.m.site("print", e.task, stmt)), buffer])
