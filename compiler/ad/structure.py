"""This module finds the block of each statement of a task, and the statements around that block.

A block is named by its path from the body of the task: pairs (position of the holding statement, field). So a node that
stands at two places has two occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.nodes import ROLES
from ..ir.roles import LOCAL_DECLARATIONS, LOOPS, SCALAR_USES
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import NESTED, RESULTS, walk, walk_kernel

BlockPath = tuple[tuple[int, str], ...]
"""A path names a block; () is the body of the task."""


@dataclass(frozen=True)
class Occurrence:
    """Represent a statement of a task together with its block and its position there.

    Attributes:
        path: The block that holds the statement.
        position: The position of the statement in the block.
        stmt: The statement.
    """

    path: BlockPath
    position: int
    stmt: Stmt


class Structure:
    """Hold the blocks of one task of stage structured, and the block that defines each value.

    Attributes:
        task: The task.
        slopes: The slopes of operations that statements of the body compute.
        blocks: The statements of each block, by its path.
        homes: The block that defines each value.
        made: The statement that defines each value.
        declared: The block that declares each local.
    """

    def __init__(self, task: Task, slopes: Mapping[tuple[Value, int], Value] | None = None) -> None:
        self.task = task
        self.slopes = slopes or {}
        self.blocks: dict[BlockPath, Block] = {}
        self.homes: dict[Value, BlockPath] = {v: () for v in task.indices}
        self.made: dict[Value, Stmt] = {}
        self.declared: dict[str, BlockPath] = {}
        self._inside: dict[BlockPath, frozenset[Value]] = {}
        self._enter(task.body, ())

    def _enter(self, block: Block, path: BlockPath) -> None:
        """Record a block and all blocks inside of it."""
        self.blocks[path] = block
        for position, stmt in enumerate(block):
            for value in RESULTS[type(stmt)](stmt):
                self.made[value] = stmt
                self.homes[value] = path
            if isinstance(stmt, LOCAL_DECLARATIONS):
                self.declared[stmt.var] = path
            elif type(stmt) in NESTED:
                if isinstance(stmt, n.For):
                    self.homes[stmt.index] = (*path, (position, "body"))
                for name, inner in inner_blocks(stmt):
                    self._enter(inner, (*path, (position, name)))

    def inside(self, path: BlockPath) -> frozenset[Value]:
        """Return the values that a block and the blocks inside of it define; they are found at the first call."""
        if path not in self._inside:
            self._inside[path] = frozenset(v for v, home in self.homes.items() if home[: len(path)] == path)
        return self._inside[path]

    def holder(self, path: BlockPath) -> Stmt:
        """Return the statement of which a block is a part. The block must not be the body of the task."""
        return self.blocks[path[:-1]][path[-1][0]]

    def loops(self, path: BlockPath) -> list[tuple[BlockPath, n.For | n.While]]:
        """Return the serial loops around a block, outermost first, each with the path of its body."""
        found = []
        for length in range(1, len(path) + 1):
            holder = self.holder(path[:length])
            if isinstance(holder, LOOPS):
                found.append((path[:length], holder))
        return found

    def depth(self, path: BlockPath) -> int:
        """Return the number of serial loops around a block."""
        return len(self.loops(path))

    def is_index(self, value: Value) -> bool:
        """Return True if the value is the index of a serial loop."""
        stmt = self.made.get(value)
        return isinstance(stmt, n.For) and stmt.index == value

    def occurrences(self) -> Iterator[Occurrence]:
        """Yield every statement of the body with its place, outer blocks before inner ones."""
        for path, block in self.blocks.items():
            for position, stmt in enumerate(block):
                yield Occurrence(path, position, stmt)


def is_set_at_once(block: Block, position: int, var: str) -> bool:
    """Return True if the first use of a local after its declaration at `position` is a `set` in the same block."""
    for stmt in block[position + 1 :]:
        if isinstance(stmt, SCALAR_USES) and stmt.var == var:
            return isinstance(stmt, n.Set)
        if any(getattr(s, "var", None) == var or getattr(s, "stop", None) == var for s in walk((stmt,))):
            return False
    return False


def inner_blocks(stmt: Stmt) -> Iterator[tuple[str, Block]]:
    """Yield each nested block of a statement, with the name of the attribute that holds the block."""
    if type(stmt) in NESTED:
        for name, role in ROLES[type(stmt)]:
            if role == "block":
                yield name, getattr(stmt, name)


def common_block(a: BlockPath, b: BlockPath) -> BlockPath:
    """Return the innermost block that holds both blocks."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def comes_after(later: Occurrence, earlier: Occurrence, structure: Structure) -> bool:
    """Return True if `later` may run after `earlier` in one execution of their innermost common block."""
    common = common_block(later.path, earlier.path)
    a, b = later.path[len(common) :], earlier.path[len(common) :]
    place_a = a[0][0] if a else later.position
    place_b = b[0][0] if b else earlier.position
    if place_a != place_b:
        return place_a > place_b
    if a and b and isinstance(structure.blocks[common][place_a], n.If):
        return False
    # Both stand in the same statement of the common block, in different blocks of it, such as condition and body.
    return bool(a) and bool(b)


def task_prefix(kernel: Kernel, t: int) -> str:
    """Return the text that all names made for task t begin with. No local of the kernel begins with it."""
    names = {s.var for s in walk_kernel(kernel) if isinstance(s, LOCAL_DECLARATIONS)}
    prefix = f"t{t}"
    while any(name.startswith(f"{prefix}.") for name in names):
        prefix += "_"
    return prefix
