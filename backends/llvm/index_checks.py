"""Comparisons of indices with extents, one iteration at a time; compiler/passes/index_checks.py says which are needed.

An index outside ends the launch with an error before memory is touched. Comparisons are unsigned, so that one is
enough for both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.passes.index_checks import Access
from . import ir
from .checked import Deferred
from .emit import Emitter
from .index_forms import extent_of, sum_of, value_of
from .types import I64, const

TrapIf = Callable[[ir.Value, int, ir.Value, ir.Value], None]
"""Ends the launch where a condition holds: (condition, site, two numbers)."""


def is_outside(b: Any, index: ir.Value, extent: ir.Value) -> ir.Value:
    """Whether an index, or each of a vector, is none of 0, 1, ... extent - 1. b: a builder of either generator."""
    outside: ir.Value = b.icmp_unsigned(">=", index, extent)
    return outside


def compare_where_needed(e: Any, stmt: Access, compare: Callable[[Sequence[int]], None]) -> None:
    """Emit compare(axes) for the axes of an access that are not proved to be inside.

    What extents and arguments can make needless stands behind one condition for the whole function. e: an emitter of
    either generator.
    """
    axes = sorted(e.checked_axes(stmt))
    ahead = [axis for axis in axes if (id(stmt), axis) in e.checks.launches]
    if ahead:
        with e.b.if_then(e.needs_comparisons):
            compare(ahead)
    now = [axis for axis in axes if axis not in ahead]
    if now:
        compare(now)


def check_indices(
    e: Any, stmt: Access, indices: list[ir.Value], extents: list[ir.Value], trap_if: TrapIf
) -> ir.Value | None:
    """End the launch where an index of an access is outside its axis. e: an emitter of either generator.

    Where the emitter puts ends off (`deferred`), gives the condition under which the access must go elsewhere instead;
    None if there is none.
    """

    def compare(axes: Sequence[int]) -> None:
        for axis in axes:
            outside = is_outside(e.b, indices[axis], extents[axis])
            trap_if(outside, e.m.site("index", e.task, stmt, axis), indices[axis], extents[axis])

    if e.deferred is not None:
        return _put_off(e, stmt, indices, extents, trap_if)
    compare_where_needed(e, stmt, compare)
    return None


def _put_off(
    e: Any, stmt: Access, indices: list[ir.Value], extents: list[ir.Value], trap_if: TrapIf
) -> ir.Value | None:
    """Compare without a branch, so that accesses stay on their way together; what ends the launch is put off."""
    found: ir.Value | None = None
    for axis in sorted(e.checked_axes(stmt)):
        index, extent = indices[axis], extents[axis]
        outside = is_outside(e.b, index, extent)
        if (id(stmt), axis) in e.checks.launches:
            outside = e.b.and_(outside, e.needs_comparisons)
        site = e.m.site("index", e.task, stmt, axis)
        e.deferred.append((outside, partial(trap_if, outside, site, index, extent)))
        found = outside if found is None else e.b.or_(found, outside)
    return found


def check_number(e: Emitter, stmt: Access, number: ir.Value, extents: list[ir.Value]) -> ir.Value | None:
    """The same for an element whose row-major number is that of the iteration: only the first axis may be too short."""
    if not e.checked_axes(stmt):
        return None
    row: ir.Value = const(I64, 1)
    for extent in extents[1:]:
        row = e.b.mul(row, extent)
    outside = e.b.icmp_unsigned(">=", number, e.b.mul(row, extents[0]))
    site = e.m.site("index", e.task, stmt, 0)
    end = partial(e.flow.trap_with, outside, site, lambda: (e.b.udiv(number, row), extents[0]))
    if e.deferred is None:
        end()
        return None
    e.deferred.append((outside, end))
    return outside


def end_deferred(e: Any, ends: Deferred) -> None:
    """Emit what was put off: one branch for all of it."""
    if not ends:
        return
    (some, _), *others = ends
    for outside, _ in others:
        some = e.b.or_(some, outside)
    with e.b.if_then(some):
        for _, end in ends:
            end()


def check_before_loop(e: Emitter, loop: n.For, begin: ir.Value, count: ir.Value) -> None:
    """End the launch if the first or the last trip of a loop would have an index outside its axis.

    The index is linear in the trip, so all lie between these two.
    """
    b = e.b
    for check in e.checks_before(loop):
        extent = extent_of(e, check.stmt.array, check.axis)
        first = sum_of(e, value_of(e, check.rest), b.mul(begin, const(I64, check.coefficient)))
        moved = b.mul(b.sub(count, const(I64, 1)), const(I64, check.coefficient * loop.step))
        runs = b.icmp_unsigned("!=", count, const(I64, 0))
        site = e.m.site("index", e.task, check.stmt, check.axis)
        for index in (first, b.add(first, moved)):
            outside = is_outside(b, index, extent)
            e.flow.trap_if(b.and_(runs, outside), site, index, extent)
