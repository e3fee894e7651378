"""What threads of a warp and of a block do together, as helpers of the module with fixed names.

`sg.warp.*` and `sg.block.*` are the only code that knows of warps: whoever runs the module elsewhere replaces them by
their meaning for one thread, by name. Special registers are read through the intrinsics of NVPTX and nothing else.
"""
from __future__ import annotations

from ...compiler.ir.types import Scalar
from ..llvm import ir
from ..llvm.atomics import combine
from ..llvm.builder import IRBuilder
from ..llvm.emit import Arith, ModuleState
from ..llvm.target import NVPTX
from ..llvm.types import I1, I32, I64, VOID, const, memory_type, pointer


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


def claim(m: ModuleState, b: IRBuilder, cell: ir.Value) -> ir.Value:
    """The next number of a counter, by one atomic for all lanes that ask together. cell: address of an i64."""
    function = m.helper("sg.warp.claim", I64, [pointer(NVPTX.space)], _claim, ("nounwind", "convergent", "noinline"))
    return b.call(function, [cell])


def _claim(e: Arith, function: ir.Function) -> None:
    """Lanes number themselves below the first one, which adds their number to the counter and tells the sum before."""
    b, m, (cell,) = e.b, e.m, function.args
    active = b.call(m.declare("llvm.nvvm.activemask", I32, []), [])
    below = b.and_(active, special(m, b, "lanemask.lt"))
    rank = e.intrinsic("ctpop", below)
    first = b.call(m.declare("llvm.cttz.i32", I32, [I32, I1]), [active, const(I1, True)])
    before = b.block
    adds, all_know = function.append_basic_block("first"), function.append_basic_block("all")
    b.cbranch(b.icmp_unsigned("==", rank, const(I32, 0)), adds, all_know)
    b.position_at_end(adds)
    found = b.atomic_rmw("add", cell, b.zext(e.intrinsic("ctpop", active), I64), "monotonic")
    told = b.trunc(found, I32)
    b.branch(all_know)
    b.position_at_end(all_know)
    base = b.phi(I32)
    base.add_incoming(const(I32, 0), before)
    base.add_incoming(told, adds)
    shuffle = m.declare("llvm.nvvm.shfl.sync.idx.i32", I32, [I32] * 4)
    start = b.call(shuffle, [active, base, first, const(I32, 31)])
    b.ret(b.zext(b.add(start, rank), I64))


# ---- reductions ---------------------------------------------------------------------------------------------

WARPS = 32
"""Warps of a block, at most."""

_CONVERGENT = ("nounwind", "convergent", "noinline")


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
) -> ir.Value:  # fmt: skip
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
