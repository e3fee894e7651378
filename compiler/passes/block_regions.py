"""This module splits the body of a task with blocks into phases, the parts that iterations run without one another.

    A; sync block; for k { B; sync block; C }      →      A | sync | for k { B | sync | C }

Between two phases stands a *meeting*: a barrier, or a collective that exchanges values. Control flow around a meeting
must be the same in all iterations of a block, which is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..analysis.uniformity import Uniformity
from ..errors import Diagnostic, Unsupported
from ..ir import nodes as n
from ..ir.collectives import COLLECTIVES, SYNCS
from ..ir.kernels import Kernel, Task
from ..ir.roles import CONSTANTS, LOCAL_DECLARATIONS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import RESULTS, blocks, operands, results, walk

CONTROL_CURE = (
    "let all iterations of the block come to it: move it out of the branch or loop, and choose values with `sg.select`"
)


@dataclass(eq=False)
class Phase:
    """A `Phase` is a sequence of statements that an iteration runs without the others of its block."""

    body: list[Stmt]


@dataclass(eq=False)
class UniformControl:
    """An `UniformControl` is a branch or loop around meetings; all iterations of a block take it alike.

    Attributes:
        stmt: the statement.
        parts: regions of each of its blocks, in their order.
    """

    stmt: n.If | n.For | n.While
    parts: tuple[list[Region], ...]


Region = Phase | UniformControl | n.Sync | n.Collective


def refuse_draws(kernel: Kernel) -> Kernel:
    """Return the kernel, whose tasks with blocks draw no random numbers.

    Raises:
        Unsupported: a task with blocks draws random numbers, whose keys would depend on how a backend runs blocks.
    """
    found = [s for task in kernel.tasks if task.block for s in walk(task.body) if isinstance(s, n.Random)]
    reason = "random numbers are not drawn in a loop that uses blocks"
    cure = "draw them in a loop of their own, and store them to a field"
    if found:
        raise Unsupported([Diagnostic(reason, cure, kernel.span(stmt.loc)) for stmt in found])
    return kernel


def is_meeting(stmt: Stmt) -> bool:
    """Return True if iterations of a block come together at the statement itself."""
    if isinstance(stmt, n.Sync):
        return SYNCS[stmt.kind]
    return isinstance(stmt, n.Collective) and COLLECTIVES[stmt.op].exchanges


class TaskRegions:
    """This class holds the regions of one task, and which values and locals cross from one region to another.

    Attributes:
        regions: regions of the body.
        shared: declarations of shared arrays.
        portable: definitions of values that each phase computes anew, because that is cheap.
        kept: values that are stored in one phase and read in another region.
        locals: declarations of locals and local arrays that several regions use.
        uniform: values that are equal in all iterations of a block.
        foreign: values that the body reads and earlier tasks define.
    """

    def __init__(self, kernel: Kernel, task: Task) -> None:
        self.kernel = kernel
        self.task = task
        self.shared: list[n.SharedArray] = []
        self.portable: dict[Value, Stmt] = {}
        self.uniform = Uniformity(task, linear=False)
        inside = list(walk(task.body))
        made = {v for stmt in inside for v in RESULTS[type(stmt)](stmt)} | {
            s.index for s in inside if isinstance(s, n.For)
        }
        self.foreign = {v for stmt in inside for v in operands(stmt)} - made - set(task.indices)
        self._portable_inputs = {*task.indices, *self.foreign}
        self._homes: dict[Value | str, Phase | None] = {}
        self._uses: dict[Value | str, set[Phase | None]] = {}
        self._declared: dict[str, n.Local | n.LocalArray] = {}
        self._problems: list[Diagnostic] = []
        self.regions = self._split(task.body, 0)
        self._refuse()
        crossing = {key for key, uses in self._uses.items() if key in self._homes and uses - {self._homes[key]}}
        self.kept = {v for v in crossing if isinstance(v, Value) and v not in self.portable}
        self.locals = {name: stmt for name, stmt in self._declared.items() if name in crossing}

    def _refuse(self) -> None:
        if self._problems:
            raise Unsupported(self._problems)

    def _problem(self, reason: str, cure: str, stmt: Stmt) -> None:
        self._problems.append(Diagnostic(reason, cure, self.kernel.span(stmt.loc)))

    # -- the tree -------------------------------------------------------------------------------------------

    def _split(self, block: Block, depth: int) -> list[Region]:
        found: list[Region] = []
        for stmt in block:
            if isinstance(stmt, n.SharedArray):
                self._share(stmt, depth)
                continue
            region = self._meeting(stmt, depth)
            if region is not None:
                found.append(region)
                continue
            if not found or not isinstance(found[-1], Phase):
                found.append(Phase([]))
            phase = found[-1]
            assert isinstance(phase, Phase)
            phase.body.append(stmt)
            self._enter(phase, stmt)
        return found

    def _share(self, stmt: n.SharedArray, depth: int) -> None:
        if depth:
            reason = f"the shared array `{stmt.var}` is made in a branch or loop"
            self._problem(reason, "make it at the head of the parallel loop", stmt)
        self.shared.append(stmt)

    def _meeting(self, stmt: Stmt, depth: int) -> Region | None:
        """Return the region of a meeting, or of control flow around meetings; None for any other statement."""
        if is_meeting(stmt):
            assert isinstance(stmt, (n.Sync, n.Collective))
            self._use(operands(stmt), None)
            for value in results(stmt):
                self._homes[value] = None
                self._uses.setdefault(value, set())
                self._always(value)
            return stmt
        inside = next(_meetings(stmt), None)
        if inside is None:
            for inner in walk((stmt,)):
                if isinstance(inner, n.SharedArray):
                    self._share(inner, depth + 1)
            return None
        assert isinstance(stmt, (n.If, n.For, n.While))
        if self.uniform.diverges(stmt):
            reason = f"{_described(inside)} stands where iterations of one block may part: {_cause(stmt)}"
            self._problem(reason, CONTROL_CURE, inside)
        return self._control(stmt, depth)

    def _control(self, stmt: n.If | n.For | n.While, depth: int) -> UniformControl:
        if isinstance(stmt, n.For):
            self._portable_inputs.add(stmt.index)
        parts = tuple(self._split(inner, depth + 1) for inner in blocks(stmt))
        self._use(operands(stmt), None)
        if not isinstance(stmt, n.If):
            self._portable_inputs |= {stmt.trips} if stmt.trips is not None else set()
            if stmt.stop is not None:
                self._uses.setdefault(stmt.stop, set()).add(None)
        return UniformControl(stmt, parts)

    # -- what crosses ---------------------------------------------------------------------------------------

    def _always(self, value: Value) -> None:
        """Record that the value of a collective is always read from memory."""
        self._uses[value].add(Phase([]))

    def _use(self, values: tuple[Value, ...], phase: Phase | None) -> None:
        for value in values:
            self._uses.setdefault(value, set()).add(phase)

    def _enter(self, phase: Phase, stmt: Stmt) -> None:
        """Record what a statement of a phase defines and uses."""
        for value in results(stmt):
            self._homes[value] = phase
        if isinstance(stmt, LOCAL_DECLARATIONS):
            self._homes[stmt.var] = phase
            assert isinstance(stmt, (n.Local, n.LocalArray))
            self._declared[stmt.var] = stmt
        if self._is_portable(stmt):
            self.portable[results(stmt)[0]] = stmt
        for inner in walk((stmt,)):
            self._use(operands(inner), phase)
            for name in (getattr(inner, "var", None), getattr(inner, "stop", None)):
                if name is not None:
                    self._uses.setdefault(name, set()).add(phase)

    def _is_portable(self, stmt: Stmt) -> bool:
        if isinstance(stmt, (*CONSTANTS, n.Collective)):
            return True
        cheap = isinstance(stmt, (n.Op, n.Cast, n.BitCast, n.Within)) and not stmt.result.type.is_real
        return cheap and all(v in self.portable or v in self._portable_inputs for v in operands(stmt))


def _meetings(stmt: Stmt) -> Iterator[Stmt]:
    return (inner for inner in walk((stmt,)) if is_meeting(inner))


def _described(stmt: Stmt) -> str:
    """Return words for a meeting in messages."""
    if isinstance(stmt, n.Sync):
        return f"a barrier of the {stmt.kind}"
    assert isinstance(stmt, n.Collective)
    return f"`{stmt.op}` of a {'block' if COLLECTIVES[stmt.op].of_block else 'subgroup'}"


def _cause(stmt: n.If | n.For | n.While) -> str:
    if isinstance(stmt, n.If):
        return "a condition around it may differ between them"
    return "the number of trips of a loop around it may differ between them"


def read_values(phase: Phase) -> list[Value]:
    """Return the values that a phase reads and does not define, in order of their ids."""
    inside = list(walk(tuple(phase.body)))
    made = {v for stmt in inside for v in results(stmt)}
    return sorted({v for stmt in inside for v in operands(stmt)} - made, key=lambda v: v.id)
