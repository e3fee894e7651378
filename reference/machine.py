"""The machine: state of a launch, state of a chunk, and the table of handlers that execute statements.

A handler takes the machine, the statement and the frame of lanes that execute it, and gives the frame of lanes that
go on to the next statement (None if there are none). Control flow that leaves early is exactly that: lanes that a
handler does not give back, and that it has noted in a `Target`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ..backends.base import Draws, Sizes
from ..compiler.errors import StackgradError
from ..compiler.ir.nodes import STATEMENTS, Block, Kernel, StackAlloca, Stmt
from ..compiler.ir.table import Table
from ..compiler.ir.walk import used_values, walk_kernel
from .frame import Frame, Vector
from .memory import Memory
from .storage import Heap, Local, Rows, Stack
from .traps import OutOfFuel, Place, trap

Handler = Callable[["Machine", Any, Frame], Frame | None]

RUN: Table[type[Stmt], Handler] = Table("reference.run", STATEMENTS.values())


@dataclass
class Target:
    """A loop or scope that is running: lanes that left it, and lanes that wait for its next iteration."""

    broken: list[Vector] = field(default_factory=list)
    continued: list[Vector] = field(default_factory=list)


@dataclass
class Chunk:
    """Iterations start .. start + width of a task, and everything that each of them owns.

    base, extents: the box of the task. drawn: random numbers used so far, one count for all or one a lane.
    """

    task: int
    start: int
    width: int
    base: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    locals: dict[str, Local] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    drawn: int | Vector = 0
    returned: bool = False

    @property
    def is_serial(self) -> bool:
        return not self.extents

    def point(self, lane: int) -> tuple[int, ...]:
        """The indices of the iteration in a lane."""
        if self.is_serial:
            return ()
        return tuple(b + int(k) for b, k in zip(self.base, np.unravel_index(self.start + lane, self.extents)))


class Program:
    """What is looked up in a kernel once, however often it is launched."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        statements = list(walk_kernel(kernel))
        self.used = {v.id for v in used_values(statements)}
        self.used |= {v.id for t in kernel.tasks for v in (*t.begin, *t.end)}
        self.stacks = {s.stack: s for s in statements if isinstance(s, StackAlloca)}


@dataclass
class Machine:
    """One launch. fuel: statements left to execute; a statement counts once for all lanes of a frame."""

    program: Program
    memory: Mapping[str, Memory]
    scalars: Mapping[str, Vector]
    sizes: Sizes
    draws: Draws
    fuel: int
    heap: Heap
    chunk: Chunk
    deepest: dict[str, int] = field(default_factory=dict)

    def run(self, block: Block, frame: Frame | None) -> Frame | None:
        """Execute a block; the lanes that reach its end."""
        if frame is None:
            return None
        self.burn(block)
        for stmt in block:
            frame = RUN[type(stmt)](self, stmt, frame)
            if frame is None:
                return None
        return frame

    def burn(self, block: Block) -> None:
        """Account for the statements of a block; trap when the fuel is used up."""
        self.fuel -= len(block)
        if self.fuel < 0:
            place = Place(self.program.kernel, self.chunk.task)
            raise trap(OutOfFuel, place, block[0], "the launch has used up its fuel", "pass a greater `fuel`")

    def stack(self, name: str) -> Stack:
        """The adstack of this chunk; empty on first use."""
        found = self.chunk.stacks.get(name)
        if found is None:
            decl = self.program.stacks[name]
            found = self.chunk.stacks[name] = Stack(decl, self.chunk.width, self.capacity(decl), self.heap)
        return found

    def capacity(self, decl: StackAlloca) -> int | None:
        """Slots of an adstack; None if neither the kernel nor the launch states them."""
        return self.sizes.capacities.get(decl.stack) if decl.capacity is None else decl.capacity

    def close(self) -> None:
        """End the chunk: note how deep its stacks were, give their memory back."""
        for name, stack in self.chunk.stacks.items():
            self.deepest[name] = max(self.deepest.get(name, 0), stack.deepest)
            stack.release()

    def check(
        self,
        kind: type[StackgradError],
        stmt: Stmt,
        frame: Frame,
        bad: Vector | bool,
        say: Callable[[int], str],
        cure: str = "",
    ) -> None:
        """Trap in the first lane where `bad`. say: the reason, given the position of that lane in the frame."""
        if np.any(bad):
            position = 0 if np.ndim(bad) == 0 else int(np.argmax(bad))
            self.trap(kind, stmt, frame, position, say(position), cure)

    def trap(
        self, kind: type[StackgradError], stmt: Stmt, frame: Frame, position: int, reason: str, cure: str = ""
    ) -> NoReturn:
        """End the launch for the lane at a position of the frame."""
        point = self.chunk.point(int(frame.numbers()[position]))
        raise trap(kind, Place(self.program.kernel, self.chunk.task, point), stmt, reason, cure)


def at(vector: Vector, position: int) -> Any:
    """The element of a lane, for messages; a uniform value is the same everywhere."""
    return vector.item() if vector.ndim == 0 else vector[position].item()
