"""What threads of a warp and of a block do together, as helpers of the module with fixed names.

`sg.warp.*` and `sg.block.*` are the only code that knows of warps: whoever runs the module elsewhere replaces them by
their meaning for one thread, by name. Special registers are read through the intrinsics of NVPTX and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.types import Scalar
from ..llvm import ir
from ..llvm.atomics import combine
from ..llvm.builder import IRBuilder
from ..llvm.emit import Arith, ModuleState
from ..llvm.target import NVPTX
from ..llvm.types import I1, I16, I32, I64, VOID, const, memory_type, pointer
from .policy import BLOCK


def special(m: ModuleState, b: IRBuilder, name: str) -> ir.Value:
    """A special register, as an i32."""
    return b.call(m.declare(f"llvm.nvvm.read.ptx.sreg.{name}", I32, []), [])


def _wide(m: ModuleState, b: IRBuilder, name: str) -> ir.Value:
    return b.zext(special(m, b, name), I64)


def thread(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Number of this thread in the grid."""
    return b.add(b.mul(_wide(m, b, "ctaid.x"), _wide(m, b, "ntid.x")), _wide(m, b, "tid.x"))


def threads(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Number of threads of the grid."""
    return b.mul(_wide(m, b, "nctaid.x"), _wide(m, b, "ntid.x"))


# ---- lists --------------------------------------------------------------------------------------------------

ROUNDS = (8, 4, 1)
"""Of how many iterations a thread may decide at once whether they are listed."""

_CONVERGENT = ("nounwind", "convergent", "noinline")
_INLINED = ("nounwind", "convergent", "alwaysinline")


def list_block(m: ModuleState, b: IRBuilder, passes: Sequence[ir.Value]) -> ir.Value:
    """How many of the numbers that the threads of a block ask about pass (i32); which do, `listed` tells. The block has
    BLOCK threads.

    A thread asks about `first_asked` and every `lanes`-th from there on, and gives a condition for each: an i1. All
    threads must come here.
    """
    name, rounds = f"sg.block.list.{len(passes)}", len(passes)
    return b.call(m.helper(name, I32, [I1] * rounds, _list, _INLINED), passes)


def lanes(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Threads of a warp, as an i32."""
    return special(m, b, "warpsize")


def first_asked(m: ModuleState, b: IRBuilder, rounds: int) -> ir.Value:
    """The first number that this thread asks about (i32): a warp asks about neighbours."""
    lane = special(m, b, "laneid")
    return b.add(b.mul(b.sub(special(m, b, "tid.x"), lane), const(I32, rounds)), lane)


def listed(m: ModuleState, b: IRBuilder, place: ir.Value, is_all: ir.Value) -> ir.Value:
    """The number at a place (i32) of the list that the block made last, in ascending order. is_all: all numbers pass,
    and then none is written down.
    """
    return b.select(is_all, place, b.zext(b.load(b.gep(_list_memory(m), place, I16), I16), I32))


def _list_memory(m: ModuleState) -> ir.Value:
    return m.module.shared("sg.shared.list", I16, BLOCK * max(ROUNDS))


def _list(e: Arith, function: ir.Function) -> None:
    """Each warp counts, the counts before it say where its numbers go."""
    b, m, passes = e.b, e.m, function.args
    masks = [_ballot(m, b, one) for one in passes]
    counts = [e.intrinsic("ctpop", mask) for mask in masks]
    thread, lane = special(m, b, "tid.x"), special(m, b, "laneid")
    warp = b.lshr(thread, const(I32, 5))
    totals = m.module.shared("sg.shared.totals", I32, BLOCK // 32)
    with b.if_then(b.icmp_unsigned("==", lane, const(I32, 0))):
        b.store(_sum(b, counts), b.gep(totals, warp, I32))
    _barrier(m, b)
    of_warps = [b.load(b.gep(totals, const(I32, k), I32), I32) for k in range(BLOCK // 32)]
    total = _sum(b, of_warps)
    ahead = [b.icmp_unsigned(">", warp, const(I32, k)) for k in range(BLOCK // 32 - 1)]
    place = _sum(b, [b.select(is_ahead, count, const(I32, 0)) for is_ahead, count in zip(ahead, of_warps)])
    with b.if_then(b.icmp_unsigned("!=", total, const(I32, BLOCK * len(passes)))):
        _write(e, passes, masks, counts, place)
    _barrier(m, b)
    b.ret(total)


def _write(
    e: Arith, passes: Sequence[ir.Value], masks: Sequence[ir.Value], counts: Sequence[ir.Value], place: ir.Value
) -> None:
    b, m = e.b, e.m
    memory, below, number = _list_memory(m), special(m, b, "lanemask.lt"), first_asked(m, b, len(passes))
    for one, mask, count in zip(passes, masks, counts):
        with b.if_then(one):
            at = b.add(place, e.intrinsic("ctpop", b.and_(mask, below)))
            b.store(b.trunc(number, I16), b.gep(memory, at, I16))
        place, number = b.add(place, count), b.add(number, const(I32, 32))


def _sum(b: IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    total = values[0]
    for value in values[1:]:
        total = b.add(total, value)
    return total


def _ballot(m: ModuleState, b: IRBuilder, cond: ir.Value) -> ir.Value:
    """Of all lanes of the warp, those in which a condition holds; all must come here."""
    return b.call(m.declare("llvm.nvvm.vote.ballot.sync", I32, [I32, I1]), [const(I32, -1), cond])


def broadcast_block(m: ModuleState, b: IRBuilder, own: ir.Value) -> ir.Value:
    """What the first thread of the block has, an i64; all threads must come here."""
    return b.call(m.helper("sg.block.broadcast", I64, [I64], _broadcast, _INLINED), [own])


def _broadcast(e: Arith, function: ir.Function) -> None:
    b, m = e.b, e.m
    told = m.module.shared("sg.shared.told", I64, 1)
    with b.if_then(b.icmp_unsigned("==", special(m, b, "tid.x"), const(I32, 0))):
        b.store(function.args[0], told)
    _barrier(m, b)
    b.ret(b.load(told, I64))


def claim_block(m: ModuleState, b: IRBuilder, cell: ir.Value, count: ir.Value) -> ir.Value:
    """What a counter was before a block adds to it by one atomic; count: an i64, the same in all threads, which all
    must come here. For nothing nothing is added, and what was is not told.
    """
    place = [pointer(NVPTX.space), I64]
    return b.call(m.helper("sg.block.claim", I64, place, _claim, _CONVERGENT), [cell, count])


def _claim(e: Arith, function: ir.Function) -> None:
    b, m, (cell, count) = e.b, e.m, function.args
    told = m.module.shared("sg.shared.told", I64, 1)
    first = b.icmp_unsigned("==", special(m, b, "tid.x"), const(I32, 0))
    with b.if_then(b.and_(first, b.icmp_unsigned("!=", count, const(I64, 0)))):
        b.store(b.atomic_rmw("add", cell, count, "monotonic"), told)
    _barrier(m, b)
    b.ret(b.load(told, I64))


# ---- reductions ---------------------------------------------------------------------------------------------

WARPS = 32
"""Warps of a block, at most."""


def reduce_block(m: ModuleState, b: IRBuilder, op: str, t: Scalar, own: ir.Value) -> ir.Value:
    """What all threads of the block have, combined in a fixed order; thread 0 gets it. All of them must come here."""
    kind = memory_type(t)

    def body(e: Arith, function: ir.Function) -> None:
        _reduce_block(e, function, op, t)

    return b.call(m.helper(f"sg.block.reduce.{op}.{t}", kind, [kind], body, _CONVERGENT), [own])


def _reduce_block(e: Arith, function: ir.Function, op: str, t: Scalar) -> None:
    """Each warp by itself, then the first one what the warps have; a block of one warp is done after the first step."""
    b, m, kind = e.b, e.m, memory_type(t)
    lane, thread, width = special(m, b, "laneid"), special(m, b, "tid.x"), special(m, b, "ntid.x")
    number = b.lshr(thread, const(I32, 5))
    here = _least(e, b.sub(width, b.shl(number, const(I32, 5))), const(I32, 32))
    mine = reduce_warp(m, b, op, t, function.args[0], here)
    alone, several = function.append_basic_block("alone"), function.append_basic_block("several")
    b.cbranch(b.icmp_unsigned("<=", width, const(I32, 32)), alone, several)
    IRBuilder(alone).ret(mine)
    b.position_at_end(several)
    shared = m.module.shared(f"sg.shared.{kind.name}", kind, WARPS)
    with b.if_then(b.icmp_unsigned("==", lane, const(I32, 0))):
        b.store(mine, b.gep(shared, number, kind))
    _barrier(m, b)
    warps = b.lshr(b.add(width, const(I32, 31)), const(I32, 5))
    is_there = b.icmp_unsigned("<", lane, warps)
    found = b.load(b.gep(shared, b.select(is_there, lane, const(I32, 0)), kind), kind)
    every = reduce_warp(m, b, op, t, found, _least(e, warps, const(I32, 32)), here)
    _barrier(m, b)
    b.ret(every)


def _least(e: Arith, x: ir.Value, y: ir.Value) -> ir.Value:
    return e.b.call(e.m.declare("llvm.umin.i32", I32, [I32, I32]), [x, y])


def _barrier(m: ModuleState, b: IRBuilder) -> None:
    """All threads of the block that still run have come here, and see what the others wrote."""
    b.call(m.declare("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [I32]), [const(I32, 0)])


def reduce_warp(
    m: ModuleState, b: IRBuilder, op: str, t: Scalar, own: ir.Value, lanes: ir.Value, here: ir.Value | None = None
) -> ir.Value:
    """What the first `lanes` lanes have, combined in a fixed order; lane 0 gets it. `here` lanes must come here."""
    kind = memory_type(t)

    def body(e: Arith, function: ir.Function) -> None:
        _reduce_warp(e, function, op, t)

    function = m.helper(f"sg.warp.reduce.{op}.{t}", kind, [kind, I32, I32], body, _CONVERGENT)
    return b.call(function, [own, lanes, here or lanes])


def _reduce_warp(e: Arith, function: ir.Function, op: str, t: Scalar) -> None:
    """By halves: lane k takes what lane k + 16, k + 8, ... has, where that is one of those that count."""
    b, m, (value, lanes, here) = e.b, e.m, function.args
    lane = special(m, b, "laneid")
    all_lanes = b.icmp_unsigned("==", here, const(I32, 32))
    some = b.sub(b.shl(const(I32, 1), b.and_(here, const(I32, 31))), const(I32, 1))
    mask = b.select(all_lanes, const(I32, -1), some)
    for distance in (16, 8, 4, 2, 1):
        other = _from_lane(e, mask, value, distance)
        counts = b.icmp_unsigned("<", b.add(lane, const(I32, distance)), lanes)
        value = b.select(counts, combine(e, op, t, value, other), value)
    b.ret(value)


def _from_lane(e: Arith, mask: ir.Value, value: ir.Value, distance: int) -> ir.Value:
    """The value of the lane so far behind; 64 bits go in two parts."""
    b, t = e.b, value.type
    wide = t.text in ("double", "i64")
    word = value if isinstance(t, ir.IntType) else b.bitcast(value, I64 if wide else I32)
    shuffle = e.m.declare("llvm.nvvm.shfl.sync.down.i32", I32, [I32] * 4)

    def move(part: ir.Value) -> ir.Value:
        return b.call(shuffle, [mask, part, const(I32, distance), const(I32, 31)])

    if wide:
        high = b.zext(move(b.trunc(b.lshr(word, const(I64, 32)), I32)), I64)
        moved = b.or_(b.shl(high, const(I64, 32)), b.zext(move(b.trunc(word, I32)), I64))
    else:
        moved = move(word)
    return moved if isinstance(t, ir.IntType) else b.bitcast(moved, t)
