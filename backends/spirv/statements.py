"""This module defines LOWER, the table of SPIR-V emitters by statement class, and its entries for scalar statements.

Kernels come without exits (lower_exits), so `scope`, `break`, `continue` and `return` have no entries. Memory, adstacks
and control flow add their entries from files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import STATEMENTS
from ...compiler.ir.roles import EXITS
from ...compiler.ir.statement import Block, Stmt
from ...compiler.ir.table import Table
from ...compiler.ir.types import u1, u8
from ..codegen import ir, random
from ..codegen.argument_ranges import reach_of
from ..codegen.casts import bit_cast
from ..codegen.sincos import paired_result
from ..codegen.types import memory_type, value_type
from .code import I1, I32
from .emit import ArithEmitter, Emitter
from .functions import sine_and_cosine
from .ops import apply, convert

_HOLES: dict[type[Stmt], str] = {
    **dict.fromkeys(EXITS, "lower_exits removes it"),
    n.Collective: "thread_blocks turns it into exchanges through shared arrays",
}

LOWER: Table[type[Stmt], Callable[..., None]] = Table(
    "spirv.lower", STATEMENTS.values(), _HOLES, about="the instructions of shaders for the statement"
)


def lower_block(e: Emitter, block: Block) -> None:
    """Emit the SPIR-V of the statements of a block, in order."""
    for stmt in block:
        LOWER[type(stmt)](e, stmt)


@LOWER.row(n.Const)
def _const(e: Emitter, stmt: n.Const) -> None:
    e.values[stmt.result] = e.b.const(value_type(stmt.result.type), stmt.value)


def from_memory(e: ArithEmitter, content: ir.LLVMValue, is_bool: bool) -> ir.LLVMValue:
    """Return a value converted from its representation in memory, in which any non-zero byte is a true boolean."""
    return e.b.icmp_unsigned("!=", content, e.const(content, 0)) if is_bool else content


def to_memory(e: ArithEmitter, value: ir.LLVMValue, is_bool: bool) -> ir.LLVMValue:
    """Return a value converted to its representation in memory, where a boolean is one byte."""
    return convert(e, value, u1, u8) if is_bool else value


@LOWER.row(n.Arg)
def _arg(e: Emitter, stmt: n.Arg) -> None:
    at, t = e.m.layout.scalars[stmt.name]
    e.values[stmt.result] = from_memory(e, e.slot(at, memory_type(t)), t.is_bool)


@LOWER.row(n.Shape)
def _shape(e: Emitter, stmt: n.Shape) -> None:
    # An adjoint array has the shape of its primal, which alone has extents in the layout in some kernels.
    array = e.m.layout.arrays.get(stmt.array) or e.m.layout.arrays[stmt.array.removesuffix(".grad")]
    e.values[stmt.result] = e.from_i64(e.slot(array.shape_at + 8 * stmt.axis), stmt.result.type)


@LOWER.row(n.Op)
def _op(e: Emitter, stmt: n.Op) -> None:
    """Emit a scalar operation of the IR; debug builds trap if an integer is divided by zero."""
    args = [e.operand(a) for a in stmt.args]
    types = tuple(a.type for a in stmt.args)
    if e.m.options.debug and stmt.op in ("floordiv", "mod") and types[0].is_int:
        zero = e.b.icmp_unsigned("==", args[1], e.const(args[1], 0))
        e.trap_if(zero, e.m.site("division", e.task, stmt), e.word(0), e.word(0))
    # An exact value is not contracted.
    flags, e.flags = e.flags, () if stmt.result in e.m.exact else e.flags
    emitter: Any = e
    e.reach = reach_of(emitter, stmt)
    e.values[stmt.result] = paired_result(emitter, stmt, sine_and_cosine) or apply(e, stmt.op, types, *args)
    e.flags, e.reach = flags, math.inf


@LOWER.row(n.Cast)
def _cast(e: Emitter, stmt: n.Cast) -> None:
    e.values[stmt.result] = convert(e, e.operand(stmt.arg), stmt.arg.type, stmt.result.type)


@LOWER.row(n.BitCast)
def _bit_cast(e: Emitter, stmt: n.BitCast) -> None:
    arith: Any = e
    e.values[stmt.result] = bit_cast(arith, e.operand(stmt.arg), stmt.result.type)


@LOWER.row(n.Random)
def _random(e: Emitter, stmt: n.Random) -> None:
    """Emit the next random draw of the iteration, as docs/ir.md defines it."""
    draws, b = e.draws, e.b
    # `_start` in shaders.py makes the variable where a body draws.
    assert draws is not None
    d = draws.get()
    draws.set(b.add(d, e.const(d, 1)))
    key = (e.slot(e.m.layout.draws_at, I32), e.slot(e.m.layout.draws_at + 4, I32))
    low = b.trunc(e.iteration, I32)
    high = b.trunc(b.lshr(e.iteration, e.word(32)), I32)
    task = b.const(I32, e.task if stmt.task is None else stmt.task)
    arith: Any = e
    both = random.words(arith, key, (task, low, high, d))
    e.values[stmt.result] = random.draw(arith, both, stmt.result.type)


@LOWER.row(n.Assert)
def _assert(e: Emitter, stmt: n.Assert) -> None:
    """Emit, in debug builds only, a trap that is taken if the asserted condition is false."""
    if e.m.options.debug:
        failed = e.b.xor(e.operand(stmt.cond), e.b.const(I1, True))
        e.trap_if(failed, e.m.site("assert", e.task, stmt), e.word(0), e.word(0))
