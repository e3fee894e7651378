"""Which tasks run over a list of the iterations that pass their gate, and the code that makes the list.

The gate is decided again when the task runs over the list, so the scan may let an iteration pass that does nothing.
"""
from __future__ import annotations

from dataclasses import replace

from ...compiler.ir.nodes import Task
from ..llvm import ir
from ..llvm.emit import Emitter, ModuleState
from ..llvm.function import Additions, task_function
from ..llvm.masked.selection import Gate, Selection, selection
from ..llvm.types import I1, I32, I64, const
from . import warp


def gate_of(task: Task) -> Selection | None:
    """What a scan can decide of a task, if it is one gate around all that the task does."""
    found = selection(task, linear=True) if task.is_parallel else None
    return found if found is not None and found.gate is not None else None


def select_function(m: ModuleState, index: int, task: Task) -> ir.Function:
    """sg.select.N: of the form of a task's function; appends the numbers of iterations that pass."""
    found = gate_of(task)
    assert found is not None and found.gate is not None
    return task_function(m, index, replace(task, body=found.deciding), name="select", additions=_Append(found.gate))


WIDEST = 1 << 32
"""Numbers that an entry of a list can hold."""


class _Append(Additions):
    """Puts an iteration that passes at the next place of the list, if that has room; the length counts all.

    A number that no entry can hold makes the length one that no list has room for, so that the task runs over all.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def after(self, e: Emitter) -> None:
        b, layout = e.b, e.m.layout
        cond = e.operand(self.gate.cond)
        with b.if_then(cond if self.gate.opens else b.xor(cond, const(I1, True))):
            length = e.temp(layout.length_at[e.task])
            place = warp.claim(e.m, b, length)
            with b.if_then(b.icmp_unsigned(">=", e.iteration, const(I64, WIDEST))):
                b.atomic_rmw("add", length, const(I64, WIDEST), "monotonic")
            with b.if_then(b.icmp_unsigned("<", place, e.slot(layout.room_at[e.task]))):
                list_ = e.slot_address(layout.list_at[e.task])
                b.store(b.trunc(e.iteration, I32), b.gep(list_, place, I32))
