"""This module writes shaders that list the iterations that pass a task's gate, and tasks that run over such lists.

The shader `select_N` writes a list, and `task_N` runs over the list if it is complete.

Which tasks are gated is decided as on other GPUs (cuda/selection.py). Three words of the argument block, after all
others, belong to a list: its address (the list holds 32-bit numbers of iterations); the number of iterations for which
it has room, 0 where the launch makes no list; and its length, 0 when the launch begins, which counts all iterations
that pass. The gate is decided again when the task runs over the list.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.kernels import Task
from ...compiler.ir.statement import Block
from ..codegen import ir
from ..codegen.gates import Gate, gate_of
from ..codegen.launch_conditions import write_where_inside
from ..codegen.layout import BlockLayout, stack_allocas
from ..codegen.prints import is_printing
from . import access
from . import opcodes as op
from .code import I1, I32, I64
from .emit import Emitter, ModuleState

GROUP = 64
"""Threads of a workgroup."""

_REDUCE, _EXCLUSIVE_SCAN = 0, 2
"""Group operations: the sum of all, and of those before."""


def lay_out_lists(m: ModuleState) -> None:
    """Reserve words of the argument block for the iteration list of each gated task with adstacks.

    These are gated tasks with adstacks, in builds in which the order of iterations need not be kept.
    """
    layout = m.layout
    if not m.features.lists or m.options.deterministic or not _can_bind(m):
        return
    for index, task in enumerate(m.kernel.tasks):
        if task.is_parallel and any(stack_allocas(task)) and gate_of(task) is not None:
            _take(layout, index)


def _can_bind(m: ModuleState) -> bool:
    """Return True if a shader can reach a list: by a storage buffer of its own, or by address."""
    others = 1 + len(m.layout.slabs) + is_printing(m.kernel) + bool(m.layout.arrays)
    return m.features.buffer_addresses or m.features.storage_buffers > others


def _take(layout: BlockLayout, index: int) -> None:
    """Reserve three words of the argument block for a task's iteration list: its address, capacity and length."""
    layout.list_at[index], layout.room_at[index], layout.length_at[index] = (layout.size + 8 * k for k in range(3))
    layout.size += 24


Passes = Callable[[ir.LLVMValue], ir.LLVMValue]
"""A function that gives the condition under which an iteration passes."""

ROUNDS = (1, 2, 4, 8)
"""Numbers of iterations for which a thread may decide the gate before it asks for places in the list."""

BUSY = 1 << 16
"""Number of threads from which on a thread decides the gate for more than one iteration at a time."""


def write_list(
    e: Emitter, part: Task, first: ir.LLVMValue, threads: ir.LLVMValue, total: ir.LLVMValue, passes: Passes
) -> None:
    """Emit code that appends the numbers of the iterations that pass the gate to the list, if it has room.

    Args:
        e: emitter of the task
        part: the task with the statements alone from which its gate follows
        first: number of the thread
        threads: number of threads in all
        total: number of iterations
        passes: writes the gate of the iteration of a number, and returns its condition
    """
    b, lanes = e.b, 1 if e.m.in_order(e.task) else GROUP
    with b.at_head():
        rounds: ir.LLVMValue = b.const(I32, ROUNDS[-1])
        for fewer in reversed(ROUNDS[:-1]):
            is_enough = b.icmp_unsigned("<=", total, b.mul(threads, e.word(fewer)))
            rounds = b.select(is_enough, b.const(I32, fewer), rounds)
        wide = b.zext(rounds, I64)
        local = b.and_(first, e.word(lanes - 1))
        # The iterations of a thread are as far apart as a group has threads, so that neighbors read neighboring
        # elements.
        begin, stride = b.add(b.mul(b.sub(first, local), wide), local), b.mul(threads, wide)
    at, bits = b.scalar(I64), b.scalar(I32)
    at.set(begin)

    def decide(k: ir.LLVMValue) -> None:
        number = b.add(at.get(), b.mul(b.zext(k, I64), e.word(lanes)))
        with b.if_then(b.icmp_unsigned("<", number, total)), b.if_then(passes(number)):
            bits.set(b.or_(bits.get(), b.shl(b.const(I32, 1), k)))

    def chunk() -> None:
        bits.set(b.const(I32, 0))
        write_where_inside(e, part, lambda: _each(e, rounds, decide))
        with b.if_then(b.icmp_unsigned("!=", bits.get(), b.const(I32, 0))):
            _append(e, rounds, bits.get(), lambda k: b.add(at.get(), b.mul(b.zext(k, I64), e.word(lanes))))

    b.loop(lambda: b.icmp_unsigned("<", at.get(), total), chunk, lambda: at.set(b.add(at.get(), stride)))


