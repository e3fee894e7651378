"""This module contains STAGES, the table of which statements a kernel may contain at each point of the pipeline.

Every pass declares the stage at which it works and the stage at which it leaves the kernel; the verifier enforces both.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import roles
from .nodes import STATEMENTS
from .statement import Stmt

EXITS: frozenset[type[Stmt]] = frozenset(roles.EXITS)
STACKS: frozenset[type[Stmt]] = frozenset(roles.STACKS)
BLOCKS: frozenset[type[Stmt]] = frozenset(roles.BLOCKS)
ALL: frozenset[type[Stmt]] = frozenset(STATEMENTS.values())


@dataclass(frozen=True)
class Stage:
    """A `Stage` states which statements and names are legal in a kernel at one point of the pipeline.

    Attributes:
        name: name of the stage.
        statements: classes of statements that may appear.
        crossing: True if later tasks may use values and locals of serial tasks.
        gradients: True if `x.grad` names the adjoint array of each parameter `x` that has one.
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
        Stage("structured", ALL - STACKS - EXITS - BLOCKS),
        Stage("adjoint", ALL - EXITS - BLOCKS, gradients=True),
    )
}
