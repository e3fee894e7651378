"""This module finds the values, locals, loops and adstacks of a task that are equal in all lanes (uniform).

A uniform value is the same in every lane that is active where the value is defined; code keeps it as a scalar. Control
is uniform relative to a declaration if no condition or trip count between the two differs by lane. A local is uniform
if every value set is, and every set stands under control that is uniform relative to its declaration; likewise the
contents of a local array and of an adstack. An adstack is ragged if its depth may differ by lane: then some push, pop
or declaration stands under other control than the first declaration.

Everything is uniform until shown to vary, and the rules run until nothing changes. A varying value may still be linear:
value of lane k = value of lane 0 + stride * k, modulo the width of its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import nodes as n
from ..ir.collectives import COLLECTIVES
from ..ir.kernels import Task
from ..ir.nodes import STATEMENTS
from ..ir.roles import EXITS
from ..ir.statement import Block, Stmt, Value
from ..ir.table import Table
from ..ir.walk import operands, results, walk

UniformityRule = Callable[["Uniformity", Any], None]
RULES: Table[type[Stmt], UniformityRule] = Table(
    "uniform",
    STATEMENTS.values(),
    holes={cls: "removed before masks are made" for cls in EXITS},
    about="which results and places may differ by lane",
)


class Uniformity:
    """Hold the values, locals and adstacks of a task that may differ between lanes.

    The argument `linear` says that the last index of the task advances by one from lane to lane and the others are
    uniform, as in blocks whose iterations differ in the last index only; otherwise all indices vary in no known way.

    Attributes:
        varying: Values that may differ by lane.
        changing: Locals and local arrays that may differ by lane.
        shared: Arrays that all lanes of a block share, so that one element is equal in all lanes.
        ragged: Adstacks whose depth may differ by lane.
        mixed: Adstacks whose contents may differ by lane.
        strides: Strides of linear values.
        read: Values that some statement reads.
    """

    def __init__(self, task: Task, linear: bool) -> None:
        self.varying: set[Value] = set(task.indices[-1:] if linear else task.indices)
        self.changing: set[str] = set()
        self.shared: set[str] = set()
        self.ragged: set[str] = set()
        self.mixed: set[str] = set()
        self.strides: dict[Value, int] = {}
        self.read = {v for s in walk(task.body) for v in operands(s)}
        self._levels: dict[str, int] = {}
        self._level = 0
        self._settle(task.body)
        if linear:
            _Strides(self, task)

    def is_uniform(self, *values: Value) -> bool:
        """Return True if each of the values is equal in all active lanes."""
        return self.varying.isdisjoint(values)

    def diverges(self, stmt: n.If | n.For | n.While) -> bool:
        """Return True if lanes that reach the statement together may take different branches or trip counts."""
        if isinstance(stmt, n.If):
            return stmt.cond in self.varying
        inputs = (stmt.begin, stmt.end) if isinstance(stmt, n.For) else (stmt.test,)
        return stmt.stop in self.changing or not self.is_uniform(*inputs)

    # -- the fixed point ------------------------------------------------------------------------------------

    def _size(self) -> int:
        """Return the number of values and names found to differ between lanes, to see if it still grows."""
        return len(self.varying) + len(self.changing) + len(self.ragged) + len(self.mixed)

    def _settle(self, body: Block) -> None:
        """Apply the rules to a block repeatedly until no more values are found to differ between lanes."""
        before = -1
        while before != self._size():
            before = self._size()
            # Levels are found anew in each pass, because a branch may have become divergent.
            self._levels.clear()
            self.block(body, 0)

    def block(self, body: Block, deeper: int) -> None:
        """Apply the rules to a block that is nested in `deeper` further divergent branches."""
        self._level += deeper
        for stmt in body:
            RULES[type(stmt)](self, stmt)
        self._level -= deeper

    def declare(self, name: str) -> bool:
        """Record the nesting level of a name's declaration; return False if it was declared at another level before."""
        return self._levels.setdefault(name, self._level) == self._level

    def diverged(self, name: str) -> bool:
        """Return True if other divergent branches surround this point than the declaration of a name."""
        return self._levels[name] != self._level

    def vary(self, stmt: Stmt) -> None:
        """Record that the results of a statement differ between lanes."""
        self.varying.update(results(stmt))


