"""This module computes slopes (derivatives) of operations in the forward sweep, so that they can be saved.

    v = sin(v)          %1 = get v; %2 = sin %1; %3 = cos %1; set v, %2

The reverse sweep needs cos(v) of every trip and nothing else of v. Either v is saved and the cosine is computed from
it, or the cosine is saved. Both take the same number of bytes, but saving the cosine needs one operation less, and a
cosine is cheapest beside the sine. As a value of the body the slope takes part in the choice of what is saved. If it is
not saved, nothing reads it in the forward sweep, and dead code removal drops it there.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Task
from ..ir.statement import Block, Stmt, Value
from ..ir.types import adjoint_type
from ..ir.walk import NESTED, map_blocks
from .activity import Activity
from .rules import VJP, Slope

Slopes = dict[tuple[Value, int], Value]
"""For the result of an operation and the position of an operand, the slope of the operation by that operand."""


def with_slopes(task: Task, activity: Activity, first_id: int) -> tuple[Task, Slopes, int]:
    """Return a task with statements added that compute the slopes of its active operations.

    Returns:
        The task, its slopes, and the first id of a value that is free.
    """
    made = _Slopes(activity, first_id)
    body = made.block(task.body)
    return (replace(task, body=body) if made.found else task), made.found, made.next_id


class _Slopes:
    """Rewrite the blocks of one task: after each active operation, insert statements that compute its slopes."""

    def __init__(self, activity: Activity, first_id: int) -> None:
        self.activity = activity
        self.next_id = first_id
        self.found: Slopes = {}
        self._behind: dict[Value, Block] = {}

    def block(self, block: Block) -> Block:
        """Return the block with statements added after each active operation that compute its slopes."""
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Op):
                out += (stmt, *self._after(stmt))
            else:
                out.append(map_blocks(stmt, self.block) if type(stmt) in NESTED else stmt)
        return tuple(out)

    def _after(self, stmt: n.Op) -> Block:
        """Return the statements that compute the slopes of an operation.

        A statement object that occurs at two places of the task gets the same statements at both.
        """
        if stmt.result not in self._behind:
            b = Builder(self.next_id)
            b.loc = stmt.loc
            for k, rule in enumerate(VJP[stmt.op]):
                if isinstance(rule, Slope) and self.activity.operand(stmt, k):
                    args, result = tuple(_wide(b, a) for a in stmt.args), _wide(b, stmt.result)
                    self.found[stmt.result, k] = rule.slope(b, args, result)
            self.next_id, self._behind[stmt.result] = b.next_id, b.take()
        return self._behind[stmt.result]


def _wide(b: Builder, value: Value) -> Value:
    """Return a slope converted to the type of the adjoint with which it is multiplied."""
    return b.cast(value, adjoint_type(value.type)) if value.type.is_real else value
