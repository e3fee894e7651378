"""Which tasks run over a list of the iterations that pass their gate, and the code that makes the list.

The gate is decided again when the task runs over the list, so the scan may let an iteration pass that does nothing.
"""
from __future__ import annotations

from dataclasses import replace

from ...compiler.ir.nodes import Task
from ..llvm import ir
from ..llvm.emit import Emitter, ModuleState
from ..llvm.function import Additions, Run, decision_function, task_function
from ..llvm.masked.selection import Selection, selection
from ..llvm.types import I1, I32, I64, const
from . import warp
from .chunks import Chunks


def gate_of(task: Task) -> Selection | None:
    """What a scan can decide of a task, if it is one gate around all that the task does."""
    found = selection(task, linear=True) if task.is_parallel else None
    return found if found is not None and found.gate is not None else None


def gate_function(m: ModuleState, index: int, task: Task, found: Selection) -> ir.Function:
    """sg.gate.N(block, box, number): 1 where an iteration passes."""
    gate = found.gate
    assert gate is not None

    def passes(e: Emitter) -> ir.Value:
        cond = e.operand(gate.cond)
        return cond if gate.opens else e.b.xor(cond, const(I1, True))

    return decision_function(m, index, replace(task, body=found.deciding), "gate", passes)


def select_function(m: ModuleState, index: int, task: Task) -> ir.Function:
    """sg.select.N: of the form of a task's function, its stride a number of blocks; lists iterations that pass."""
    found = gate_of(task)
    assert found is not None
    additions = _Append(Chunks(gate_function(m, index, task, found)))
    return task_function(m, index, replace(task, body=()), name="select", additions=additions)


WIDEST = 1 << 32
"""Numbers that an entry of a list can hold."""


class _Append(Additions):
    """Puts the iterations of a chunk that pass at the next places of the list, if that has room; the length counts all.

    A chunk with numbers that no entry can hold makes the length one that no list has room for, so that the task runs
    over all iterations.
    """

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks

    def enter(self, e: Emitter, run: Run) -> Run:
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

    def number(self, e: Emitter, place: ir.Value) -> ir.Value:
        self.place = place
        return self.chunks.number(e, place)

    def after(self, e: Emitter) -> None:
        b, layout = e.b, e.m.layout
        place = b.add(self.begin_at, self.place)
        with b.if_then(b.icmp_unsigned("<", place, e.slot(layout.room_at[e.task]))):
            b.store(b.trunc(e.iteration, I32), b.gep(e.slot_address(layout.list_at[e.task]), place, I32))

    def leave(self, e: Emitter) -> None:
        self.chunks.close(e)
