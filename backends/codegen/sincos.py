"""This module pairs sin and cos of the same argument, so that GPUs compute both together.

    %3 = sin %2;  ..;  %7 = cos %2      →      %3, %7 = both of %2;  ..

Both operations stand in one block, so where the first is computed the second is not far. Values on whose last bit
control depends are left alone, as they are where arguments are small (argument_ranges.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.statement import Block, Value
from ...compiler.ir.types import f32
from ...compiler.ir.walk import blocks, walk
from . import ir
from .emit import ModuleState
from .libcall import sine_and_cosine
from .polynomials.gpu_trigonometric import LEAN, pays_together
from .task_emitter import TaskEmitter


def partners(m: ModuleState, task: int) -> dict[Value, Value]:
    """Return the pairs of sin and cos of one argument in a task: the second result, keyed by the first."""
    if task not in m.partners:
        wanted = m.target.lean and not m.options.precise
        m.partners[task] = dict(_found(m, m.kernel.tasks[task])) if wanted else {}
    return m.partners[task]


def _found(m: ModuleState, task: Task) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of results of sin and cos of one argument, for all blocks of a task."""
    nested = [block for stmt in walk(task.body) for block in blocks(stmt)]
    for body in (task.body, *nested):
        yield from _in_block(m, body)


def _in_block(m: ModuleState, body: Block) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of results of sin and cos of one argument in one block."""
    first: dict[Value, n.Op] = {}
    for stmt in body:
        if not isinstance(stmt, n.Op) or stmt.op not in LEAN or stmt.result.type != f32 or stmt.result in m.exact:
            continue
        other = first.setdefault(stmt.args[0], stmt)
        if other.op != stmt.op:
            yield other.result, stmt.result


Both = Callable[[Any, ir.LLVMValue], tuple[ir.LLVMValue, ir.LLVMValue]]
"""Function that emits sine and cosine of an f32."""


def paired_result(e: TaskEmitter, stmt: n.Op, both: Both = sine_and_cosine) -> ir.LLVMValue | None:
    """Return a sine or cosine that is computed together with its partner, or None if it has no partner.

    Args:
        e: TaskEmitter of the function.
        stmt: The operation, which may be a sine or cosine.
        both: Emits sine and cosine of an f32.
    """
    if stmt.op not in LEAN or not e.m.target.lean:
        return None
    known: ir.LLVMValue | None = e.partners.pop(stmt.result, None)
    if known is not None:
        return known
    other = partners(e.m, e.task).get(stmt.result)
    if other is None:
        return None
    if not pays_together(e.reach):
        # The entry may be left from a copy of this code that never came to the partner.
        e.partners.pop(other, None)
        return None
    sine, cosine = both(e, e.operand(stmt.args[0]))
    own, e.partners[other] = (sine, cosine) if stmt.op == "sin" else (cosine, sine)
    return own
