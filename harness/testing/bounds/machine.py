"""This module extends the interpreter of the reference: it computes an error bound beside each value.

The error of value %k lies under the key ~k in the dictionary of the same frame, so narrowing, merging and gathering of
lanes are those of the reference. An error is one f64 per lane, or a 0-d value. `ZERO`, recognized by identity, says
that every executor has exactly this value in all lanes. The error of an integer or a boolean is 0 (certain) or infinite
(uncertain). A value that is NaN or infinite and has a finite error is NaN or infinite in every executor.

Once poisoned, the machine continues as the plain reference: values stay right, errors are void.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.nodes import STATEMENTS
from ....compiler.ir.printer import print_statement
from ....compiler.ir.roles import BLOCKS, LOOPS
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.table import Table
from ....compiler.ir.types import Scalar
from ....compiler.ir.walk import walk_kernel
from ....reference.frame import LaneFrame, LaneVector
from ....reference.machine import RUN, Chunk, Machine, PreparedKernel
from ....reference.storage import ChunkLocal, Rows
from ....reference.traps import TrapPlace
from .ledger import Ledger, NotePlan, plan_task
from .roundoff import OperationBound, plan_operation
from .rules import ZERO
from .slots import Slots

Handler = Callable[["BoundedMachine", Any, LaneFrame], LaneFrame | None]

BOUNDED: Table[type[Stmt], Handler] = Table(
    "bounds.run",
    STATEMENTS.values(),
    dict.fromkeys(BLOCKS, "lower_blocks removes it before bounds are computed"),
    about="how the statement runs when each value carries a bound of its error",
)


class BoundedKernel(PreparedKernel):
    """A `BoundedKernel` is a kernel prepared for runs with error bounds, with precomputed facts about its loops.

    Attributes:
        decisive: ids of the values that end a `while`.
        stops: names of the locals that end a loop.
        plans: what each task must note about the order of iterations.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        loops = [s for s in walk_kernel(kernel) if isinstance(s, LOOPS)]
        self.decisive = {s.test.id for s in loops if isinstance(s, n.While)}
        self.stops = {s.stop for s in loops if s.stop is not None}
        self.plans: list[NotePlan] = [plan_task(kernel, task, self.used) for task in kernel.tasks]


@dataclass
class BoundedChunk(Chunk):
    """A `BoundedChunk` is a chunk of iterations together with the error bounds of their locals and adstacks.

    An entry is absent if all its errors are zero.
    """

    local_errors: dict[str, ChunkLocal] = field(default_factory=dict)
    row_errors: dict[str, Rows] = field(default_factory=dict)
    slot_errors: dict[str, Slots] = field(default_factory=dict)


@dataclass
class BoundedMachine(Machine):
    """A `BoundedMachine` is an interpreter, during one run, that computes an error bound beside each value.

    Attributes:
        errors: errors of memory, by array, flat; absent where all are zero.
        scalar_errors: errors of scalar arguments.
        precise: True if executors do not contract and approximate nothing that IEEE defines.
        poisoned: the reason why errors mean nothing, or None.
        trips: the number of loop bodies that were started, once for all lanes.
        table: the handlers of statements.
        ledgers: the notes on arrays in the current task.
    """

    errors: dict[str, LaneVector] = field(default_factory=dict)
    scalar_errors: Mapping[str, float] = field(default_factory=dict)
    precise: bool = True
    poisoned: str | None = None
    trips: int = 0
    table: Table[type[Stmt], Any] = field(default_factory=lambda: BOUNDED)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    _operations: dict[tuple[str, str], OperationBound] = field(default_factory=dict)

    def run(self, block: Block, frame: LaneFrame | None) -> LaneFrame | None:
        """Execute a block with handlers that also compute errors; return the lanes that continue after the block."""
        if frame is None:
            return None
        super().burn(block)
        for stmt in block:
            frame = self.table[type(stmt)](self, stmt, frame)
            if frame is None:
                return None
        return frame

    def burn(self, block: Block) -> None:
        """Count a trip of a loop, and deduct the statements of its body from the limit of executed statements."""
        self.trips += 1
        super().burn(block)

    def operation(self, name: str, dtype: Scalar) -> OperationBound:
        """Return the rule that bounds the result of an operation whose last operand has this type."""
        key = name, dtype.name
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = plan_operation(name, dtype, self.precise)
        return found

    @property
    def owned(self) -> BoundedChunk:
        """Return the chunk of iterations that is being executed."""
        assert isinstance(self.chunk, BoundedChunk)
        return self.chunk

    @property
    def bounded(self) -> BoundedKernel:
        """Return the kernel that is being executed, with the facts about its loops that error bounds use."""
        assert isinstance(self.program, BoundedKernel)
        return self.program

    def poison(self, reason: str, stmt: Stmt | None = None, frame: LaneFrame | None = None, bad: Any = None) -> None:
        """Mark the run as poisoned: error bounds are void, because correct executions may take different paths.

        Args:
            reason: the cause, for messages.
            stmt: the statement that is to blame.
            frame: the lanes that executed it.
            bad: a mask of the lanes to blame.
        """
        if self.poisoned is None:
            self.poisoned = self._describe(reason, stmt, frame, bad)
            # From now on the plain handlers run, which do not touch errors.
            self.table = RUN

    def _describe(self, reason: str, stmt: Stmt | None, frame: LaneFrame | None, bad: Any) -> str:
        kernel = self.program.kernel
        point: tuple[int, ...] = ()
        if frame is not None:
            position = int(np.argmax(bad)) if np.ndim(bad) else 0
            point = self.chunk.point(int(frame.numbers()[position]))
        text = f"{reason}, {TrapPlace(kernel, self.chunk.task, point)}"
        if stmt is None:
            return text
        span = kernel.span(stmt.loc)
        where = f"{span.file}:{span.line}: " if span else ""
        return f"{where}{text}, at `{print_statement(stmt).splitlines()[0]}`"

    def need(self, stmt: Stmt, frame: LaneFrame, value: Value, what: str) -> None:
        """Mark the run as poisoned if the value is inexact in some lane, because the statement needs an exact value."""
        e = error(frame, value)
        if e is not ZERO and e.any():
            self.poison(f"{what} is within its error bound of a jump", stmt, frame, e)


def error(frame: LaneFrame, value: Value) -> Any:
    """Return the error bound of a value in the lanes of a frame; loop indices and trip counts are exact."""
    key = ~value.id
    found: Any = frame.values.get(key)
    if found is None:
        # An inner frame has other lanes, so the errors of an outer value are gathered for them once and kept.
        found = ZERO if frame.parent is None else frame.gather(error(frame.parent, value))
        frame.values[key] = found
    return found


def define(m: BoundedMachine, s: Any, frame: LaneFrame, e: LaneVector) -> None:
    """Record the error bound of the result of a statement."""
    frame.values[~s.result.id] = e
    if e is not ZERO and s.result.id in m.bounded.decisive and e.any():
        m.poison("the condition of a loop is within its error bound of a jump", s, frame, e)
