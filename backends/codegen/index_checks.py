"""This module emits index checks for one iteration at a time; compiler/analysis/index_checks.py says which are needed.

An index outside ends the launch with an error before memory is touched. Comparisons are unsigned, so that one
comparison is enough for both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...compiler.analysis.index_checks import Checked, LoopCheck
from ...compiler.ir import nodes as n
from . import ir
from .checked import Deferred
from .index_forms import extent_of, sum_of, value_of
from .task_emitter import TaskEmitter
from .types import I64, const

TrapIf = Callable[[ir.LLVMValue, int, ir.LLVMValue, ir.LLVMValue], None]
"""Ends the launch where a condition holds: (condition, site, two numbers)."""


def is_outside(b: Any, index: ir.LLVMValue, extent: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that an index is negative or at least the extent, per lane for vectors.

    Args:
        b: Builder of either generator.
        index: Index in 64 bits.
        extent: Extent of the axis in 64 bits.
    """
    outside: ir.LLVMValue = b.icmp_unsigned(">=", index, extent)
    return outside


def compare_where_needed(e: Any, stmt: Checked, compare: Callable[[Sequence[int]], None]) -> None:
    """Emit `compare(axes)` for those axes of an access whose index is not proved to be inside of the array.

    Comparisons that extents and arguments can make needless stand behind one condition for the whole function.

    Args:
        e: Emitter of either generator.
        stmt: Access whose indices are compared.
        compare: Emits the comparisons of these axes.
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
    e: Any, stmt: Checked, indices: list[ir.LLVMValue], extents: list[ir.LLVMValue], trap_if: TrapIf
) -> ir.LLVMValue | None:
    """Emit index checks of an access; an index outside ends the launch at once, or later if `e` defers its traps.

    Args:
        e: Emitter of either generator.
        stmt: Access whose indices are compared.
        indices: Index along each axis, in 64 bits.
        extents: Extent of each axis, in 64 bits.
        trap_if: Ends the launch where a condition holds.

    Returns:
        If `e` defers its traps, the condition that an index is outside, with which the caller redirects the access;
            else None.
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
    e: Any, stmt: Checked, indices: list[ir.LLVMValue], extents: list[ir.LLVMValue], trap_if: TrapIf
) -> ir.LLVMValue | None:
    """Emit index comparisons with deferred traps; return the condition 'an index is outside', or None without any."""
    found: ir.LLVMValue | None = None
    for axis in sorted(e.checked_axes(stmt)):
        index, extent = indices[axis], extents[axis]
        outside = is_outside(e.b, index, extent)
        if (id(stmt), axis) in e.checks.launches:
            outside = e.b.and_(outside, e.needs_comparisons)
        site = e.m.site("index", e.task, stmt, axis)
        e.deferred.append((outside, partial(trap_if, outside, site, index, extent)))
        found = outside if found is None else e.b.or_(found, outside)
    return found


def check_number(
    e: TaskEmitter, stmt: Checked, number: ir.LLVMValue, extents: list[ir.LLVMValue]
) -> ir.LLVMValue | None:
    """Emit one check of an element number for all axes; return the condition 'outside' if its trap is deferred.

    Args:
        e: Emitter of the function.
        stmt: Access to check.
        number: Number of the element in row-major order.
        extents: Extent of each axis.

    Returns:
        If `e` defers its traps, the condition that the number is outside; else None.
    """
    if not e.checked_axes(stmt):
        return None
    row: ir.LLVMValue = const(I64, 1)
    for extent in extents[1:]:
        row = e.b.mul(row, extent)
    outside: ir.LLVMValue = e.b.icmp_unsigned(">=", number, e.b.mul(row, extents[0]))
    site = e.m.site("index", e.task, stmt, 0)
    end = partial(e.flow.trap_with, outside, site, lambda: (e.b.udiv(number, row), extents[0]))
    if e.deferred is None:
        end()
        return None
    e.deferred.append((outside, end))
    return outside


def end_deferred(e: Any, ends: Deferred) -> None:
    """Emit one branch for all deferred index errors; inside it, the first error that occurred ends the launch."""
    if not ends:
        return
    (some, _), *others = ends
    for outside, _ in others:
        some = e.b.or_(some, outside)
    with e.b.if_then(some):
        for _, end in ends:
            end()


def limit_of(e: Any, stmt: n.Within) -> ir.LLVMValue:
    """Return the extent operand of a `within` as a 64-bit integer, with 0 in place of a negative extent."""
    return not_negative(e, e.index(stmt.extent))


def not_negative(e: Any, number: ir.LLVMValue) -> ir.LLVMValue:
    """Return a number of 64 bits, or 0 if the number is negative."""
    zero = e.const(number, 0)
    found: ir.LLVMValue = e.b.select(e.b.icmp_signed("<", number, zero), zero, number)
    return found


def extent_before(e: Any, check: LoopCheck) -> ir.LLVMValue:
    """Return the extent with which a check before a loop compares the indices of the first and the last trip."""
    if check.extent is not None:
        return not_negative(e, value_of(e, check.extent))
    assert not isinstance(check.stmt, n.Within)
    return extent_of(e, check.stmt.array, check.axis)


def check_before_loop(e: TaskEmitter, loop: n.For, begin: ir.LLVMValue, count: ir.LLVMValue) -> None:
    """Emit checks before a loop that end the launch if the first or the last trip has an index outside its axis.

    The index is linear in the trip, so the indices of all trips lie between these two.
    """
    b = e.b
    for check in e.checks_before(loop):
        extent = extent_before(e, check)
        first = sum_of(e, value_of(e, check.rest), b.mul(begin, const(I64, check.coefficient)))
        moved = b.mul(b.sub(count, const(I64, 1)), const(I64, check.coefficient * loop.step))
        runs = b.icmp_unsigned("!=", count, const(I64, 0))
        site = e.m.site("index", e.task, check.stmt, check.axis)
        for index in (first, b.add(first, moved)):
            outside = is_outside(b, index, extent)
            e.flow.trap_if(b.and_(runs, outside), site, index, extent)
