"""This module holds tools for relations that rewrite kernels: copies of blocks, and a test for loops that end early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.walk import map_blocks, next_id, rename_block, rename_locals, results, walk, walk_kernel


class BlockCopier:
    """Copy blocks of one kernel with new values, and with new names for the locals that a block declares."""

    def __init__(self, kernel: Kernel) -> None:
        self.next_id = next_id(kernel)
        self.taken = {s.var for s in walk_kernel(kernel) if isinstance(s, n.Local | n.LocalArray)}

    def copy(self, block: Block, known: dict[Value, Value]) -> Block:
        """Return a copy of a block, in which all values and locals that it defines are new.

        Args:
            block: The block to copy.
            known: New values of the values from outside; the values that the block defines are added.
        """
        for stmt in walk(block):
            for value in results(stmt):
                known[value] = self.fresh(value)
        names = {s.var: self._name(s.var) for s in walk(block) if isinstance(s, n.Local | n.LocalArray)}
        return rename_locals(_redefined(rename_block(block, known), known), names)

    def fresh(self, like: Value) -> Value:
        """Return an unused value of the same type as the given one."""
        self.next_id += 1
        return Value(self.next_id - 1, like.type)

    def _name(self, old: str) -> str:
        number = 1
        while f"{old}.{number}" in self.taken:
            number += 1
        self.taken.add(f"{old}.{number}")
        return f"{old}.{number}"


def _redefined(block: Block, known: dict[Value, Value]) -> Block:
    """Return the block with each value that it defines replaced by the value that `known` assigns to it."""

    def change(stmt: Stmt) -> Stmt:
        stmt = map_blocks(stmt, lambda inner: _redefined(inner, known))
        changed: dict[str, Any] = {}
        for name, role in n.ROLES[type(stmt)]:
            old = getattr(stmt, name)
            if role == "result" and old is not None:
                changed[name] = known[old]
        return replace(stmt, **changed)

    return tuple(map(change, block))


def contains_statements(kernel: Kernel, *kinds: type[Stmt]) -> bool:
    """Return True if statements of these classes occur in the kernel."""
    return any(isinstance(stmt, kinds) for stmt in walk_kernel(kernel))


def has_own_break(block: Block, depth: int = 1) -> bool:
    """Return True if the body of a loop has a `break` that ends this loop and no outer loop.

    Args:
        block: The body, or a block inside it.
        depth: Number of loops and scopes from the block out to the loop, with the loop itself.
    """
    for stmt in block:
        if isinstance(stmt, n.Break) and stmt.depth == depth:
            return True
        inside = depth + isinstance(stmt, n.For | n.While | n.Scope)
        if any(has_own_break(getattr(stmt, name), inside) for name, role in n.ROLES[type(stmt)] if role == "block"):
            return True
    return False
