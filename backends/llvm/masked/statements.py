"""This module holds the table MASKED, which maps a statement class to the function that emits its masked code.

Values, draws and assertions are in this file; memory, atomics and adstacks add their entries from files of their own.
What is uniform is computed as a scalar by the entries that branching code uses; the entries of OPS take vectors as they
are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....compiler.ir import nodes as n
from ....compiler.ir.nodes import STATEMENTS
from ....compiler.ir.roles import BLOCKS, EXITS
from ....compiler.ir.statement import Stmt
from ....compiler.ir.table import Table
from ...codegen import casts, ir, random
from ...codegen.ops import apply
from ...codegen.types import I32, const
from ..branching.statements import LOWER
from .lanes import LaneEmitter
from .masks import CONTROL

HOLES: dict[type[Stmt], str] = {
    **dict.fromkeys(EXITS, "lower_exits"),
    **dict.fromkeys(BLOCKS, "lower_blocks removes it"),
    n.Print: "a task that prints runs by branching, which keeps its lines in order",
}

MASKED: Table[type[Stmt], Callable[[LaneEmitter, Any], None]] = Table(
    "masked",
    [c for c in STATEMENTS.values() if c not in CONTROL],
    HOLES,
    about="the instructions of code for lanes for the statement",
)


@MASKED.row(n.Const, n.Arg, n.Shape)
def _uniform(e: LaneEmitter, stmt: n.Const | n.Arg | n.Shape) -> None:
    LOWER[type(stmt)](e, stmt)


def _operands(e: LaneEmitter, stmt: n.Op) -> list[ir.LLVMValue]:
    """Return the operands of an operation as vectors, except a uniform condition or a constant exponent.

    These are the condition of a select, and a constant exponent that is not negative.
    """
    args = [e.vector(a) for a in stmt.args]
    if stmt.op == "select" and e.u.is_uniform(stmt.args[0]):
        args[0] = e.operand(stmt.args[0])
    exponent = e.operand(stmt.args[1]) if stmt.op == "pow" and stmt.result.type.is_int else None
    if isinstance(exponent, ir.Constant) and (exponent.constant or 0) >= 0:
        args[1] = exponent
    return args


@MASKED.row(n.Op)
def _op(e: LaneEmitter, stmt: n.Op) -> None:
    types = tuple(a.type for a in stmt.args)
    if e.u.is_uniform(stmt.result):
        LOWER[n.Op](e, stmt)
        return
    flags, e.flags = e.flags, () if stmt.result in e.m.exact else e.flags
    e.values[stmt.result] = apply(e, stmt.op, types, *_operands(e, stmt))
    e.flags = flags
    if stmt.result in e.u.strides:
        e.bases[stmt.result] = apply(e, stmt.op, types, *[e.base(a) for a in stmt.args])


@MASKED.row(n.Cast)
def _cast(e: LaneEmitter, stmt: n.Cast) -> None:
    e.values[stmt.result] = casts.cast(e, e.operand(stmt.arg), stmt.arg.type, stmt.result.type)
    if stmt.result in e.u.strides:
        e.bases[stmt.result] = casts.cast(e, e.base(stmt.arg), stmt.arg.type, stmt.result.type)


@MASKED.row(n.BitCast)
def _bit_cast(e: LaneEmitter, stmt: n.BitCast) -> None:
    e.values[stmt.result] = casts.bit_cast(e, e.operand(stmt.arg), stmt.result.type)


@MASKED.row(n.Random)
def _random(e: LaneEmitter, stmt: n.Random) -> None:
    """Emit a random draw: each lane draws with the number of its iteration and its own draw counter."""
    draws, b = e.draws, e.b
    # The emitter has made this register because the body draws.
    assert draws is not None
    words = e.wide(I32)
    d = b.load(draws, words)
    b.store(b.add(d, b.zext(e.flow.mask, words)), draws)
    key = (e.splat(e.slot(e.m.layout.draws_at, I32)), e.splat(e.slot(e.m.layout.draws_at + 4, I32)))
    low = b.trunc(e.iteration, words)
    high = b.trunc(b.lshr(e.iteration, e.const(e.iteration, 32)), words)
    task = e.task if stmt.task is None else stmt.task
    both = random.words(e, key, (const(words, task), low, high, d))
    e.values[stmt.result] = random.draw(e, both, stmt.result.type)


@MASKED.row(n.Assert)
def _assert(e: LaneEmitter, stmt: n.Assert) -> None:
    """Emit nothing for an assertion: only debug builds check assertions, and these run as branching code."""
