"""Comparisons of indices with extents, one iteration at a time; compiler/passes/index_checks.py says which are needed.

An index outside ends the launch with an error before memory is touched. Comparisons are unsigned, so that one is
enough for both ends.
"""
from __future__ import annotations

from typing import Any

from ...compiler.ir import nodes as n
from . import ir
from .emit import Emitter
from .index_forms import extent_of, sum_of, value_of
from .types import I64, const


def is_outside(b: Any, index: ir.Value, extent: ir.Value) -> ir.Value:
    """Whether an index, or each of a vector, is none of 0, 1, ... extent - 1. b: a builder of either generator."""
    outside: ir.Value = b.icmp_unsigned(">=", index, extent)
    return outside


def check_indices(e: Emitter, stmt: n.Load | n.Store | n.Atomic, indices: list[ir.Value], extents: list[ir.Value]) -> None:
    """End the launch where an index of an access is outside its axis."""
    for axis in sorted(e.checked_axes(stmt)):
        index, extent = indices[axis], extents[axis]
        outside = is_outside(e.b, index, extent)
        e.flow.trap_if(outside, e.m.site("index", e.task, stmt, axis), index, extent)


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
