"""This module emits the index checks of masked code, which compare the indices of all lanes of a block at once.

See ../index_checks.py for the index checks of branching code.

An index that all lanes share is compared once. Of neighboring indices, those of the first and the last active lane are
compared, for the others lie between them. Only where lanes go anywhere is a vector compared. Lanes that are not active
do not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....compiler.analysis.index_checks import Checked, indices_of
from ....compiler.ir import nodes as n
from ....compiler.ir.statement import Value
from ....compiler.ir.types import Scalar, i64
from ...codegen import ir
from ...codegen.index_checks import compare_where_needed, extent_before, is_outside, limit_of
from ...codegen.index_forms import sum_of, value_of
from ...codegen.types import I32, I64, const
from .lanes import LaneEmitter


def check_indices(e: LaneEmitter, stmt: n.Load | n.Store | n.Atomic, extents: list[ir.LLVMValue]) -> None:
    """Emit traps that end the launch if an active lane has an index of an array access outside of its axis."""
    compare_where_needed(e, stmt, lambda axes: _compare(e, stmt, axes, extents))


def check_within(e: LaneEmitter, stmt: n.Within) -> None:
    """Emit traps that end the launch if an active lane has an index of a `within` statement outside of the extent.

    The extent may differ by lane.
    """
    if not e.checked_axes(stmt):
        return
    extent = limit_of(e, stmt)
    if isinstance(extent.type, ir.VectorType):
        index, site = e.splat(e.index(stmt.index)), e.m.site("index", e.task, stmt)
        compare_where_needed(e, stmt, lambda axes: trap_lanes(e, is_outside(e.b, index, extent), site, index, extent))
    else:
        compare_where_needed(e, stmt, lambda axes: _compare(e, stmt, axes, [extent]))


def _compare(e: LaneEmitter, stmt: Checked, axes: Sequence[int], extents: list[ir.LLVMValue]) -> None:
    """Emit a comparison of indices with the extents of the given axes, and a trap if an active lane is outside."""
    for axis in axes:
        value, extent = indices_of(stmt)[axis], extents[axis]
        site = e.m.site("index", e.task, stmt, axis)
        if e.u.is_uniform(value):
            index = e.index(value)
            e.flow.trap_if(is_outside(e.b, index, extent), site, index, extent)
        elif e.stride(value) == 1 and axis == len(extents) - 1 and value.type.bits >= 32:
            _check_run(e, value, extent, site)
        else:
            trap_lanes(e, _outside(e, value, extent), site, e.operand(value), extent, value.type)


def _check_run(e: LaneEmitter, value: Value, extent: ir.LLVMValue, site: int) -> None:
    """Emit the index check of an index that rises by one per lane, from its first and last active lane alone.

    The comparison has 64 bits, as the addresses do.
    """
    b, base = e.b, e.to_i64(e.base(value), value.type)
    low, high = b.add(base, e.first(e.flow.mask)), b.add(base, e.last(e.flow.mask))
    below, above = (is_outside(b, end, extent) for end in (low, high))
    e.flow.trap_with(b.or_(below, above), site, lambda: (b.select(below, low, high), extent))


def _outside(e: LaneEmitter, value: Value, extent: ir.LLVMValue) -> ir.LLVMValue:
    """Return a mask of the lanes whose index is negative or not less than the extent."""
    b, index, t = e.b, e.operand(value), value.type
    if t.bits == 64:
        return is_outside(b, index, e.splat(extent))
    if t.bits < 32:
        wide = e.wide(I32)
        index = b.sext(index, wide) if t.is_signed else b.zext(index, wide)
    # An index of at most 32 bits is compared in 32 bits, with an extent of at most what such an index can reach.
    most = const(I64, 2**31 if t.is_signed else 2**32 - 1)
    limit = b.trunc(b.select(b.icmp_unsigned("<", extent, most), extent, most), I32)
    return is_outside(b, index, e.splat(limit))


def trap_lanes(
    e: LaneEmitter, outside: ir.LLVMValue, site: int, index: ir.LLVMValue, extent: ir.LLVMValue, t: Scalar = i64
) -> None:
    """Emit a trap if the mask `outside` holds in an active lane. The error reports the lowest such lane's index."""
    b, bad = e.b, e.b.and_(outside, e.flow.mask)

    def numbers() -> tuple[ir.LLVMValue, ir.LLVMValue]:
        found, limit = (
            b.extract_element(x, e.first(bad)) if isinstance(x.type, ir.VectorType) else x for x in (index, extent)
        )
        return e.to_i64(found, t), limit

    e.flow.trap_with(e.any(bad), site, numbers)


def check_before_loop(e: LaneEmitter, loop: n.For, begin: ir.LLVMValue, count: ir.LLVMValue) -> None:
    """Emit a trap if the first or the last trip of a loop would access an index outside of its axis.

    Args:
        e: Emitter of the function.
        loop: Loop whose checks stand before it.
        begin: First index, in 64 bits; a vector if it differs between lanes.
        count: Trip count, in 64 bits; a vector if it differs between lanes.
    """
    b = e.b
    for check in e.checks_before(loop):
        site = e.m.site("index", e.task, check.stmt, check.axis)
        extent = extent_before(e, check)
        first = sum_of(e, value_of(e, check.rest), b.mul(begin, e.const(begin, check.coefficient)))
        moved = b.mul(b.sub(count, e.const(count, 1)), e.const(count, check.coefficient * loop.step))
        runs = b.icmp_unsigned("!=", count, e.const(count, 0))
        for index in (first, sum_of(e, first, moved)):
            if any(isinstance(x.type, ir.VectorType) for x in (index, extent, runs)):
                outside = b.and_(is_outside(b, e.splat(index), e.splat(extent)), e.splat(runs))
                trap_lanes(e, outside, site, index, extent)
            else:
                e.flow.trap_if(b.and_(is_outside(b, index, extent), runs), site, index, extent)
