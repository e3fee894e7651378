"""Iterations of a task abreast: where a body is short and straight, a thread takes several at a time, statement by
statement, so that what they load is on its way together.

    while place + 3·stride < total: load x[place]; load x[place + stride]; ..; place += 4·stride
    while place < total: load x[place]; ..; place += stride

Iterations of a parallel task may run in any order and between each other, so this is one of the ways to run them. Tasks
with adstacks have a row for each thread, those in order one thread: neither is written so.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Block, Stmt
from ..llvm import ir
from ..llvm.checked import Deferred
from ..llvm.index_checks import end_deferred
from .emit import Emitter
from .lean import LEAN
from .ops import CALLED
from .statements import LOWER

ABREAST = 4
"""Iterations at a time: with as many threads as fill a device, loads enough for its memory."""

MOST = 16
"""Statements of a body, at most."""

_STRAIGHT = (n.Const, n.Arg, n.Shape, n.Op, n.Cast, n.BitCast, n.Load, n.Store, n.Atomic)


def fits(e: Emitter, body: Block) -> bool:
    """Whether iterations of this body are written abreast."""
    if not e.m.features.abreast or e.m.options.debug or e.m.in_order(e.task) or len(body) > MOST:
        return False
    return all(map(_is_straight, body)) and any(isinstance(s, n.Load) for s in body)


def _is_straight(stmt: Stmt) -> bool:
    called = isinstance(stmt, n.Op) and stmt.op in {*CALLED, *LEAN} and stmt.args[0].type.is_real
    return isinstance(stmt, _STRAIGHT) and not called


def lower_abreast(e: Emitter, body: Block, places: list[ir.Value], start: Callable[[ir.Value], None]) -> None:
    """The iterations at these places. start: sets the indices of the one at a place.

    An index outside ends the launch behind the reads of all iterations, so that these are on their way together; where
    addresses are numbers, it reads the argument block instead.
    """
    copies, outer = [], e.values
    for place in places:
        e.values = dict(outer)
        start(place)
        copies.append((e.iteration, e.values))
    for stmt in body:
        reads_together = isinstance(stmt, n.Load) and e.m.bindings is None
        ends: Deferred = []
        e.deferred = ends if reads_together else None
        for e.iteration, e.values in copies:
            LOWER[type(stmt)](e, stmt)
        e.deferred = None
        end_deferred(e, ends)
    e.values = outer
