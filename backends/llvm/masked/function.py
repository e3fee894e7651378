"""This module writes the function `masked.N` of task N, which runs iterations of the task in blocks of lanes.

Its parameters are (block, first, last, stride, row).

The function runs iterations first <= k < last. A block is a run of iterations along the last axis of the box, cut at
the end of its row: leading indices are then uniform and the last one rises by one from lane to lane. Where the last
axis is known to be short, blocks go on across rows instead, and each lane decodes its own number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.walk import walk
from ....compiler.passes.lower_exits import lower_exits
from ...codegen import ir
from ...codegen.builder import IRBuilder
from ...codegen.emit import ModuleState
from ...codegen.types import F64, I32, I64, const, pointer
from ..errors import OK
from ..profitability import runs_along_rows
from . import adstack, atomics, loops, memory
from .lanes import WIDE, LaneEmitter
from .masks import Masks
from .statements import MASKED

assert adstack and atomics and loops and memory, "they add their rows to the tables"


def lower_exits_of(kernel: Kernel, index: int) -> Task:
    """Return a task of the kernel in which break, continue, return and scope are replaced by branches and flags."""
    return lower_exits(replace(kernel, tasks=(kernel.tasks[index],))).tasks[0]


def masked_function(m: ModuleState, index: int, lanes: int) -> ir.LLVMFunction:
    """Write the exported function `masked.N` of task N, which runs blocks of neighboring iterations, and return it."""
    function = task_function(m, index, f"masked.{index}")
    emit_neighbor_blocks(m, function, index, lower_exits_of(m.kernel, index), lanes)
    return function


def task_function(m: ModuleState, index: int, name: str, linkage: str = "") -> ir.LLVMFunction:
    """Declare the function that runs the iterations of a task, and return it; its body is written later."""
    return ir.LLVMFunction(m.module, name, I32, [pointer(m.target.space), *[I64] * 4], WIDE, linkage)


def emit_neighbor_blocks(m: ModuleState, function: ir.LLVMFunction, index: int, task: Task, lanes: int) -> None:
    """Write the body of a task's function: a loop over blocks of neighboring iterations."""
    along = runs_along_rows(task)
    e = emitter(m, function, index, task, lanes, along)
    e.row = function.args[4]
    emit_block_loop(e, along, lambda k: e.flow.block(task.body))
    e.b.ret(const(I32, OK))
    e.finish()


def emitter(m: ModuleState, function: ir.LLVMFunction, index: int, task: Task, lanes: int, along: bool) -> LaneEmitter:
    """Return an emitter for a function in which each lane runs one iteration of the task.

    Args:
        m: Module that gets the function.
        function: Function to write.
        index: Index of the task.
        task: Task, exits lowered.
        lanes: Number of lanes of a block.
        along: The lanes of a block are neighbors on the last axis.
    """
    e = LaneEmitter(m, function, index, task, lanes, along)
    e.flow = Masks(e, MASKED, e.none())
    e.checks = m.checks.of(task)
    if any(isinstance(s, n.Random) for s in walk(task.body)):
        e.draws = e.alloca(e.wide(I32))
    return e


def emit_block_loop(e: LaneEmitter, along: bool, content: Callable[[ir.LLVMValue], None]) -> None:
    """Emit a loop over blocks of iterations; if `along`, the lanes of a block are neighbors on the last axis.

    The loop runs the iterations first .. last, which are the function's second and third arguments.

    Args:
        e: Emitter of the function.
        along: The lanes of a block are neighbors on the last axis.
        content: Emits a block, given the number of the iteration of lane 0.
    """
    _, first, last, *_ = e.function.args
    b = e.b
    head, body, done = (e.flow.append(name) for name in ("blocks", "block", "done"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    k.add_incoming(first, before)
    b.cbranch(b.icmp_unsigned("<", k, last), body, done)
    b.position_at_end(body)
    count = _least(b, b.sub(last, k), const(I64, e.lanes))
    if along:
        count = _cut(e, k, count)
    else:
        decode_indices(e, k, e.numbers(I64))
    start_block(e, e.first_lanes(count), lambda: e.linear(k))
    content(k)
    k.add_incoming(b.add(k, count), b.block)
    b.branch(head)
    b.position_at_end(done)


def start_block(e: LaneEmitter, mask: ir.LLVMValue, iterations: Callable[[], ir.LLVMValue]) -> None:
    """Set the mask for a new block of iterations; in tasks that draw, reset the draw counters of the lanes.

    `iterations()` returns the iteration number of each lane; it is called in tasks that draw.
    """
    e.flow.mask = mask
    if e.draws is not None:
        e.iteration = iterations()
        e.b.store(const(e.wide(I32), 0), e.draws)


def _least(b: IRBuilder, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the lesser of two unsigned numbers."""
    return b.select(b.icmp_unsigned("<", x, y), x, y)


def _box(e: LaneEmitter, axis: int) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the begin and the extent of an axis of the task's box, read from the argument block."""
    at = e.m.layout.boxes[e.task] + 16 * axis
    return e.slot(at), e.slot(at + 8)


def _cut(e: LaneEmitter, k: ir.LLVMValue, count: ir.LLVMValue) -> ir.LLVMValue:
    """Set the indices of a block of neighbors on the last axis, and return the block's number of iterations.

    The block ends where the last axis ends.
    """
    b, rest = e.b, k
    for axis in reversed(range(1, len(e.body.indices))):
        extent = _box(e, axis)[1]
        place = b.urem(rest, extent)
        rest = b.udiv(rest, extent)
        if axis == len(e.body.indices) - 1:
            count = _least(b, count, b.sub(extent, place))
        _set_index(e, axis, place)
    _set_index(e, 0, rest)
    return count


def _set_index(e: LaneEmitter, axis: int, place: ir.LLVMValue) -> None:
    """Set the index of an axis to begin + place. On the last axis, lane k gets begin + place + k."""
    index = e.body.indices[axis]
    number = e.from_i64(e.b.add(_box(e, axis)[0], place), index.type)
    if axis < len(e.body.indices) - 1:
        e.values[index] = number
        return
    e.bases[index] = number
    e.values[index] = e.linear(number)


def decode_indices(e: LaneEmitter, k: ir.LLVMValue, further: ir.LLVMValue) -> None:
    """Emit code that sets each lane's indices from its row-major iteration number, k + further.

    Only k is divided as a whole. The lanes are a few further along each axis, and that quotient is found in f64, which
    is exact below 2^53.
    """
    b = e.b
    rest = k
    for axis in reversed(range(1, len(e.body.indices))):
        extent = _box(e, axis)[1]
        place = b.add(e.splat(b.urem(rest, extent)), further)
        rest = b.udiv(rest, extent)
        real = e.wide(F64)
        quotient = b.fdiv(b.sitofp(place, real), b.sitofp(e.splat(extent), real))
        further = e.intrinsic("fptosi.sat", quotient, result=e.wide(I64))
        _set_lanes(e, axis, b.sub(place, b.mul(further, e.splat(extent))))
    _set_lanes(e, 0, b.add(e.splat(rest), further))


def _set_lanes(e: LaneEmitter, axis: int, places: ir.LLVMValue) -> None:
    """Set the index of an axis in each lane to the axis's begin plus `places`, the lane's position on the axis."""
    index = e.body.indices[axis]
    e.values[index] = e.from_i64(e.b.add(e.splat(_box(e, axis)[0]), places), index.type)
