"""Compute intervals of the integers of a task in one launch, whose arguments and shapes are given.

    for i in t .. t + 1 with t = 5:    i: [5, 5]    i + 1: [6, 6]    (i + 1) mod 3: [0, 2]

Intervals are found on demand, from a value back to the arguments, because a launch asks for few values. Locals and
array elements are not followed: the interval of such a value is that of its type. The index of a loop is bounded by the
intervals of the loop's ends, and it is empty if the loop does not run.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.statement import Stmt, Value
from ..ir.walk import operands, results, walk_task
from .interval_rules import cast_interval, constant_interval, operation_interval
from .intervals import Number, NumberInterval, index_interval, point, type_interval


class LaunchRanges:
    """Compute the intervals of the integers of one task in one launch.

    Attributes:
        scalars: values of arguments by name; of any other argument, only the type is known.
        shapes: extents by name of the array.
        made: the statement that defines each value.
        known: the intervals found so far.
    """

    def __init__(self, task: Task, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.scalars = scalars
        self.shapes = shapes
        self.made: dict[Value, Stmt] = {v: s for s in walk_task(task) for v in results(s)}
        self.known: dict[Value, NumberInterval] = {}
        for index, begin, end in zip(task.indices, task.begin, task.end):
            self.known[index] = index_interval(self.of(begin), self.of(end), 1, operator.add)

    def of(self, value: Value) -> NumberInterval:
        """Return the interval of a value in one launch; for a real or boolean, return the interval of its type."""
        pending = [] if value in self.known else [value]
        # Operands come first, without recursion: a chain of sums may be longer than the stack of the interpreter.
        while pending:
            stmt = self.made.get(pending[-1])
            inputs = operands(stmt) if isinstance(stmt, (n.Op, n.Cast, n.Within, n.For)) else ()
            missing = [v for v in inputs if v.type.is_int and v not in self.known]
            if not missing:
                self.known[pending[-1]] = self._find(pending[-1])
                pending.pop()
            pending += missing
        return self.known[value]

    def _operand(self, value: Value) -> NumberInterval:
        return self.known.get(value) or type_interval(value.type)

    def _find(self, value: Value) -> NumberInterval:
        """Return the interval of a value whose operands are known."""
        stmt = self.made.get(value)
        if not value.type.is_int:
            return type_interval(value.type)
        if isinstance(stmt, n.Const):
            return constant_interval(stmt)
        if isinstance(stmt, n.Arg) and stmt.name in self.scalars:
            return point(int(self.scalars[stmt.name]))
        if isinstance(stmt, n.Shape):
            return point(self.shapes[stmt.array][stmt.axis])
        if isinstance(stmt, n.Cast):
            return cast_interval(self._operand(stmt.arg), stmt.arg.type, value.type)
        if isinstance(stmt, n.Within):
            return self._operand(stmt.index)
        if isinstance(stmt, n.For) and value == stmt.index:
            return index_interval(self._operand(stmt.begin), self._operand(stmt.end), stmt.step, operator.add)
        if isinstance(stmt, n.Op):
            return operation_interval(stmt, [self._operand(v) for v in stmt.args])
        return type_interval(value.type)
