"""This module defines REVERSE, the table of functions that emit the adjoint of a statement, one per class.

A handler emits the reverse of one statement. It gets primals through `primal` and adjoints through `take` and `add`, so
that no handler knows how a value is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir import nodes as n
from ..ir.roles import BLOCKS, CONSTANTS, EXITS, STACKS
from ..ir.statement import Stmt, Value
from ..ir.table import Table
from ..ir.types import adjoint_type, i64
from .forward import overwritten_stack, stack_name
from .rule_reads import needs
from .rules import VJP
from .segment_sweeps import reverse_segments
from .structure import BlockPath, is_set_at_once

if TYPE_CHECKING:
    from .reverse import TaskReverser

Handler = Callable[["TaskReverser", Any, BlockPath, int], None]
"""A handler is a function (reverser, statement, its block, its position in the block)."""

UNREACHED = "removed before reverse mode, or refused by it"
REVERSE: Table[type[Stmt], Handler] = Table(
    "reverse",
    n.STATEMENTS.values(),
    {cls: UNREACHED for cls in (*BLOCKS, *EXITS, *STACKS)}
    | {
        cls: "has no derivative" for cls in (*CONSTANTS, n.BitCast, n.Within, n.Random, n.Assert, n.Print, n.LocalArray)
    },
    about="the statements of reverse mode that carry its adjoint",
)
"""For each class of statements, its handler, or the reason why there is none."""


@REVERSE.row(n.Op)
def _op(r: TaskReverser, stmt: n.Op, path: BlockPath, position: int) -> None:
    """Emit the reverse of an operation: add a contribution to the adjoint of each active operand."""
    adjoint = r.take(stmt.result)
    if adjoint is None:
        return
    for k, operand in enumerate(stmt.args):
        rule, slope = VJP[stmt.op][k], r.structure.slopes.get((stmt.result, k))
        if slope is not None:
            r.add(operand, r.b.op("mul", adjoint, _wide(r, r.primal(slope))))
        elif rule is not None and r.activity.operand(stmt, k):
            read = needs(stmt.op, tuple(a.type for a in stmt.args), stmt.result.type, k)
            assert read is not None
            args = tuple(_wide(r, r.primal(a)) if j in read.operands else a for j, a in enumerate(stmt.args))
            result = _wide(r, r.primal(stmt.result)) if read.result else stmt.result
            r.add(operand, rule(r.b, adjoint, args, result))


def _wide(r: TaskReverser, primal: Value) -> Value:
    """Return a primal converted to the type of the adjoint with which a derivative rule multiplies it."""
    return r.b.cast(primal, adjoint_type(primal.type)) if primal.type.is_real else primal


@REVERSE.row(n.Cast)
def _cast(r: TaskReverser, stmt: n.Cast, path: BlockPath, position: int) -> None:
    """Emit the reverse of a cast: add the result's adjoint to the operand's adjoint."""
    r.add(stmt.arg, r.take(stmt.result))


@REVERSE.row(n.Get)
def _get(r: TaskReverser, stmt: n.Get, path: BlockPath, position: int) -> None:
    """Emit the reverse of a read of a local: add the result's adjoint to the local's adjoint."""
    adjoint = r.take(stmt.result)
    if adjoint is not None:
        r.add_local(stmt.var, adjoint)


@REVERSE.row(n.Set)
def _set(r: TaskReverser, stmt: n.Set, path: BlockPath, position: int) -> None:
    """Emit the reverse of a write to a local: move the local's adjoint to the value's adjoint."""
    r.add(stmt.value, r.take_local(stmt.var, stmt.value.type))


@REVERSE.row(n.Local)
def _local(r: TaskReverser, stmt: n.Local, path: BlockPath, position: int) -> None:
    """Emit the reverse of a local's declaration: pop the initial zero from its adstack, if it was pushed.

    The adjoint of a local without an adstack just ends here.
    """
    if stmt.var in r.stack_locals and not is_set_at_once(r.structure.blocks[path], position, stmt.var):
        r.b.pop(stack_name(r.prefix, stmt.var))


@REVERSE.row(n.GetElement)
def _get_element(r: TaskReverser, stmt: n.GetElement, path: BlockPath, position: int) -> None:
    """Emit the reverse of a read of a local array: add the result's adjoint to the element's adjoint."""
    adjoint = r.take(stmt.result)
    if adjoint is not None:
        r.add_element_of_local(stmt.var, r.primal(stmt.index), adjoint)


@REVERSE.row(n.SetElement)
def _set_element(r: TaskReverser, stmt: n.SetElement, path: BlockPath, position: int) -> None:
    """Emit the reverse of a write to a local array: restore the element and move its adjoint to the value."""
    index = r.primal(stmt.index)
    if (path, position) in r.plan.restored:
        stack = overwritten_stack(r.prefix, path, position)
        r.b.set_element(stmt.var, index, r.b.top(stack, stmt.value.type))
        r.b.pop(stack)
    if stmt.var in r.activity.locals:
        name = r.adjoint_local(stmt.var)
        if stmt.value in r.activity.values:
            r.add(stmt.value, r.b.get_element(name, index, adjoint_type(stmt.value.type)))
        r.b.set_element(name, index, r.b.const(0.0, adjoint_type(stmt.value.type)))


@REVERSE.row(n.Load)
def _load(r: TaskReverser, stmt: n.Load, path: BlockPath, position: int) -> None:
    """Emit the reverse of a load: add the result's adjoint to the element's adjoint if the array has a gradient."""
    adjoint = r.take(stmt.result)
    if adjoint is not None and stmt.array in r.activity.arrays:
        r.add_element(stmt.array, r.primals(stmt.indices), adjoint)


@REVERSE.row(n.Store)
def _store(r: TaskReverser, stmt: n.Store, path: BlockPath, position: int) -> None:
    """Emit the reverse of a store: move the element's adjoint to the value's adjoint.

    The value that the element had before the store does not influence later code, so its adjoint is zero.
    """
    indices, grad, kept = r.primals(stmt.indices), f"{stmt.array}.grad", adjoint_type(stmt.value.type)
    if stmt.value in r.activity.values:
        r.add(stmt.value, r.b.load(grad, indices, kept))
    r.b.store(grad, indices, r.b.const(0.0, kept))


@REVERSE.row(n.Atomic)
def _atomic(r: TaskReverser, stmt: n.Atomic, path: BlockPath, position: int) -> None:
    """Emit the reverse of an atomic add, min or max: pass the element's adjoint to the value.

    A value that was added gets the adjoint of the element. For min and max, the first iteration whose value equals the
    final value of the element gets this adjoint, and the others get zero.
    """
    indices, grad, kept = r.primals(stmt.indices), f"{stmt.array}.grad", adjoint_type(stmt.value.type)
    if stmt.op == "add":
        r.add(stmt.value, r.b.load(grad, indices, kept))
        return
    value = r.primal(stmt.value)
    final = r.b.load(stmt.array, indices, value.type)
    won = r.b.op("cmp_eq", value, final)
    share = f"{r.prefix}.won{r.b.next_id}"
    r.b.local(share, kept)
    with r.b.block() as then:
        # The exchange leaves zero, so of several iterations with the final value only the first one gets the adjoint.
        r.b.set(share, r.b.atomic("exchange", grad, indices, r.b.const(0.0, kept)))
    r.b.if_(won, then)
    r.add(stmt.value, r.b.get(share, kept))


@REVERSE.row(n.If)
def _if(r: TaskReverser, stmt: n.If, path: BlockPath, position: int) -> None:
    """Emit a branch on the same condition with the reverses of both blocks."""
    cond = r.primal(stmt.cond)
    with r.b.block() as then:
        r.reverse_block((*path, (position, "then")), stmt.then)
    with r.b.block() as orelse:
        r.reverse_block((*path, (position, "orelse")), stmt.orelse)
    r.b.loc = stmt.loc
    r.b.if_(cond, then, orelse)


@REVERSE.row(n.For)
def _for(r: TaskReverser, stmt: n.For, path: BlockPath, position: int) -> None:
    """Emit the reverse of a `for` loop: a loop over the same indices, last to first.

    A loop that may stop early visits first + k * step for k in 0 .. trips.
    """
    begin, inner = r.primal(stmt.begin), (*path, (position, "body"))
    if inner in r.sweep.segments:
        reverse_segments(r, stmt, inner)
        return
    if not (stmt.stop and stmt.trips):
        end, back, index = r.primal(stmt.end), not stmt.descending, r.b.fresh(begin.type)
        with r.b.block() as body:
            r.reverse_block(inner, stmt.body, {stmt.index: index})
        r.b.emit(n.For(index, begin, end, tuple(body), step=stmt.step, descending=back, loc=stmt.loc))
        return
    first, step = (_last_index(r, stmt), -stmt.step) if stmt.descending else (begin, stmt.step)
    # The end would lie beyond the last index, and perhaps beyond the range of its type, so k is counted instead.
    trips, k = r.primal(stmt.trips), r.b.fresh(stmt.trips.type)
    zero = r.b.const(0, trips.type)
    r.iterations[inner] = k
    with r.b.block() as body:
        index = r.b.cast(k, begin.type)
        if step != 1:
            index = r.b.op("mul", index, r.b.const(step, begin.type))
        index = r.b.op("add", first, index)
        r.reverse_block(inner, stmt.body, {stmt.index: index})
    r.b.emit(n.For(k, zero, trips, tuple(body), descending=True, loc=stmt.loc))


def _last_index(r: TaskReverser, stmt: n.For) -> Value:
    """Return the last index of a loop, begin + ((|end - begin| - 1) // |step|) * step."""
    # The span of a loop may need 64 bits.
    begin, end = (r.b.cast(r.primal(v), i64) for v in (stmt.begin, stmt.end))
    span = r.b.op("sub", end, begin) if stmt.step > 0 else r.b.op("sub", begin, end)
    steps = r.b.op("floordiv", r.b.op("sub", span, r.b.const(1, i64)), r.b.const(abs(stmt.step), i64))
    last = r.b.op("add", begin, r.b.op("mul", steps, r.b.const(stmt.step, i64)))
    return r.b.cast(last, stmt.begin.type)


@REVERSE.row(n.While)
def _while(r: TaskReverser, stmt: n.While, path: BlockPath, position: int) -> None:
    """Emit the reverse of a `while` loop: the reverse of its body, repeated as often as the body ran."""
    assert stmt.trips is not None
    trips = r.primal(stmt.trips)
    zero, index, inner = r.b.const(0, trips.type), r.b.fresh(trips.type), (*path, (position, "body"))
    r.iterations[inner] = index
    with r.b.block() as body:
        r.reverse_block(inner, stmt.body)
    r.b.emit(n.For(index, zero, trips, tuple(body), descending=True, loc=stmt.loc))
