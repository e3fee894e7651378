"""This module decides if a gated task runs over a list of passing iterations or by chunks, and emits gate tests.

A task with adstacks gets a list of all iterations that pass, so that the other iterations need no rows; since sizes are
counted, it is known if that pays (policy.py). A task without adstacks lists and runs the passing iterations chunk by
chunk (chunks.py). That needs no memory and no counts, and costs so little where all iterations pass that only the code
of the task decides about it.

The gate is decided again when the task runs, so the scan may let an iteration pass that does nothing. Another iteration
may write what a gate reads, but iterations have no order, so the gate may be decided as early as the task begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.ops import OPS
from ...compiler.ir.roles import LOOPS
from ...compiler.ir.statement import Block, Stmt, Value
from ...compiler.ir.walk import blocks, walk
from ..base import Options
from ..codegen import ir
from ..codegen.emit import ModuleState
from ..codegen.gates import Gate, gate_of
from ..codegen.layout import stack_allocas
from ..codegen.reductions import ElementSum
from ..codegen.types import I1, I32, I64, const
from ..llvm.emit import Emitter
from ..llvm.function import IterationRun, TaskExtension, decision_function, task_function
from ..llvm.masked.function import lower_exits_of
from . import warp
from .chunks import ChunkLoop
from .own_index import own_arrays
from .reductions import PrivateSums

DEAR = 200
"""Cost of a gated body, in additions, from which a task without adstacks runs by chunks.

It is ten times the instructions by which an iteration takes longer where all pass
(docs/decisions/0015-compaction-in-blocks.md).
"""

LIGHT = 32
"""Most statements that decide the gates, which are written for each round."""


@dataclass(frozen=True)
class NestedGates:
    """Represent nested gates: conditions around all work of a task, each evaluated only if earlier gates are open.

    Attributes:
        task: The task, exits lowered.
        steps: For each gate, the statements that decide it, and the gate; they may need the gates before to be open.
        after: Statements after all gates.
    """

    task: Task
    steps: tuple[tuple[Block, Gate], ...]
    after: Block


def gates_of(task: Task) -> NestedGates | None:
    """Return the nested gates of a task without break, continue and return, or None if it has no gate."""
    steps: list[tuple[Block, Gate]] = []
    known: set[int] = set()
    after, found = task.body, gate_of(task)
    while found is not None and found.gate is not None:
        deciding = tuple(s for s in found.deciding if id(s) not in known)
        known.update(map(id, deciding))
        steps.append((deciding, found.gate))
        after, found = found.after, gate_of(found.flat)
    return NestedGates(task, tuple(steps), after) if steps else None


def packed_gates(kernel: Kernel, index: int, options: Options) -> NestedGates | None:
    """Return the gates of a task if it should run chunk by chunk over the iterations that pass them, else None.

    The result is None for debug builds, for tasks that print or have adstacks, and for tasks that can address the
    elements of several axes by the number of the iteration (own_index.py).
    """
    task = kernel.tasks[index]
    unsuited = not task.is_parallel or options.debug or any(stack_allocas(task)) or own_arrays(task)
    if unsuited or any(isinstance(s, n.Print) for s in walk(task.body)):
        return None
    found = gates_of(lower_exits_of(kernel, index))
    if found is None or sum(1 for deciding, _ in found.steps for _ in walk(deciding)) > LIGHT:
        return None
    numbers = {s.result: int(s.value) for s in walk(found.task.body) if isinstance(s, n.Const) and s.result.type.is_int}
    return found if _cost(found.after, numbers) >= DEAR else None


def _cost(block: Block, numbers: Mapping[Value, int]) -> int:
    """Return the cost of statements in units of one addition; a loop with unknown trip count counts as expensive."""
    return sum(
        (OPS[s.op].cost if isinstance(s, n.Op) else 1)
        + _trips(s, numbers) * sum(_cost(inner, numbers) for inner in blocks(s))
        for s in block
    )


def _trips(stmt: Stmt, numbers: Mapping[Value, int]) -> int:
    """Return the estimated number of times that the nested blocks of a statement run."""
    if isinstance(stmt, n.For) and stmt.begin in numbers and stmt.end in numbers and stmt.stop is None:
        return max((numbers[stmt.end] - numbers[stmt.begin]) // stmt.step, 0)
    return DEAR if isinstance(stmt, LOOPS) else 1


def gate_function(m: ModuleState, index: int, gates: NestedGates) -> ir.LLVMFunction:
    """Return the function sg.gate.N(block, box, number), which returns 1 if the iteration passes the gates."""

    def is_open(e: Emitter, gate: Gate) -> ir.LLVMValue:
        cond = e.operand(gate.cond)
        return cond if gate.opens else e.b.xor(cond, const(I1, True))

    def passes(e: Emitter) -> ir.LLVMValue:
        if len(gates.steps) == 1:
            return is_open(e, gates.steps[0][1])
        found = e.alloca(I1)
        e.b.store(const(I1, False), found)
        with ExitStack() as inside:
            for number, (deciding, gate) in enumerate(gates.steps):
                if number:
                    e.flow.block(deciding)
                inside.enter_context(e.b.if_then(is_open(e, gate)))
            e.b.store(const(I1, True), found)
        return e.b.load(found, I1)

    return decision_function(m, index, replace(gates.task, body=gates.steps[0][0]), "gate", passes)


def select_function(m: ModuleState, index: int, task: Task) -> ir.LLVMFunction:
    """Return the function sg.select.N, which writes the numbers of the passing iterations to the task's list.

    It has the form of a task's function, but its stride is a number of blocks.
    """
    found = gates_of(task)
    assert found is not None
    additions = _ListAppender(ChunkLoop(gate_function(m, index, found)))
    return task_function(m, index, replace(task, body=()), name="select", additions=additions)


class ListedTask(PrivateSums):
    """Emit a task that runs the iterations in a list, or all iterations if the list cannot hold all that pass."""

    def begin(self, e: Emitter) -> None:
        """Emit the comparison that tells if the list has room for all iterations that pass."""
        super().begin(e)
        layout = e.m.layout
        length = e.b.load(e.temp(layout.length_at[e.task]), I64)
        self.complete = e.b.icmp_unsigned("<=", length, e.slot(layout.room_at[e.task]))

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number at a position of the list, or the position itself if the list is incomplete."""
        b, before = e.b, e.b.block
        listed, known = (b.function.append_basic_block(name) for name in ("listed", "numbered"))
        b.cbranch(self.complete, listed, known)
        b.position_at_end(listed)
        found = b.zext(b.load(b.gep(e.slot_address(e.m.layout.list_at[e.task]), place, I32), I32), I64)
        b.branch(known)
        b.position_at_end(known)
        number = b.phi(I64)
        number.add_incoming(place, before)
        number.add_incoming(found, listed)
        return number