# ---- values and memory --------------------------------------------------------------------------------------


@RULES.row(n.Const, n.Arg, n.Shape, n.Op, n.Cast, n.BitCast, n.Load)
def _function_of_operands(u: Uniformity, stmt: Stmt) -> None:
    """Record that the result of a statement differs between lanes if one of its operands does."""
    if not u.is_uniform(*operands(stmt)):
        u.vary(stmt)


@RULES.row(n.Within)
def _within(u: Uniformity, stmt: n.Within) -> None:
    """Record that the result of a `within`, an index check, differs between lanes if the index does."""
    if not u.is_uniform(stmt.index):
        u.vary(stmt)


@RULES.row(n.Random, n.Atomic)
def _differs(u: Uniformity, stmt: Stmt) -> None:
    u.vary(stmt)


@RULES.row(n.Store, n.Assert, n.Print)
def _nothing(u: Uniformity, stmt: Stmt) -> None:
    return


@RULES.row(n.Local, n.LocalArray)
def _local(u: Uniformity, stmt: n.Local | n.LocalArray) -> None:
    if not u.declare(stmt.var):
        u.changing.add(stmt.var)


@RULES.row(n.Get, n.GetElement)
def _get(u: Uniformity, stmt: n.Get | n.GetElement) -> None:
    if stmt.var in u.changing - u.shared or not u.is_uniform(*operands(stmt)):
        u.vary(stmt)


@RULES.row(n.Set, n.SetElement)
def _set(u: Uniformity, stmt: n.Set | n.SetElement) -> None:
    if u.diverged(stmt.var) or not u.is_uniform(*operands(stmt)):
        u.changing.add(stmt.var)


# ---- blocks -------------------------------------------------------------------------------------------------


@RULES.row(n.SharedArray)
def _shared_array(u: Uniformity, stmt: n.SharedArray) -> None:
    u.declare(stmt.var)
    u.shared.add(stmt.var)


@RULES.row(n.UpdateElement)
def _update_element(u: Uniformity, stmt: n.UpdateElement) -> None:
    u.vary(stmt)


@RULES.row(n.Sync)
def _sync(u: Uniformity, stmt: n.Sync) -> None:
    return


@RULES.row(n.Collective)
def _collective(u: Uniformity, stmt: n.Collective) -> None:
    if not COLLECTIVES[stmt.op].is_uniform:
        u.vary(stmt)


# ---- control ------------------------------------------------------------------------------------------------


@RULES.row(n.If)
def _if(u: Uniformity, stmt: n.If) -> None:
    deeper = int(u.diverges(stmt))
    u.block(stmt.then, deeper)
    u.block(stmt.orelse, deeper)


@RULES.row(n.For)
def _for(u: Uniformity, stmt: n.For) -> None:
    """Record that the loop index differs between lanes if the begin does, and the trip count if the loop diverges."""
    deeper = u.diverges(stmt)
    # Lanes in the same round of a loop have the same index if they began with the same one; a descending loop counts
    # its rounds from the end, so this holds there too.
    if stmt.begin in u.varying:
        u.varying.add(stmt.index)
    if deeper and stmt.trips is not None:
        u.varying.add(stmt.trips)
    u.block(stmt.body, int(deeper))


@RULES.row(n.While)
def _while(u: Uniformity, stmt: n.While) -> None:
    deeper = u.diverges(stmt)
    if deeper and stmt.trips is not None:
        u.varying.add(stmt.trips)
    u.block(stmt.condition, int(deeper))
    u.block(stmt.body, int(deeper))


# ---- adstacks -----------------------------------------------------------------------------------------------


@RULES.row(n.StackAlloca)
def _alloca(u: Uniformity, stmt: n.StackAlloca) -> None:
    if not u.declare(stmt.stack):
        u.ragged.add(stmt.stack)
    if stmt.stack in u.ragged:
        u.mixed.add(stmt.stack)


