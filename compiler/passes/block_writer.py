"""This module writes the regions of a task with blocks as ordinary statements; its subclasses decide who runs a phase.

    A; sync block; B      →      one loop over the block runs A, another one B          (lower_blocks)
                          →      each thread runs `if active { A }; sync; if active { B }`   (thread_blocks)

Values and locals that cross from one region to another lie in *cells*, one for each iteration of the block. Control
flow around meetings reads the cell of the first iteration, because all iterations agree.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.fresh import FreshNames
from ..ir.kernels import Kernel, Task
from ..ir.roles import CONSTANTS, VALUES
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar, i32, i64, u1
from ..ir.walk import NESTED, map_blocks, operands, rename_operands, results, walk
from .block_regions import Phase, Region, TaskRegions, UniformControl, read_values


@dataclass
class PhaseScope:
    """A `PhaseScope` maps what a phase reads of other regions to what stands for it in the phase.

    Attributes:
        values: copies of values.
        names: copies of locals.
    """

    values: dict[Value, Value] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class TaskBox:
    """A `TaskBox` holds the values that describe the box of a task, emitted into a builder.

    Attributes:
        begin: first index of each axis.
        extents: extent of each axis, as i64.
        total: number of iterations, as i64.
    """

    def __init__(self, b: Builder, task: Task) -> None:
        known: dict[Value, Value] = {}
        for stmt in task.bounds:
            (result,) = results(stmt)
            known[result] = b.fresh(result.type)
            b.emit(replace(rename_operands(stmt, known), result=known[result]))  # type: ignore[call-arg]
        self.begin = [known.get(v, v) for v in task.begin]
        zero = b.const(0, i64)
        self.extents = [
            b.op("max", b.op("sub", b.cast(known.get(e, e), i64), b.cast(known.get(s, s), i64)), zero)
            for s, e in zip(task.begin, task.end)
        ]
        self.total = self.extents[0]
        for extent in self.extents[1:]:
            self.total = b.op("mul", self.total, extent)

    def indices(self, b: Builder, task: Task, place: Value) -> dict[Value, Value]:
        """Return the index of each axis for the iteration whose row-major number is `place`, an integer."""
        found: dict[Value, Value] = {}
        rest = place
        for k in reversed(range(len(task.indices))):
            digit = rest
            if k:
                rest = b.cast(rest, i64)
                digit, rest = b.op("mod", rest, self.extents[k]), b.op("floordiv", rest, self.extents[k])
            index = task.indices[k]
            found[index] = b.op("add", self.begin[k], b.cast(digit, index.type))
        return found


def computes_bounds_anew(task: Task) -> bool:
    """Return True if the bounds of a task follow from arguments and extents alone."""
    return all(isinstance(stmt, VALUES) for stmt in task.bounds)


class BlockWriter(FreshNames):
    """This base class writes the body of one task with blocks.

    Attributes:
        task: the task.
        size: number of iterations of a block.
        r: regions of the task.
        b: builder of the new body.
        fixed: values that exist outside phases, such as indices of loops around meetings.
        cells: name of the memory of each value, local or local array that crosses regions.
    """

    def __init__(self, kernel: Kernel, task: Task) -> None:
        super().__init__(kernel)
        self.task, self.size = task, task.block
        self.r = TaskRegions(kernel, task)
        self.b = self.builder(task.loc)
        # What an earlier task of a source kernel has computed is there for the whole task.
        self.fixed = self.r.foreign
        self.cells: dict[Value | str, str] = {}

    # -- what a subclass decides ------------------------------------------------------------------------------

    @abstractmethod
    def each(self, run: Callable[[], None]) -> None:
        """Emit code that runs what `run` emits for each iteration of the block."""

    @abstractmethod
    def declare_cells(self, name: str, dtype: Scalar) -> None:
        """Emit the declaration of a cell for each iteration, zero at first."""

    @abstractmethod
    def read_cell(self, name: str, dtype: Scalar) -> Value:
        """Emit a read of the cell of the current iteration."""

    @abstractmethod
    def write_cell(self, name: str, value: Value) -> None:
        """Emit a write of the cell of the current iteration."""

    @abstractmethod
    def first_cell(self, name: str, dtype: Scalar) -> Value:
        """Emit, outside phases, a read of the cell of the first iteration of the block."""

    @abstractmethod
    def indices(self) -> dict[Value, Value]:
        """Emit the loop indices of the current iteration."""

    @abstractmethod
    def position(self, op: str) -> Value:
        """Emit where the current iteration stands in its block; `op` is one of POSITIONS."""

    @abstractmethod
    def meeting(self, stmt: n.Sync | n.Collective) -> None:
        """Emit a meeting of the iterations of the block."""

    @abstractmethod
    def block_statement(self, stmt: Any, scope: PhaseScope) -> bool:
        """Emit a statement on shared memory inside a phase; return False for any other statement."""

    @abstractmethod
    def declare_array(self, stmt: n.LocalArray) -> None:
        """Emit the declaration of a local array for each iteration."""

    # -- regions ----------------------------------------------------------------------------------------------

    def regions(self, regions: list[Region]) -> None:
        """Emit regions in order."""
        for region in regions:
            if isinstance(region, Phase):
                self._phase(region)
            elif isinstance(region, UniformControl):
                self._control(region)
            else:
                self.b.loc = region.loc
                self.meeting(region)

    def _inside(self, regions: list[Region]) -> Block:
        with self.b.block() as body:
            self.regions(regions)
        return tuple(body)

    def _control(self, region: UniformControl) -> None:
        stmt = region.stmt
        self.b.loc = stmt.loc
        if isinstance(stmt, n.If):
            cond = self.uniform(stmt.cond)
            then, orelse = (self._inside(part) for part in region.parts)
            self.b.emit(n.If(cond, then, orelse, loc=stmt.loc))
            return
        stop = self._stop(stmt)
        if isinstance(stmt, n.For):
            begin, end = self.uniform(stmt.begin), self.uniform(stmt.end)
            self.fixed.add(stmt.index)
            body = self._body(region.parts[0], stmt, stop)
            self.b.emit(replace(stmt, begin=begin, end=end, body=body, stop=stop))
        else:
            with self.b.block() as condition:
                self.regions(region.parts[0])
                test = self.uniform(stmt.test)
            body = self._body(region.parts[1], stmt, stop)
            self.b.emit(replace(stmt, condition=tuple(condition), test=test, body=body, stop=stop))
        if stmt.trips is not None:
            self.fixed.add(stmt.trips)

    def _stop(self, stmt: n.For | n.While) -> str | None:
        """Declare a local outside phases for the stop flag of a loop around meetings, and return its name."""
        if stmt.stop is None:
            return None
        name = self.name(stmt.stop)
        self.b.emit(n.Local(name, u1, loc=stmt.loc))
        return name

    def _body(self, regions: list[Region], stmt: n.For | n.While, stop: str | None) -> Block:
        with self.b.block() as body:
            self.regions(regions)
            if stop is not None and stmt.stop is not None:
                self.b.set(stop, self.first_cell(self.cells[stmt.stop], u1))
        return tuple(body)

    def uniform(self, value: Value) -> Value:
        """Return, outside phases, a value on which all iterations of the block agree."""
        if value in self.fixed:
            return value
        if value in self.r.portable and self.r.uniform.is_uniform(value):
            return self._anew(value, {})
        return self.first_cell(self.cells[value], value.type)

    # -- phases -----------------------------------------------------------------------------------------------

    def _phase(self, phase: Phase) -> None:
        for stmt in phase.body:
            self.b.loc = stmt.loc
            for value in results(stmt):
                if value in self.r.kept:
                    self.declare_value(value)
            if isinstance(stmt, n.LocalArray) and stmt.var in self.r.locals:
                self.declare_array(stmt)
            elif isinstance(stmt, n.Local) and stmt.var in self.r.locals:
                self.cells[stmt.var] = self.name(stmt.var)
                self.declare_cells(self.cells[stmt.var], stmt.dtype)
        self.each(lambda: self._run(phase))

    def declare_value(self, value: Value) -> str:
        """Declare the cells of a value and return their name."""
        name = self.cells[value] = self.name("cell")
        self.declare_cells(name, value.type)
        return name

    def _run(self, phase: Phase) -> None:
        """Emit the statements of a phase for the current iteration."""
        scope = PhaseScope()
        for value in read_values(phase):
            self.operand(value, scope.values)
        copied = self._copy_locals(phase, scope)
        for stmt in phase.body:
            self._statement(stmt, scope)
            for value in results(stmt):
                if value in self.r.kept:
                    self.write_cell(self.cells[value], scope.values.get(value, value))
        for var, copy in copied.items():
            self.write_cell(self.cells[var], self.b.get(copy, self.r.locals[var].dtype))

    def _copy_locals(self, phase: Phase, scope: PhaseScope) -> dict[str, str]:
        """Copy the cells of locals that a phase uses; return the name in the phase of each local to copy back."""
        inside = list(walk(tuple(phase.body)))
        used = {name for s in inside for name in (getattr(s, "var", None), getattr(s, "stop", None)) if name}
        written = {s.var for s in inside if isinstance(s, (n.Set, n.Local))}
        declared = {s.var for s in phase.body if isinstance(s, n.Local)}
        scalars = sorted(name for name in used if isinstance(self.r.locals.get(name), n.Local))
        for var in scalars:
            if var not in declared:
                dtype = self.r.locals[var].dtype
                scope.names[var] = self.name(var)
                self.b.emit(n.Local(scope.names[var], dtype, loc=self.b.loc))
                self.b.set(scope.names[var], self.read_cell(self.cells[var], dtype))
        return {var: scope.names.get(var, var) for var in scalars if var in written}

    def _statement(self, stmt: Stmt, scope: PhaseScope) -> None:
        self.b.loc = stmt.loc
        if isinstance(stmt, n.Collective):
            scope.values[stmt.result] = self.position(stmt.op)
        elif isinstance(stmt, n.LocalArray) and stmt.var in self.r.locals or self.block_statement(stmt, scope):
            return
        elif type(stmt) in NESTED:
            nested = map_blocks(stmt, lambda inner: self._nested(inner, scope))
            self.b.emit(self.renamed(nested, scope))
        else:
            self.b.emit(self.renamed(stmt, scope))

    def _nested(self, block: Block, scope: PhaseScope) -> Block:
        with self.b.block() as body:
            for stmt in block:
                self._statement(stmt, scope)
        return tuple(body)

    def plain_update(self, stmt: n.UpdateElement, scope: PhaseScope) -> None:
        """Emit an update of an element of a shared array that no other iteration accesses at the same time."""
        index, value = (scope.values.get(v, v) for v in (stmt.index, stmt.value))
        self.b.emit(n.GetElement(stmt.result, stmt.var, index, loc=stmt.loc))
        new = value if stmt.op == "exchange" else self.b.op(stmt.op, stmt.result, value)
        self.b.set_element(stmt.var, index, new)

    def renamed(self, stmt: Stmt, scope: PhaseScope) -> Stmt:
        """Return a statement that refers to the copies of values and locals in a phase."""
        stmt = rename_operands(stmt, scope.values)
        changes: dict[str, Any] = {}
        for attribute in ("var", "stop"):
            copy = scope.names.get(getattr(stmt, attribute, None) or "")
            if copy is not None:
                changes[attribute] = copy
        return replace(stmt, **changes) if changes else stmt

    # -- values -----------------------------------------------------------------------------------------------

    def operand(self, value: Value, known: dict[Value, Value]) -> Value:
        """Return a value of another region inside a phase, computed anew or read from its cell."""
        if value in self.fixed:
            return value
        if value not in known:
            if value in self.task.indices:
                known.update(self.indices())
            elif value in self.r.portable:
                known[value] = self._anew(value, known)
            else:
                known[value] = self.read_cell(self.cells[value], value.type)
        return known[value]

    def _anew(self, value: Value, known: dict[Value, Value]) -> Value:
        """Emit a copy of the definition of a portable value, and return the copy."""
        if value in self.fixed:
            return value
        if value in known:
            return known[value]
        stmt = self.r.portable[value]
        if isinstance(stmt, n.Collective):
            return self.position(stmt.op)
        if isinstance(stmt, n.Within):
            # The index was compared where the statement itself ran.
            return self._part(stmt.index, known)
        copies = {v: self._part(v, known) for v in operands(stmt)} if not isinstance(stmt, CONSTANTS) else {}
        made = self.b.fresh(value.type)
        self.b.emit(replace(rename_operands(stmt, copies), result=made))  # type: ignore[call-arg]
        known[value] = made
        return made

    def _part(self, value: Value, known: dict[Value, Value]) -> Value:
        return self._anew(value, known) if value in self.r.portable else self.operand(value, known)


def lanes_of(b: Builder, size: int) -> Value:
    """Return the number of lanes of a group as an i32 constant."""
    return b.const(size, i32)