def _each(e: Emitter, rounds: ir.LLVMValue, body: Callable[[ir.LLVMValue], None]) -> None:
    """Emit a loop that calls `body` with the numbers 0 .. rounds - 1."""
    b, k = e.b, e.b.scalar(I32)
    k.set(b.const(I32, 0))
    b.loop(
        lambda: b.icmp_unsigned("<", k.get(), rounds),
        lambda: body(k.get()),
        lambda: k.set(b.add(k.get(), b.const(I32, 1))),
    )


def _append(
    e: Emitter, rounds: ir.LLVMValue, bits: ir.LLVMValue, number: Callable[[ir.LLVMValue], ir.LLVMValue]
) -> None:
    """Emit code that appends the iteration `number(k)` to the list for each set bit `k` of `bits`."""
    b, layout, place = e.b, e.m.layout, e.b.scalar(I64)
    place.set(b.zext(_claim(e, e.slot_address(layout.length_at[e.task]), e.intrinsic("ctpop", bits)), I64))

    def put(k: ir.LLVMValue) -> None:
        with b.if_then(b.icmp_unsigned("!=", b.and_(bits, b.shl(b.const(I32, 1), k)), b.const(I32, 0))):
            with b.if_then(b.icmp_unsigned("<", place.get(), e.slot(layout.room_at[e.task]))):
                access.store(b, b.trunc(number(k), I32), b.add(_list(e), b.mul(place.get(), e.word(4))))
            place.set(b.add(place.get(), e.word(1)))

    _each(e, rounds, put)


def _list(e: Emitter) -> ir.LLVMValue:
    """Return the address of the list of iterations that pass the gate."""
    bindings = e.m.bindings
    return access.rooted(e.slot(e.m.layout.list_at[e.task]), bindings.lists if bindings else None)


def _claim(e: Emitter, counter: ir.LLVMValue, own: ir.LLVMValue) -> ir.LLVMValue:
    """Emit an atomic addition of `own` to a counter, and return the counter's old value for this thread."""
    b = e.b
    if not e.m.features.subgroups:
        return access.atomic(b, "AtomicIAdd", counter, own)
    for capability in ("GroupNonUniform", "GroupNonUniformArithmetic", "GroupNonUniformBallot"):
        b.module.require(capability)
    # One atomic serves all threads of a subgroup that ask together.
    scope, first, wanted = b.const(I32, op.SUBGROUP_SCOPE).id, b.scalar(I32), b.value(own).id
    rank = b.result_of(I32, "GroupNonUniformIAdd", scope, _EXCLUSIVE_SCAN, wanted)
    count = b.result_of(I32, "GroupNonUniformIAdd", scope, _REDUCE, wanted)
    first.set(b.const(I32, 0))
    with b.if_then(b.result_of(I1, "GroupNonUniformElect", scope)):
        first.set(access.atomic(b, "AtomicIAdd", counter, count))
    told = b.result_of(I32, "GroupNonUniformBroadcastFirst", scope, first.get().id)
    return b.add(told, rank)


class IterationSource:
    """Decide whether a task takes its iterations from its box or from a list of iterations that pass its gate.

    Attributes:
        total: number of iterations
        complete: condition that the task runs over its list; None if the task has no list
    """

    def __init__(self, e: Emitter, volume: ir.LLVMValue) -> None:
        self.total, self.complete = volume, None if e.task not in e.m.layout.list_at else self._complete(e)
        if self.complete is not None:
            with e.b.at_head():
                self.total = e.b.select(self.complete, e.slot(e.m.layout.length_at[e.task]), volume)

    def _complete(self, e: Emitter) -> ir.LLVMValue:
        """Return the condition that a list was written and holds every iteration that passes the gate."""
        b, layout = e.b, e.m.layout
        room, length = e.slot(layout.room_at[e.task]), e.slot(layout.length_at[e.task])
        with b.at_head():
            made = b.icmp_unsigned("!=", room, e.word(0))
            return b.and_(made, b.icmp_unsigned("<=", length, room))

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number at a position: read from the list if it is complete, else the position."""
        if self.complete is None:
            return place
        b, found = e.b, e.b.scalar(I64)
        found.set(place)
        with b.if_then(self.complete):
            at = b.add(_list(e), b.mul(place, e.word(4)))
            found.set(b.zext(access.load(b, at, I32), I64))
        return found.get()


def gated(task: Task) -> tuple[Gate, Block]:
    """Return the gate of a gated task, and the statements that compute the gate's condition."""
    found = gate_of(task)
    assert found is not None and found.gate is not None
    return found.gate, found.deciding
