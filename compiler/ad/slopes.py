"""Slopes: derivatives that the forward sweep makes beside the value they belong to, so that they can be saved instead.

    v = sin(v)          %1 = get v; %2 = sin %1; %3 = cos %1; set v, %2

The reverse sweep wants cos(v) of every trip and nothing else of v. Either v is saved and the cosine made of it, or the
cosine is: as many bytes, and one operation less, which besides is cheapest beside the sine. As a value of the body
the slope takes part in the choice of what is saved; where it is not, nothing reads it in the forward sweep, and it
goes away there.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.nodes import Block, Stmt, Task, Value
from ..ir.types import adjoint_type
from ..ir.walk import NESTED, map_blocks
from .activity import Activity
from .rules import VJP, Slope

Slopes = dict[tuple[Value, int], Value]
"""The slope of an operation, by its result, with respect to the operand at a position."""


def with_slopes(task: Task, activity: Activity, first_id: int) -> tuple[Task, Slopes, int]:
    """The task with a slope behind every active operation whose rule has one; the next free id."""
    made = _Slopes(activity, first_id)
    body = made.block(task.body)
    return (replace(task, body=body) if made.found else task), made.found, made.next_id


class _Slopes:
    def __init__(self, activity: Activity, first_id: int) -> None:
        self.activity = activity
        self.next_id = first_id
        self.found: Slopes = {}
        self._behind: dict[Value, Block] = {}

    def block(self, block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Op):
                out += (stmt, *self._after(stmt))
            else:
                out.append(map_blocks(stmt, self.block) if type(stmt) in NESTED else stmt)
        return tuple(out)

    def _after(self, stmt: n.Op) -> Block:
        """What makes its slopes; a statement that stands at two places has the same ones at both."""
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
    """A slope has the type of the adjoint that it is multiplied with."""
    return b.cast(value, adjoint_type(value.type)) if value.type.is_real else value
