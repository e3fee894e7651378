"""This module defines TANGENT, the table of functions that emit a statement with its tangent, one per class.

A handler emits the statement itself and then the computation of its tangent, which may use all primals computed so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ir import nodes as n
from ..ir.roles import BLOCKS
from ..ir.statement import Stmt
from ..ir.table import Table
from ..ir.walk import map_blocks

if TYPE_CHECKING:
    from .tangent import TangentSweep

Handler = Callable[["TangentSweep", Any], None]
"""A handler is a function (sweep, statement)."""

TANGENT: Table[type[Stmt], Handler] = Table(
    "tangent",
    n.STATEMENTS.values(),
    dict.fromkeys(BLOCKS, "lower_blocks removes it"),
    about="the statements of forward mode that carry its tangent",
)
"""For each class of statements, its handler."""


@TANGENT.row(n.Const, n.Arg, n.Shape, n.BitCast, n.Within, n.Random, n.Break, n.Continue, n.Return, n.Assert, n.Print)
def _constant(s: TangentSweep, stmt: Stmt) -> None:
    """Emit a statement unchanged that has no tangent, such as a constant, a draw, a jump or a print."""
    s.b.emit(stmt)


@TANGENT.row(n.If, n.For, n.While, n.Scope)
def _nested(s: TangentSweep, stmt: Stmt) -> None:
    """Emit a statement with blocks, such as an `if` or a loop, with tangents computed inside of the blocks."""
    s.b.emit(map_blocks(stmt, s.block))


@TANGENT.row(n.Op)
def _op(s: TangentSweep, stmt: n.Op) -> None:
    """Emit the operation and the tangent of its result."""
    s.b.emit(stmt)
    made = s.along(stmt.op, stmt.args, stmt.result) if stmt.result.type.is_real else None
    if made is not None:
        s.tangents[stmt.result] = made


@TANGENT.row(n.Cast)
def _cast(s: TangentSweep, stmt: n.Cast) -> None:
    """Emit the cast, and a cast of the tangent between real types."""
    s.b.emit(stmt)
    given = s.tangents.get(stmt.arg)
    if given is not None and stmt.result.type.is_real:
        s.tangents[stmt.result] = s.b.cast(given, stmt.result.type)


# ---- locals -------------------------------------------------------------------------------------------------


@TANGENT.row(n.Local, n.LocalArray)
def _local(s: TangentSweep, stmt: n.Local | n.LocalArray) -> None:
    """Emit the declaration of a local, and of a second local for its tangent."""
    s.b.emit(stmt)
    twin = s.twin(stmt.var)
    if twin is not None:
        s.b.emit(replace(stmt, var=twin))


@TANGENT.row(n.Get, n.GetElement)
def _get(s: TangentSweep, stmt: n.Get | n.GetElement) -> None:
    """Emit a read of a local, and the same read of the local that holds the tangent."""
    s.b.emit(stmt)
    twin = s.twin(stmt.var)
    if twin is not None:
        made = s.tangents[stmt.result] = s.b.fresh(stmt.result.type)
        s.b.emit(replace(stmt, var=twin, result=made))


@TANGENT.row(n.Set, n.SetElement)
def _set(s: TangentSweep, stmt: n.Set | n.SetElement) -> None:
    """Emit a write to a local, and a write of the tangent to the local that holds it."""
    s.b.emit(stmt)
    twin = s.twin(stmt.var)
    if twin is not None:
        s.b.emit(replace(stmt, var=twin, value=s.of(stmt.value)))


# ---- adstacks -----------------------------------------------------------------------------------------------


@TANGENT.row(n.StackAlloca, n.StackPop)
def _stack(s: TangentSweep, stmt: n.StackAlloca | n.StackPop) -> None:
    """Emit a declaration or pop of an adstack, and the same for the adstack that holds the tangents."""
    s.b.emit(stmt)
    twin = s.twin_stack(stmt.stack)
    if twin is not None:
        s.b.emit(replace(stmt, stack=twin))


@TANGENT.row(n.StackPush, n.StackAccumulate)
def _onto_stack(s: TangentSweep, stmt: n.StackPush | n.StackAccumulate) -> None:
    """Emit a push or accumulation, and the same with the tangent on the adstack that holds the tangents.

    A slot of the second adstack holds the tangents of a primal and its adjoint, so both adstacks have the same depth.
    """
    s.b.emit(stmt)
    twin = s.twin_stack(stmt.stack)
    if twin is not None:
        s.b.emit(replace(stmt, stack=twin, value=s.of(stmt.value)))


@TANGENT.row(n.StackTop, n.StackTopAdjoint)
def _top(s: TangentSweep, stmt: n.StackTop | n.StackTopAdjoint) -> None:
    """Emit a read of an adstack, and the same read of its tangents if the result has a tangent."""
    s.b.emit(stmt)
    twin = s.twin_stack(stmt.stack)
    if twin is not None and stmt.result in s.varied:
        made = s.tangents[stmt.result] = s.b.fresh(stmt.result.type)
        s.b.emit(replace(stmt, stack=twin, result=made))


# ---- memory -------------------------------------------------------------------------------------------------


@TANGENT.row(n.Load)
def _load(s: TangentSweep, stmt: n.Load) -> None:
    """Emit a load, and a load of the element's tangent."""
    s.b.emit(stmt)
    dual = s.dual(stmt.array)
    if dual is not None:
        s.tangents[stmt.result] = s.b.load(dual, stmt.indices, stmt.result.type)


@TANGENT.row(n.Store)
def _store(s: TangentSweep, stmt: n.Store) -> None:
    """Emit a store, and a store of the value's tangent to the element's tangent."""
    s.b.emit(stmt)
    dual = s.dual(stmt.array)
    if dual is not None:
        s.b.store(dual, stmt.indices, s.of(stmt.value))


@TANGENT.row(n.Atomic)
def _atomic(s: TangentSweep, stmt: n.Atomic) -> None:
    """Emit an atomic, and the update of the element's tangent.

    For an atomic add, the tangent of the value is added. Other atomics must update element and tangent in one step;
    `TangentSweep.task` has made the task serial for them.
    """
    dual = s.dual(stmt.array)
    if dual is None:
        s.b.emit(stmt)
    elif s.hands_out(stmt):
        s.b.emit(stmt)
        s.tangents[stmt.result] = s.b.atomic("exchange", dual, stmt.indices, s.of(stmt.value))
    elif stmt.op == "add":
        s.b.emit(stmt)
        if stmt.value in s.tangents or stmt.result in s.used:
            s.tangents[stmt.result] = s.b.atomic("add", dual, stmt.indices, s.of(stmt.value))
    else:
        _read_modify_write(s, stmt, dual)


def _read_modify_write(s: TangentSweep, stmt: n.Atomic, dual: str) -> None:
    """Emit an atomic, and a store of the tangent of op(old, value) to the element's tangent.

    At a tie of an atomic min or max the new value wins.
    """
    old = s.b.load(dual, stmt.indices, stmt.value.type)
    s.b.emit(stmt)
    s.tangents[stmt.result] = old
    if stmt.op == "exchange":
        s.b.store(dual, stmt.indices, s.of(stmt.value))
        return
    if stmt.expected is not None:
        same = s.b.same_bits(stmt.result, stmt.expected)
        s.b.store(dual, stmt.indices, s.b.op("select", same, s.of(stmt.value), old))
        return
    made = s.b.op(stmt.op, stmt.result, stmt.value)
    s.b.store(dual, stmt.indices, s.along(stmt.op, (stmt.result, stmt.value), made) or old)
