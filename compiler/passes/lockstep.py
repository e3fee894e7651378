"""Which adstacks of a task always have the same depth: they share one depth register and one check of a push.

    push a, x; push b, y; for ...: { push a, ..; push b, .. }   →   {a, b}

Control can enter or leave a block only where a statement with blocks of its own stands, so a task is cut there, and
between declarations and accesses. Invariant: in each piece the stacks of one group are emptied, or pushed and popped in
the same order; so inside a piece their depths differ by numbers that are known where code is made, at its ends not at
all, and they reach the same depth.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.nodes import ROLES, Block, StackAlloca, StackPop, StackPush, Stmt

Signature = tuple[tuple[int, int], ...]
"""(number of the piece, change of the depth) in order of text; a change of 0 where the stack is emptied."""


def lockstep(body: Block) -> dict[str, int]:
    """Number of the group of each adstack that the block declares or changes, by name."""
    pieces = _Pieces()
    pieces.block(body)
    groups: dict[tuple[Signature, int | None], int] = {}
    return {
        name: groups.setdefault((tuple(changes), pieces.capacities.get(name)), len(groups))
        for name, changes in pieces.changes.items()
    }


def leaders(body: Block) -> dict[str, str]:
    """The first stack of the group of each, by name."""
    first: dict[int, str] = {}
    return {name: first.setdefault(group, name) for name, group in lockstep(body).items()}


class _Pieces:
    """changes: see `Signature`, by stack. capacities: those that stand in the text."""

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
