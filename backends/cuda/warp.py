"""This module emits operations of a GPU warp or thread block: lists, sums, broadcasts, barriers.

`sg.warp.*` and `sg.block.*` are the only code that knows warps: a program that runs the module elsewhere replaces them
by their meaning for one thread, by name. Special registers are read through the intrinsics of NVPTX and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.target import NVPTX
from ..codegen.types import I1, I16, I32, I64, VOID, const, memory_type, pointer
from ..device.policy import BLOCK
from ..llvm.atomics import combine


def special_register(m: ModuleState, b: IRBuilder, name: str) -> ir.LLVMValue:
    """Emit a read of a special register of the GPU, such as tid.x, and return the value as an i32."""
    return b.call(m.declare(f"llvm.nvvm.read.ptx.sreg.{name}", I32, []), [])


def _wide(m: ModuleState, b: IRBuilder, name: str) -> ir.LLVMValue:
    """Emit a read of a special register of the GPU, such as tid.x, and return the value as an i64."""
    return b.zext(special_register(m, b, name), I64)


def thread(m: ModuleState, b: IRBuilder) -> ir.LLVMValue:
    """Return the number of this thread in the grid."""
    return b.add(b.mul(_wide(m, b, "ctaid.x"), _wide(m, b, "ntid.x")), _wide(m, b, "tid.x"))


def threads(m: ModuleState, b: IRBuilder) -> ir.LLVMValue:
    """Return the number of threads of the grid."""
    return b.mul(_wide(m, b, "nctaid.x"), _wide(m, b, "ntid.x"))


# ---- lists --------------------------------------------------------------------------------------------------

ROUNDS = (8, 4, 1)
"""Numbers of iterations that a thread may decide at once, to list those that pass a gate."""

_CONVERGENT = ("nounwind", "convergent", "noinline")
_INLINED = ("nounwind", "convergent", "alwaysinline")


def list_block(m: ModuleState, b: IRBuilder, passes: Sequence[ir.LLVMValue]) -> ir.LLVMValue:
    """Emit code by which a thread block lists the chunk positions whose condition holds; return their count.

    A thread computes the conditions (i1, one for each element of `passes`) of position `first_asked` and of every
    `lanes`-th position from there on. `list_number` reads the list. The block has BLOCK threads, and all of them must
    reach this call.
    """
    name, rounds = f"sg.block.list.{len(passes)}", len(passes)
    return b.call(m.helper(name, I32, [I1] * rounds, _list, _INLINED), passes)


def lanes(m: ModuleState, b: IRBuilder) -> ir.LLVMValue:
    """Return the number of threads of a warp as an i32."""
    return special_register(m, b, "warpsize")


def first_asked(m: ModuleState, b: IRBuilder, rounds: int) -> ir.LLVMValue:
    """Return the first chunk position that this thread tests; the next threads of the warp test the next positions."""
    lane = special_register(m, b, "laneid")
    return b.add(b.mul(b.sub(special_register(m, b, "tid.x"), lane), const(I32, rounds)), lane)


def list_number(m: ModuleState, b: IRBuilder, place: ir.LLVMValue, is_all: ir.LLVMValue) -> ir.LLVMValue:
    """Return the chunk position at place `place` of the list of `list_block`, or `place` if every position passes.

    Args:
        m: Module being written.
        b: Builder to emit with.
        place: Place in the list, i32.
        is_all: Condition that all numbers pass; then the list is not written.
    """
    return b.select(is_all, place, b.zext(b.load(b.gep(_list_memory(m), place, I16), I16), I32))


def _list_memory(m: ModuleState) -> ir.LLVMValue:
    """Return the address of a thread block's shared memory for the chunk positions that `list_block` lists."""
    return m.module.shared("sg.shared.list", I16, BLOCK * max(ROUNDS))


