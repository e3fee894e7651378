"""Where everything is: the block of each statement of a task, and what encloses it.

A block is named by its path from the task's body: pairs (position of the holding statement, field), so that shared
nodes at two places are two occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import ROLES, Block, Stmt, Task, Value
from ..ir.walk import NESTED, RESULTS, walk

Path = tuple[tuple[int, str], ...]
"""A block; () is the body of the task."""


@dataclass(frozen=True)
class Occurrence:
    """One statement at one place."""

    path: Path
    position: int
    stmt: Stmt


class Structure:
    """Lookups over one task of stage structured. slopes: of its operations, where they are values of the body."""

    def __init__(self, task: Task, slopes: Mapping[tuple[Value, int], Value] | None = None) -> None:
        self.task = task
        self.slopes = slopes or {}
        self.blocks: dict[Path, Block] = {}
        self.homes: dict[Value, Path] = {v: () for v in task.indices}
        self.made: dict[Value, Stmt] = {}
        self.declared: dict[str, Path] = {}
        self._enter(task.body, ())

    def _enter(self, block: Block, path: Path) -> None:
        self.blocks[path] = block
        for position, stmt in enumerate(block):
            for value in RESULTS[type(stmt)](stmt):
                self.made[value] = stmt
                self.homes[value] = path
            if isinstance(stmt, (n.Local, n.LocalArray)):
                self.declared[stmt.var] = path
            elif type(stmt) in NESTED:
                if isinstance(stmt, n.For):
                    self.homes[stmt.index] = (*path, (position, "body"))
                for name, inner in inner_blocks(stmt):
                    self._enter(inner, (*path, (position, name)))

    def holder(self, path: Path) -> Stmt:
        """The statement that holds a block other than the task's body."""
        return self.blocks[path[:-1]][path[-1][0]]

    def loops(self, path: Path) -> list[tuple[Path, n.For | n.While]]:
        """Serial loops around a block, outermost first, each with the path of its body."""
        found = []
        for length in range(1, len(path) + 1):
            holder = self.holder(path[:length])
            if isinstance(holder, (n.For, n.While)):
                found.append((path[:length], holder))
        return found

    def depth(self, path: Path) -> int:
        """Number of serial loops around a block."""
        return len(self.loops(path))

    def is_index(self, value: Value) -> bool:
        """Whether the value is the index of a serial loop."""
        stmt = self.made.get(value)
        return isinstance(stmt, n.For) and stmt.index == value

    def occurrences(self) -> Iterator[Occurrence]:
        """Every statement of the body with its place, outer before inner."""
        for path, block in self.blocks.items():
            for position, stmt in enumerate(block):
                yield Occurrence(path, position, stmt)


def is_set_at_once(block: Block, position: int, var: str) -> bool:
    """Whether a local declared at this position of a block is set there before anything reads it."""
    for stmt in block[position + 1 :]:
        if isinstance(stmt, (n.Get, n.Set)) and stmt.var == var:
            return isinstance(stmt, n.Set)
        if any(getattr(s, "var", None) == var or getattr(s, "stop", None) == var for s in walk((stmt,))):
            return False
    return False


def inner_blocks(stmt: Stmt) -> Iterator[tuple[str, Block]]:
    """Field name and content of each nested block."""
    if type(stmt) in NESTED:
        for name, role in ROLES[type(stmt)]:
            if role == "block":
                yield name, getattr(stmt, name)


def common_block(a: Path, b: Path) -> Path:
    """The innermost block that holds both."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def comes_after(later: Occurrence, earlier: Occurrence, structure: Structure) -> bool:
    """Whether `later` may run after `earlier` in one pass over their common block."""
    common = common_block(later.path, earlier.path)
    a, b = later.path[len(common) :], earlier.path[len(common) :]
    place_a = a[0][0] if a else later.position
    place_b = b[0][0] if b else earlier.position
    if place_a != place_b:
        return place_a > place_b
    if a and b and isinstance(structure.blocks[common][place_a], n.If):
        return False
    return bool(a) and bool(b)
