"""This module emits several iterations of a parallel task interleaved in one thread, so that their loads overlap.

Where a body is short and straight, a thread takes several iterations at a time, and the code of each statement is
emitted for all of them, so that their loads are in flight together:

    while place + 3·stride < total: load x[place]; load x[place + stride]; ..; place += 4·stride
    while place < total: load x[place]; ..; place += stride

Iterations of a parallel task may run in any order and interleaved, so this order is one of the legal ones. Tasks with
adstacks are not interleaved, because each thread has one row, and neither are tasks whose results depend on the order
of iterations, because one thread runs these in order.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir import nodes as n
from ...compiler.ir.roles import STRAIGHT
from ...compiler.ir.statement import Block, Stmt
from ..codegen import ir
from ..codegen.checked import Deferred
from ..codegen.index_checks import end_deferred
from .emit import Emitter
from .gpu_trigonometric import LEAN
from .ops import CALLED
from .statements import LOWER

ABREAST = 4
"""Number of iterations that a thread takes at a time; as many threads as fill a device then keep memory busy."""

MOST = 16
"""Greatest number of statements of a body whose iterations are written side by side."""


def can_coarsen(e: Emitter, body: Block) -> bool:
    """Return True if several iterations of this body are to be interleaved in one thread."""
    if not e.m.features.abreast or e.m.options.debug or e.m.in_order(e.task) or len(body) > MOST:
        return False
    return all(map(_is_straight, body)) and any(isinstance(s, n.Load) for s in body)


def _is_straight(stmt: Stmt) -> bool:
    """Return True if the statement becomes SPIR-V code without control flow and calls of functions."""
    called = isinstance(stmt, n.Op) and stmt.op in {*CALLED, *LEAN} and stmt.args[0].type.is_real
    return isinstance(stmt, STRAIGHT) and not called


def lower_abreast(e: Emitter, body: Block, places: list[ir.LLVMValue], start: Callable[[ir.LLVMValue], None]) -> None:
    """Emit several iterations interleaved: each statement for all of them, then the next statement.

    Args:
        e: emitter of the task
        body: statements of one iteration, which `can_coarsen` has accepted
        places: number of each iteration in its box, as IR values
        start: sets the indices of the iteration at a place
    """
    copies, outer = [], e.values
    for place in places:
        e.values = dict(outer)
        start(place)
        copies.append((e.iteration, e.values))
    for stmt in body:
        # An index outside ends the launch only behind the loads of all iterations, so that these loads are on the way
        # together. Without buffer addresses a load outside reads the argument block instead, so loads are not deferred
        # there.
        reads_together = isinstance(stmt, n.Within) or isinstance(stmt, n.Load) and e.m.bindings is None
        ends: Deferred = []
        e.deferred = ends if reads_together else None
        for e.iteration, e.values in copies:
            LOWER[type(stmt)](e, stmt)
        e.deferred = None
        end_deferred(e, ends)
    e.values = outer