def _list(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of the function that `list_block` calls: each warp appends its positions after those before it."""
    b, m, passes = e.b, e.m, function.args
    masks = [ballot(m, b, one) for one in passes]
    counts = [e.intrinsic("ctpop", mask) for mask in masks]
    thread, lane = special_register(m, b, "tid.x"), special_register(m, b, "laneid")
    warp = b.lshr(thread, const(I32, 5))
    totals = m.module.shared("sg.shared.totals", I32, BLOCK // 32)
    with b.if_then(b.icmp_unsigned("==", lane, const(I32, 0))):
        b.store(_sum(b, counts), b.gep(totals, warp, I32))
    barrier(m, b)
    of_warps = [b.load(b.gep(totals, const(I32, k), I32), I32) for k in range(BLOCK // 32)]
    total = _sum(b, of_warps)
    ahead = [b.icmp_unsigned(">", warp, const(I32, k)) for k in range(BLOCK // 32 - 1)]
    place = _sum(b, [b.select(is_ahead, count, const(I32, 0)) for is_ahead, count in zip(ahead, of_warps)])
    # If all numbers pass, the list is not written, and `list_number` does not read it.
    with b.if_then(b.icmp_unsigned("!=", total, const(I32, BLOCK * len(passes)))):
        _write(e, passes, masks, counts, place)
    barrier(m, b)
    b.ret(total)


def _write(
    e: ArithEmitter,
    passes: Sequence[ir.LLVMValue],
    masks: Sequence[ir.LLVMValue],
    counts: Sequence[ir.LLVMValue],
    place: ir.LLVMValue,
) -> None:
    """Emit stores that append to the block's list those chunk positions of this thread whose condition holds."""
    b, m = e.b, e.m
    memory, below, number = _list_memory(m), special_register(m, b, "lanemask.lt"), first_asked(m, b, len(passes))
    for one, mask, count in zip(passes, masks, counts):
        with b.if_then(one):
            at = b.add(place, e.intrinsic("ctpop", b.and_(mask, below)))
            b.store(b.trunc(number, I16), b.gep(memory, at, I16))
        place, number = b.add(place, count), b.add(number, const(I32, 32))


def _sum(b: IRBuilder, values: Sequence[ir.LLVMValue]) -> ir.LLVMValue:
    """Emit the sum of the values and return it."""
    total = values[0]
    for value in values[1:]:
        total = b.add(total, value)
    return total


def ballot(m: ModuleState, b: IRBuilder, cond: ir.LLVMValue, present: ir.LLVMValue | None = None) -> ir.LLVMValue:
    """Return a bit mask of the lanes of the warp in which a condition holds; all lanes must reach this call.

    Args:
        m: Module being written.
        b: Builder to emit with.
        cond: Condition of this lane.
        present: Mask of the lanes that reach this call; None for all lanes.
    """
    lanes = const(I32, -1) if present is None else present
    return b.call(m.declare("llvm.nvvm.vote.ballot.sync", I32, [I32, I1]), [lanes, cond])


def broadcast_block(m: ModuleState, b: IRBuilder, own: ir.LLVMValue) -> ir.LLVMValue:
    """Return the i64 value of the block's first thread in all threads; all threads must reach this call."""
    return b.call(m.helper("sg.block.broadcast", I64, [I64], _broadcast, _INLINED), [own])


def _broadcast(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a GPU function that returns, in all threads, the i64 argument of a block's first thread."""
    b, m = e.b, e.m
    told = m.module.shared("sg.shared.told", I64, 1)
    with b.if_then(b.icmp_unsigned("==", special_register(m, b, "tid.x"), const(I32, 0))):
        b.store(function.args[0], told)
    barrier(m, b)
    b.ret(b.load(told, I64))


def claim_block(m: ModuleState, b: IRBuilder, cell: ir.LLVMValue, count: ir.LLVMValue) -> ir.LLVMValue:
    """Emit one atomic addition of `count` to a counter for the whole block, and return the counter's old value.

    All threads must reach this call, with the same count (i64). For a count of 0 nothing is added, and the result is
    undefined.
    """
    place = [pointer(NVPTX.space), I64]
    return b.call(m.helper("sg.block.claim", I64, place, _claim, _CONVERGENT), [cell, count])


def _claim(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a GPU function that adds `count` to a counter once per block and returns the old value."""
    b, m, (cell, count) = e.b, e.m, function.args
    told = m.module.shared("sg.shared.told", I64, 1)
    first = b.icmp_unsigned("==", special_register(m, b, "tid.x"), const(I32, 0))
    with b.if_then(b.and_(first, b.icmp_unsigned("!=", count, const(I64, 0)))):
        b.store(b.atomic_rmw("add", cell, count, "monotonic"), told)
    barrier(m, b)
    b.ret(b.load(told, I64))


# ---- reductions ---------------------------------------------------------------------------------------------

WARPS = 32
"""Most warps of a block."""


def reduce_block(m: ModuleState, b: IRBuilder, op: str, t: Scalar, own: ir.LLVMValue) -> ir.LLVMValue:
    """Emit the reduction of the values of all threads of a block in a fixed order; only thread 0 gets the result.

    All threads of the block must reach this call.

    Args:
        m: Module being written.
        b: Builder to emit with.
        op: Name of the operation, such as `add`.
        t: Type of the values.
        own: Value of this thread.
    """
    kind = memory_type(t)

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        _reduce_block(e, function, op, t)

    return b.call(m.helper(f"sg.block.reduce.{op}.{t}", kind, [kind], body, _CONVERGENT), [own])


def _reduce_block(e: ArithEmitter, function: ir.LLVMFunction, op: str, t: Scalar) -> None:
    """Emit the body of the block reduction: each warp reduces its values, then the first warp those of all warps."""
    b, m, kind = e.b, e.m, memory_type(t)
    lane, thread, width = (
        special_register(m, b, "laneid"),
        special_register(m, b, "tid.x"),
        special_register(m, b, "ntid.x"),
    )
    number = b.lshr(thread, const(I32, 5))
    here = _least(e, b.sub(width, b.shl(number, const(I32, 5))), const(I32, 32))
    mine = reduce_warp(m, b, op, t, function.args[0], here)
    # A block of one warp is done after the first step.
    alone, several = function.append_basic_block("alone"), function.append_basic_block("several")
    b.cbranch(b.icmp_unsigned("<=", width, const(I32, 32)), alone, several)
    IRBuilder(alone).ret(mine)
    b.position_at_end(several)
    shared = m.module.shared(f"sg.shared.{kind.name}", kind, WARPS)
    with b.if_then(b.icmp_unsigned("==", lane, const(I32, 0))):
        b.store(mine, b.gep(shared, number, kind))
    barrier(m, b)
    warps = b.lshr(b.add(width, const(I32, 31)), const(I32, 5))
    is_there = b.icmp_unsigned("<", lane, warps)
    found = b.load(b.gep(shared, b.select(is_there, lane, const(I32, 0)), kind), kind)
    # Lanes beyond the warps of the block read the first value, which does not count.
    every = reduce_warp(m, b, op, t, found, _least(e, warps, const(I32, 32)), here)
    barrier(m, b)
    b.ret(every)


def _least(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the lesser of two unsigned numbers of 32 bits."""
    return e.b.call(e.m.declare("llvm.umin.i32", I32, [I32, I32]), [x, y])


def barrier(m: ModuleState, b: IRBuilder) -> None:
    """Emit a barrier of the thread block, which also makes earlier writes visible to all its threads."""
    b.call(m.declare("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [I32]), [const(I32, 0)])


def reduce_warp(
    m: ModuleState,
    b: IRBuilder,
    op: str,
    t: Scalar,
    own: ir.LLVMValue,
    lanes: ir.LLVMValue,
    here: ir.LLVMValue | None = None,
) -> ir.LLVMValue:
    """Emit the reduction of the values of the first `lanes` lanes in a fixed order; only lane 0 gets the result.

    Args:
        m: Module being written.
        b: Builder to emit with.
        op: Name of the operation, such as `add`.
        t: Type of the values.
        own: Value of this lane.
        lanes: Number of lanes whose values count, i32.
        here: Number of lanes that reach this call, i32; None means `lanes`.
    """
    kind = memory_type(t)

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        _reduce_warp(e, function, op, t)

    function = m.helper(f"sg.warp.reduce.{op}.{t}", kind, [kind, I32, I32], body, _CONVERGENT)
    return b.call(function, [own, lanes, here or lanes])


def _reduce_warp(e: ArithEmitter, function: ir.LLVMFunction, op: str, t: Scalar) -> None:
    """Emit the body of the warp reduction, which halves the number of values in each step.

    Lane k takes what lane k + 16, k + 8, ... has, if that lane counts.
    """
    b, m, (value, lanes, here) = e.b, e.m, function.args
    lane = special_register(m, b, "laneid")
    all_lanes = b.icmp_unsigned("==", here, const(I32, 32))
    some = b.sub(b.shl(const(I32, 1), b.and_(here, const(I32, 31))), const(I32, 1))
    mask = b.select(all_lanes, const(I32, -1), some)
    for distance in (16, 8, 4, 2, 1):
        other = _from_lane(e, mask, value, distance)
        counts = b.icmp_unsigned("<", b.add(lane, const(I32, distance)), lanes)
        value = b.select(counts, combine(e, op, t, value, other), value)
    b.ret(value)


def _from_lane(e: ArithEmitter, mask: ir.LLVMValue, value: ir.LLVMValue, distance: int) -> ir.LLVMValue:
    """Return the value of the lane whose number is higher by `distance`; 64-bit values move in two halves."""
    down = e.m.declare("llvm.nvvm.shfl.sync.down.i32", I32, [I32] * 4)
    return _moved(e, value, lambda part: e.b.call(down, [mask, part, const(I32, distance), const(I32, 31)]))


def _moved(e: ArithEmitter, value: ir.LLVMValue, move: Callable[[ir.LLVMValue], ir.LLVMValue]) -> ir.LLVMValue:
    """Return a value of another lane, given the function that moves 32 bits."""
    b, t = e.b, value.type
    wide = t.text in ("double", "i64")
    word = value if isinstance(t, ir.IntType) else b.bitcast(value, I64 if wide else I16 if t.text == "half" else I32)
    if wide:
        high = b.zext(move(b.trunc(b.lshr(word, const(I64, 32)), I32)), I64)
        moved = b.or_(b.shl(high, const(I64, 32)), b.zext(move(b.trunc(word, I32)), I64))
    elif word.type != I32:
        moved = b.trunc(move(b.zext(word, I32)), word.type)
    else:
        moved = move(word)
    return moved if isinstance(t, ir.IntType) else b.bitcast(moved, t)


# ---- blocks of the program ----------------------------------------------------------------------------------


def meet(m: ModuleState, b: IRBuilder) -> None:
    """Emit a barrier that the program asks for. An emulator of single threads refuses this helper by its name."""

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        barrier(e.m, e.b)
        e.b.ret_void()

    b.call(m.helper("sg.block.meet", VOID, [], body, _INLINED), [])


def shuffle(e: ArithEmitter, present: ir.LLVMValue, value: ir.LLVMValue, lane: ir.LLVMValue) -> ir.LLVMValue:
    """Return the value that another lane of the warp has; all lanes of the mask `present` must reach this call.

    Args:
        e: Arithmetic to emit into.
        present: Mask of the lanes of the warp that are there.
        value: Value of this lane.
        lane: Number of the other lane, i32.
    """
    index = e.m.declare("llvm.nvvm.shfl.sync.idx.i32", I32, [I32] * 4)
    return _moved(e, value, lambda part: e.b.call(index, [present, part, lane, const(I32, 31)]))


def sync_lanes(m: ModuleState, b: IRBuilder, present: ir.LLVMValue) -> None:
    """Emit a barrier of the lanes of a warp, which also makes earlier writes visible to all of them."""
    b.call(m.declare("llvm.nvvm.bar.warp.sync", VOID, [I32]), [present])


def fence(m: ModuleState, b: IRBuilder, of_grid: bool) -> None:
    """Emit a fence, which orders accesses to memory for the threads of the block or of the whole grid."""
    b.call(m.declare(f"llvm.nvvm.membar.{'gl' if of_grid else 'cta'}", VOID, []), [])
