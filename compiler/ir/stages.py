"""STAGES: what may appear in a kernel between which passes; the table of docs/ir.md.

Every pass says at which stage it works and at which stage it leaves the kernel; the verifier enforces it.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import nodes as n
from .nodes import STATEMENTS, Stmt

EXITS: frozenset[type[Stmt]] = frozenset({n.Scope, n.Break, n.Continue, n.Return})
STACKS: frozenset[type[Stmt]] = frozenset(
    {n.StackAlloca, n.StackPush, n.StackPop, n.StackTop, n.StackTopAdjoint, n.StackAccumulate}
)
ALL: frozenset[type[Stmt]] = frozenset(STATEMENTS.values())


@dataclass(frozen=True)
class Stage:
    """statements: the classes that may appear. crossing: values and locals of serial tasks may be used in later
    tasks. gradients: `x.grad` names the adjoint array of each parameter `x` that has one.
    """

    name: str
    statements: frozenset[type[Stmt]]
    crossing: bool = False
    gradients: bool = False


STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("source", ALL - STACKS, crossing=True),
        Stage("tasks", ALL - STACKS),
        Stage("structured", ALL - STACKS - EXITS),
        Stage("adjoint", ALL - EXITS, gradients=True),
    )
}
