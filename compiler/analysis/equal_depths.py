"""This module finds adstacks of a task whose depths are always equal; they share a depth register and push checks.

    push a, x; push b, y; for ...: { push a, ..; push b, .. }   →   {a, b}

Control can enter or leave a block only at a statement with blocks of its own. A task is therefore cut into pieces
there, and also between declarations and accesses. Invariant: in each piece, the stacks of one group are emptied, or are
pushed and popped in the same order. Inside a piece their depths differ by numbers that are known when code is
generated, at its ends the depths are equal, and over the whole piece the stacks reach the same depth.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.nodes import ROLES, StackAlloca, StackPop, StackPush
from ..ir.statement import Block, Stmt

ChangeSignature = tuple[tuple[int, int], ...]
"""A signature lists pairs (number of the piece, change of the depth) in order of text; 0 means an emptied stack."""


def lockstep(body: Block) -> dict[str, int]:
    """Return a mapping from each adstack in the block to a group number; a group has equal depths at all times."""
    pieces = _ChangeRecorder()
    pieces.block(body)
    groups: dict[tuple[ChangeSignature, int | None], int] = {}
    return {
        name: groups.setdefault((tuple(changes), pieces.capacities.get(name)), len(groups))
        for name, changes in pieces.changes.items()
    }


def leaders(body: Block) -> dict[str, str]:
    """Return a mapping from each adstack to the first adstack that always has the same depth, which may be itself."""
    first: dict[int, str] = {}
    return {name: first.setdefault(group, name) for name, group in lockstep(body).items()}


class _ChangeRecorder:
    """Walk a block and record in order the pushes and pops of each adstack.

    Attributes:
        changes: for each adstack, its changes of height in order, each with the number of the piece of code it is in.
        capacities: for each adstack, the number of slots that its declaration gives, or None.
    """

    def __init__(self) -> None:
        self.changes: dict[str, list[tuple[int, int]]] = {}
        self.capacities: dict[str, int | None] = {}
        self._piece = 0
        self._declares = False

    def block(self, body: Block) -> None:
        for stmt in body:
            blocks = list(_blocks(stmt))
            for inner in blocks:
                self._piece += 1
                self.block(inner)
            if blocks:
                self._piece += 1
            elif isinstance(stmt, StackAlloca):
                self.capacities[stmt.stack] = stmt.capacity
                self._note(stmt.stack, 0, True)
            elif isinstance(stmt, StackPush | StackPop):
                self._note(stmt.stack, 1 if isinstance(stmt, StackPush) else -1, False)

    def _note(self, stack: str, change: int, declares: bool) -> None:
        if declares is not self._declares:
            self._declares, self._piece = declares, self._piece + 1
        self.changes.setdefault(stack, []).append((self._piece, change))


def _blocks(stmt: Stmt) -> Iterator[Block]:
    return (getattr(stmt, name) for name, role in ROLES[type(stmt)] if role == "block")
