"""Define `Machine`, the reference interpreter during one launch, and the table of handlers for statements.

A handler takes the machine, the statement and the frame of lanes that execute it, and returns the frame of lanes that
go on to the next statement (None if no lane does). A handler does not return the lanes that leave a loop, scope or task
early; it records them in the `ExitTarget` of the loop or scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ..backends.base import Draws, Sizes
from ..compiler.errors import StackgradError
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.nodes import STATEMENTS, StackAlloca
from ..compiler.ir.statement import Block, Stmt
from ..compiler.ir.table import Table
from ..compiler.ir.walk import used_values, walk_kernel
from .frame import LaneFrame, LaneVector
from .memory import FlatArray
from .storage import ChunkLocal, ChunkStack, HeapCounter, Rows
from .traps import OutOfFuel, TrapPlace, trap

Handler = Callable[["Machine", Any, LaneFrame], LaneFrame | None]

RUN: Table[type[Stmt], Handler] = Table(
    "reference.run", STATEMENTS.values(), about="how the interpreter runs the statement"
)


@dataclass
class ExitTarget:
    """Collect lanes that leave a loop or scope early, and lanes that wait for the next trip of the loop.

    Attributes:
        broken: lanes that left the loop or scope
        continued: lanes that wait for the next trip of the loop
    """

    broken: list[LaneVector] = field(default_factory=list)
    continued: list[LaneVector] = field(default_factory=list)


@dataclass
class Chunk:
    """Represent a contiguous range of iterations of a task that run together, with their locals and adstacks.

    Attributes:
        task: index of the task
        start: row-major number of the first iteration
        width: number of iterations
        base: first point of the box
        extents: extents of the box; empty in a serial task
        locals: local scalars, by name
        rows: local arrays, by name
        stacks: adstacks, by name
        targets: loops and scopes under way, innermost last
        drawn: random numbers drawn so far, one count for all lanes or one per lane
        returned: True if a lane returned
    """

    task: int
    start: int
    width: int
    base: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    locals: dict[str, ChunkLocal] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    stacks: dict[str, ChunkStack] = field(default_factory=dict)
    targets: list[ExitTarget] = field(default_factory=list)
    drawn: int | LaneVector = 0
    returned: bool = False

    @property
    def is_serial(self) -> bool:
        """Return True for the chunk of a serial task."""
        return not self.extents

    def point(self, lane: int) -> tuple[int, ...]:
        """Return the loop indices of the iteration that a lane of this chunk runs."""
        if self.is_serial:
            return ()
        return tuple(b + int(k) for b, k in zip(self.base, np.unravel_index(self.start + lane, self.extents)))


class PreparedKernel:
    """Hold a kernel with facts about it that all of its launches use, such as which values are read.

    Attributes:
        kernel: kernel to be executed
        used: ids of the values that a statement, or the box of a task, reads
        stacks: declarations of the adstacks, by name
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        statements = list(walk_kernel(kernel))
        self.used = {v.id for v in used_values(statements)}
        self.used |= {v.id for t in kernel.tasks for v in (*t.begin, *t.end)}
        self.stacks = {s.stack: s for s in statements if isinstance(s, StackAlloca)}


@dataclass
class Machine:
    """Represent the state of the interpreter during one launch: memory, arguments, adstack sizes and fuel.

    Attributes:
        program: kernel that is executed, with facts about it
        memory: arrays and temporaries, by name
        scalars: scalar arguments, by name
        sizes: capacities of the adstacks
        draws: key of the random numbers
        fuel: statements left to execute; a statement counts once for all lanes of a frame
        heap: counter of the bytes of adstack memory
        chunk: chunk of iterations that is being executed
        deepest: greatest depth of each adstack
    """

    program: PreparedKernel
    memory: Mapping[str, FlatArray]
    scalars: Mapping[str, LaneVector]
    sizes: Sizes
    draws: Draws
    fuel: int
    heap: HeapCounter
    chunk: Chunk
    deepest: dict[str, int] = field(default_factory=dict)

    def run(self, block: Block, frame: LaneFrame | None) -> LaneFrame | None:
        """Execute a block, and return the frame of the lanes that reach its end."""
        if frame is None:
            return None
        self.burn(block)
        for stmt in block:
            frame = RUN[type(stmt)](self, stmt, frame)
            if frame is None:
                return None
        return frame

    def burn(self, block: Block) -> None:
        """Subtract the number of a block's statements from the launch's fuel. Raise OutOfFuel if none is left."""
        self.fuel -= len(block)
        if self.fuel < 0:
            place = TrapPlace(self.program.kernel, self.chunk.task)
            raise trap(OutOfFuel, place, block[0], "the launch has used up its fuel", "pass a greater `fuel`")

    def stack(self, name: str) -> ChunkStack:
        """Return the named adstack of the current chunk, which is made empty on first use."""
        found = self.chunk.stacks.get(name)
        if found is None:
            decl = self.program.stacks[name]
            found = self.chunk.stacks[name] = ChunkStack(decl, self.chunk.width, self.capacity(decl), self.heap)
        return found

    def capacity(self, decl: StackAlloca) -> int | None:
        """Return the number of slots that an adstack may use, or None if there is no limit."""
        return self.sizes.capacities.get(decl.stack) if decl.capacity is None else decl.capacity

    def close(self) -> None:
        """Record the depths that the adstacks of the chunk reached, and free their memory."""
        for name, stack in self.chunk.stacks.items():
            self.deepest[name] = max(self.deepest.get(name, 0), stack.deepest)
            stack.release()

    def check(
        self,
        kind: type[StackgradError],
        stmt: Stmt,
        frame: LaneFrame,
        bad: LaneVector | bool,
        say: Callable[[int], str],
        cure: str = "",
    ) -> None:
        """Raise a located error for the first lane where `bad` is true.

        Args:
            kind: class of the trap
            stmt: statement that is executed
            frame: lanes that execute it
            bad: for each lane, True if it traps
            say: function that returns the reason, given the position of the lane in the frame
            cure: what the user can do
        """
        if np.any(bad):
            position = 0 if np.ndim(bad) == 0 else int(np.argmax(bad))
            self.trap(kind, stmt, frame, position, say(position), cure)

    def trap(
        self, kind: type[StackgradError], stmt: Stmt, frame: LaneFrame, position: int, reason: str, cure: str = ""
    ) -> NoReturn:
        """Raise a located error for the lane at a position of the frame."""
        point = self.chunk.point(int(frame.numbers()[position]))
        raise trap(kind, TrapPlace(self.program.kernel, self.chunk.task, point), stmt, reason, cure)


def lane_element(vector: LaneVector, position: int) -> Any:
    """Return one lane's value of a vector as a Python number, for error messages."""
    return vector.item() if vector.ndim == 0 else vector[position].item()