class CompactedTask(PrivateSums):
    """Emit a task that runs, chunk by chunk, the iterations that pass the gate."""

    def __init__(self, found: tuple[ElementSum, ...], chunks: ChunkLoop) -> None:
        super().__init__(found)
        self.chunks = chunks

    def enter(self, e: Emitter, run: IterationRun) -> IterationRun:
        """Emit the start of the loop over chunks; return the range of passing iterations that a thread runs."""
        _, count, blocks = run
        return self.chunks.open(e, count, blocks)

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number at a position of the chunk's list."""
        return self.chunks.number(e, place)

    def leave(self, e: Emitter) -> None:
        """Emit the end of the loop over chunks of iterations."""
        self.chunks.close(e)


WIDEST = 1 << 32
"""Number of values that an entry of a list can hold."""


class _ListAppender(TaskExtension):
    """Emit the scan of a task: append the iterations of each chunk that pass the gate to the task's list.

    A chunk with numbers that no entry can hold makes the length so large that no list has room, so that the task runs
    over all iterations.
    """

    def __init__(self, chunks: ChunkLoop) -> None:
        self.chunks = chunks

    def enter(self, e: Emitter, run: IterationRun) -> IterationRun:
        """Emit the start of a chunk and reserve list entries for its passing iterations; return a thread's range."""
        b, chunks = e.b, self.chunks
        _, count, blocks = run
        run = chunks.open(e, count, blocks)
        passing = b.zext(chunks.passing, I64)
        fits = b.icmp_unsigned("<=", b.add(chunks.start, chunks.size), const(I64, WIDEST))
        is_none = b.icmp_unsigned("==", passing, const(I64, 0))
        too_wide = b.select(b.or_(fits, is_none), const(I64, 0), const(I64, WIDEST))
        length = e.temp(e.m.layout.length_at[e.task])
        self.begin_at = warp.claim_block(e.m, b, length, b.add(passing, too_wide))
        return run

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number at a position of the chunk's list."""
        self.place = place
        return self.chunks.number(e, place)

    def after(self, e: Emitter) -> None:
        """Emit a store of the iteration number to the task's list, if the list has room."""
        b, layout = e.b, e.m.layout
        place = b.add(self.begin_at, self.place)
        with b.if_then(b.icmp_unsigned("<", place, e.slot(layout.room_at[e.task]))):
            b.store(b.trunc(e.iteration, I32), b.gep(e.slot_address(layout.list_at[e.task]), place, I32))

    def leave(self, e: Emitter) -> None:
        """Emit the end of the loop over chunks of iterations."""
        self.chunks.close(e)