@RULES.row(n.StackPush, n.StackPop)
def _move(u: Uniformity, stmt: n.StackPush | n.StackPop) -> None:
    if u.diverged(stmt.stack):
        u.ragged.add(stmt.stack)
    if not u.is_uniform(*operands(stmt)):
        u.mixed.add(stmt.stack)


@RULES.row(n.StackTop, n.StackTopAdjoint)
def _top(u: Uniformity, stmt: n.StackTop | n.StackTopAdjoint) -> None:
    if stmt.stack in u.mixed:
        u.vary(stmt)


@RULES.row(n.StackAccumulate)
def _accumulate(u: Uniformity, stmt: n.StackAccumulate) -> None:
    if u.diverged(stmt.stack) or not u.is_uniform(stmt.value):
        u.mixed.add(stmt.stack)


# ---- linear forms -------------------------------------------------------------------------------------------


class _Strides:
    """Find the integers that differ by a constant between neighboring lanes.

    Attributes:
        u: The `Uniformity` of the task, to whose `strides` the results are added.
        exact: Values that are linear without wrapping, so that widening keeps them linear.
        constants: Constant integers, by value.
    """

    def __init__(self, u: Uniformity, task: Task) -> None:
        self.u = u
        self.exact = {task.indices[-1]}
        if task.indices[-1].type.is_signed:
            u.strides[task.indices[-1]] = 1
        self.constants: dict[Value, int] = {}
        for stmt in walk(task.body):
            self._visit(stmt)

    def _visit(self, stmt: Stmt) -> None:
        """Record the stride of a statement's result, which is its difference between neighboring lanes."""
        if isinstance(stmt, n.Const) and stmt.result.type.is_int:
            self.constants[stmt.result] = int(stmt.value)
        elif isinstance(stmt, (n.Op, n.Cast)) and stmt.result in self.u.varying and stmt.result.type.is_signed:
            found = self._op(stmt) if isinstance(stmt, n.Op) else self._cast(stmt)
            if found is not None:
                self.u.strides[stmt.result] = found
        elif isinstance(stmt, n.Within) and stmt.index in self.u.strides:
            self.u.strides[stmt.result] = self.u.strides[stmt.index]
            self.exact |= {stmt.result} if stmt.index in self.exact else set()
        elif isinstance(stmt, n.For) and stmt.begin in self.u.strides:
            self.u.strides[stmt.index] = self.u.strides[stmt.begin]

    def _stride(self, value: Value) -> int | None:
        """Return the difference of a value between neighboring lanes, 0 if it is uniform, or None if unknown."""
        return 0 if value not in self.u.varying else self.u.strides.get(value)

    def _op(self, stmt: n.Op) -> int | None:
        """Return the difference of an operation's result between neighboring lanes, or None if unknown."""
        strides = [self._stride(v) for v in stmt.args]
        if stmt.op == "unique":
            return strides[0]
        if stmt.op == "neg" and strides[0] is not None:
            return -strides[0]
        if stmt.op in ("add", "sub", "mul"):
            return self._binary(stmt, *strides)
        return None

    def _binary(self, stmt: n.Op, a: int | None, b: int | None) -> int | None:
        """Return the stride of a sum, difference or product of values with strides `a` and `b`; None if unknown."""
        if a is None or b is None:
            return None
        if stmt.op == "mul":
            p, q = (self.constants.get(v) for v in stmt.args)
            return a * q if q is not None else b * p if p is not None else None
        return a + b if stmt.op == "add" else a - b

    def _cast(self, stmt: n.Cast) -> int | None:
        """Return the stride of a cast's result, or None if the cast may wrap."""
        if not stmt.arg.type.is_signed:
            return None
        if stmt.arg in self.exact and stmt.result.type.bits >= stmt.arg.type.bits:
            self.exact.add(stmt.result)
        # A wider type does not wrap where the narrow one does, so the result need not be linear.
        elif stmt.result.type.bits > stmt.arg.type.bits:
            return None
        return self._stride(stmt.arg)
