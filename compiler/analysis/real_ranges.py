"""This module computes intervals for the values of a task that hold for any arguments and array contents.

    v = x[i]                                  v: anything
    for _ in range(n): v = sin(v)*0.95 + 0.01     v: anything in the first trip, [-0.95, 0.97] in every later one

The computation is an abstract execution: statements change a state (the interval of each local), branches join, and
loops run until nothing changes. Invariant: a value that is not NaN lies in its interval in every execution of the task.
The interval of a stack contains what is pushed anywhere, and 0, which an empty stack gives.

In addition there are intervals of a *usual* trip, for code that distinguishes usual trips from the rest. In an
innermost loop every trip but the first is usual. In a loop that takes history back, a trip is usual if it finds in its
stacks what usual trips pushed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.nodes import STATEMENTS
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.table import Table
from ..ir.walk import walk
from .interval_rules import cast_interval, constant_interval, operation_interval
from .intervals import (
    ALL,
    TRUTH,
    ZERO,
    Interval,
    NumberInterval,
    index_interval,
    is_empty,
    join,
    magnitude,
    meet,
    type_interval,
    widened,
)

Locals = dict[str, NumberInterval]
"""A state maps each local to its interval; a local array has one interval for all elements."""

STEPS = (0.0, 1.0 + 2.0**-10, 1.5, 3.0, 6.0, 100.0, 2.0**15)
"""If the interval of a local grows in a loop, its end is moved to the next of these numbers."""

PATIENCE = 3
"""After this number of runs of a loop, an end that still grows is assumed to be infinite."""


@dataclass
class RealRanges:
    """Hold the intervals of all values of a task, for all executions and for usual trips of loops.

    Attributes:
        always: intervals that hold whenever the value is computed.
        usual: intervals of values in innermost loops that hold in usual trips.
        assumed: largest magnitude that a usual trip finds on top of a stack, by the index of the loop, then by stack.
    """

    always: dict[Value, NumberInterval] = field(default_factory=dict)
    usual: dict[Value, NumberInterval] = field(default_factory=dict)
    assumed: dict[Value, dict[str, float]] = field(default_factory=dict)

    def reach(self, value: Value, usual: bool = False) -> float:
        """Return the largest magnitude that a value can have, in usual trips only if `usual`; infinity if unknown."""
        known = self.usual.get(value) if usual else None
        return magnitude(known or self.always.get(value, ALL))


def real_ranges(task: Task) -> RealRanges:
    """Return the intervals of the values of a task, repeating the analysis until the adstacks' intervals are stable."""
    analysis = _RangeAnalysis()
    while True:
        analysis.run(task)
        if not analysis.outdated:
            return analysis.found
        analysis.again()


def pops_history(loop: Stmt) -> bool:
    """Return True if the loop pops adstacks, so that it reads values that an earlier loop pushed."""
    return isinstance(loop, n.For) and any(isinstance(s, n.StackPop) for s in loop.body)


def is_innermost(loop: n.For | n.While) -> bool:
    """Return True if the loop contains no loop."""
    return not any(isinstance(s, LOOPS) for s in walk(loop.body))


def _joined(states: list[Locals]) -> Locals | None:
    """Return, for each local, the union of its intervals in all states; None if there are no states."""
    if not states:
        return None
    first, *others = states
    for other in others:
        first = {name: join(one, other[name]) for name, one in first.items() if name in other}
    return first


def _step(end: float) -> float:
    """Return the least number in `STEPS` that is at least `end`, or infinity, so that intervals grow few times."""
    return next((s for s in STEPS if s >= end), math.inf)


@dataclass
class _JoinFrame:
    """Collect the intervals of locals at each jump out of a loop or scope, and at each jump to the next trip."""

    exits: list[Locals] = field(default_factory=list)
    latches: list[Locals] = field(default_factory=list)


class _RangeAnalysis:
    """Execute a task on intervals instead of numbers.

    `pushed` is the interval of what is pushed to each adstack so far, and `read` the interval that reads of it assumed;
    if `pushed` has grown since, the task is executed again. `kind` is 'first' or 'usual' while the first or the usual
    trips of an innermost loop are executed, else ''.
    """

    def __init__(self) -> None:
        self.found = RealRanges()
        self.values: dict[Value, NumberInterval] = {}
        self.pushed: dict[str, NumberInterval] = {}
        self.usual_pushes: dict[str, NumberInterval] = {}
        self.read: dict[str, NumberInterval] = {}
        self.runs = 0
        self.again()

    def again(self) -> None:
        """Forget all intervals except those of adstacks, before the task is executed again."""
        self.found = RealRanges()
        self.values, self.read, self.usual_pushes = {}, {}, {}
        self.frames: list[_JoinFrame] = []
        self.kind = ""
        self.assumed: Mapping[str, float] = {}

    @property
    def outdated(self) -> bool:
        """Return True if an adstack's interval has grown since a read of the adstack used it."""
        return any(join(r, self.pushed.get(stack, ZERO)) != r for stack, r in self.read.items())

    def run(self, task: Task) -> None:
        """Execute the bounds and the body of a task once on intervals."""
        self.runs += 1
        state = self.block(task.bounds, {})
        for index, begin, end in zip(task.indices, task.begin, task.end):
            self.define(index, index_interval(self.of(begin), self.of(end), 1, operator.add))
        self.block(task.body, state or {})

    # -- values ---------------------------------------------------------------------------------------------

    def of(self, value: Value) -> NumberInterval:
        """Return the interval of a value in the kind of trips, such as usual ones, that is being executed."""
        return self.values.get(value) or type_interval(value.type)

    def define(self, value: Value, interval: NumberInterval) -> None:
        """Record the interval of a value in the kind of trips, such as usual ones, that is being executed."""
        limits = type_interval(value.type)
        interval = meet(interval, limits)
        # An empty interval means that the value is never computed; any interval is correct.
        if is_empty(interval):
            interval = limits
        # The steps of a local that grows in a loop may lie between two integers.
        if not value.type.is_real:
            interval = Interval(math.floor(interval.low), math.ceil(interval.high))
        self.values[value] = interval
        for table in [self.found.always, *([self.found.usual] if self.kind == "usual" else [])]:
            known = table.get(value)
            table[value] = interval if known is None else join(known, interval)

    # -- control --------------------------------------------------------------------------------------------

    def block(self, body: Block, state: Locals) -> Locals | None:
        """Execute a block and return the intervals of locals after it, or None if its end is not reached."""
        current: Locals | None = dict(state)
        for stmt in body:
            if current is None:
                return None
            current = RANGES[type(stmt)](self, stmt, current)
        return current

    @contextmanager
    def trips(self, kind: str, assumed: Mapping[str, float] | None = None) -> Iterator[None]:
        """Set the kind of trips, such as usual ones, that the `with` block executes."""
        before = self.kind, self.assumed
        self.kind, self.assumed = kind, assumed or {}
        yield
        self.kind, self.assumed = before

    def trip(self, loop: n.For | n.While, state: Locals) -> tuple[Locals | None, Locals | None, list[Locals]]:
        """Execute one trip of a loop; return the locals' intervals at its test, at its end, and at each exit."""
        frame = _JoinFrame()
        self.frames.append(frame)
        tested = self.block(loop.condition, state) if isinstance(loop, n.While) else state
        behind = None if tested is None else self.block(loop.body, tested)
        self.frames.pop()
        latch = _joined([*frame.latches, *([] if behind is None else [behind])])
        left = frame.exits + ([latch] if latch is not None and loop.stop else [])
        return tested, latch, left

    def settle(self, loop: n.For | n.While, state: Locals) -> list[Locals]:
        """Execute trips until no interval changes, and return the locals' intervals at each exit of the loop."""
        runs = 0
        while True:
            tested, latch, left = self.trip(loop, state)
            ends = [*left, *([] if tested is None else [tested])]
            if latch is None:
                return ends
            grown = {name: join(old, latch[name]) for name, old in state.items() if name in latch}
            if grown == state:
                return ends
            step = _step if runs < PATIENCE else lambda end: math.inf
            state = {name: widened(old, grown[name], step) for name, old in state.items() if name in grown}
            runs += 1

    def loop(self, loop: n.For | n.While, state: Locals) -> Locals | None:
        """Execute a loop on intervals; return the locals' intervals after it, or None if the loop never ends."""
        if not is_innermost(loop):
            with self.trips(""):
                return _joined(self.settle(loop, state))
        if isinstance(loop, n.For) and pops_history(loop):
            return self._loop_back(loop, state)
        with self.trips("first"):
            tested, latch, left = self.trip(loop, state)
        ends = [*left, *([] if tested is None else [tested])]
        if latch is not None:
            with self.trips("usual"):
                ends += self.settle(loop, latch)
        return _joined(ends)

    def _loop_back(self, loop: n.For, state: Locals) -> Locals | None:
        """Execute a loop that pops adstacks; return the locals' intervals after it, or None if it never ends."""
        stacks = dict.fromkeys(s.stack for s in loop.body if isinstance(s, n.StackPop))
        assumed = self.found.assumed.setdefault(loop.index, {})
        for stack, most in ((stack, self._special(stack)) for stack in stacks):
            if most is not None:
                assumed[stack] = min(most, assumed.get(stack, most))
        with self.trips(""):
            ends = self.settle(loop, state)
        with self.trips("usual", assumed):
            self.settle(loop, state)
        return _joined(ends)

    # -- stacks ---------------------------------------------------------------------------------------------

    def _special(self, stack: str) -> float | None:
        """Return a bound of the values pushed in usual trips, or None if it is not tighter than that of all trips."""
        usual = magnitude(self.usual_pushes.get(stack, ALL))
        known = magnitude(self.pushed.get(stack, ZERO)) <= STEPS[-1]
        return None if known or usual > STEPS[-1] else _step(usual)

    def push(self, stack: str, value: Value) -> None:
        """Extend the interval of an adstack by the interval of a pushed value."""
        content = self.of(value)
        self.pushed[stack] = join(self.pushed.get(stack, ZERO), content)
        if value.type.is_real and (self.kind != "first" or magnitude(content) <= STEPS[-1]):
            self.usual_pushes[stack] = join(self.usual_pushes.get(stack, ZERO), content)
        # A stack that still grows after several runs of the task is assumed to hold anything.
        if self.runs > PATIENCE:
            self.pushed[stack] = ALL

    def top(self, stack: str) -> NumberInterval:
        """Return the interval of the values on an adstack, and record that it was read."""
        most = self.assumed.get(stack)
        if most is not None:
            return Interval(-most, most)
        self.read[stack] = self.pushed.setdefault(stack, ZERO)
        return self.read[stack]


# ---- statements ---------------------------------------------------------------------------------------------

RANGES: Table[type[Stmt], Callable[..., Locals | None]] = Table("ranges", STATEMENTS.values(), about="range of result")
"""A row of this table takes the analysis, a statement and the state before it, and returns the state after it."""


def _value(interval: Callable[..., NumberInterval]) -> Callable[..., Locals]:
    """Return an entry of the table RANGES for a statement whose result has the interval that `interval` returns."""

    def row(a: _RangeAnalysis, stmt: Stmt, state: Locals) -> Locals:
        a.define(stmt.result, interval(a, stmt, state))  # type: ignore[attr-defined]
        return state

    return row


def _unknown(a: _RangeAnalysis, stmt: n.Load, state: Locals) -> NumberInterval:
    return type_interval(stmt.result.type)


def _op(a: _RangeAnalysis, stmt: n.Op, state: Locals) -> NumberInterval:
    return operation_interval(stmt, [a.of(v) for v in stmt.args])


def _random(a: _RangeAnalysis, stmt: n.Random, state: Locals) -> NumberInterval:
    return TRUTH if stmt.result.type.is_real else type_interval(stmt.result.type)


def _nothing(a: _RangeAnalysis, stmt: Stmt, state: Locals) -> Locals:
    return state


def _declare(a: _RangeAnalysis, stmt: n.Local | n.LocalArray, state: Locals) -> Locals:
    return {**state, stmt.var: ZERO}


def _set(a: _RangeAnalysis, stmt: n.Set, state: Locals) -> Locals:
    return {**state, stmt.var: a.of(stmt.value)}


def _set_element(a: _RangeAnalysis, stmt: n.SetElement, state: Locals) -> Locals:
    return {**state, stmt.var: join(state.get(stmt.var, ALL), a.of(stmt.value))}


def _if(a: _RangeAnalysis, stmt: n.If, state: Locals) -> Locals | None:
    ends = [a.block(stmt.then, state), a.block(stmt.orelse, state)]
    return _joined([end for end in ends if end is not None])


def _for(a: _RangeAnalysis, stmt: n.For, state: Locals) -> Locals | None:
    a.define(stmt.index, index_interval(a.of(stmt.begin), a.of(stmt.end), stmt.step, operator.add))
    return _loop(a, stmt, state)


def _loop(a: _RangeAnalysis, stmt: n.For | n.While, state: Locals) -> Locals | None:
    left = a.loop(stmt, state)
    if stmt.trips is not None:
        a.define(stmt.trips, type_interval(stmt.trips.type))
    return left


def _scope(a: _RangeAnalysis, stmt: n.Scope, state: Locals) -> Locals | None:
    frame = _JoinFrame()
    a.frames.append(frame)
    behind = a.block(stmt.body, state)
    a.frames.pop()
    return _joined([*frame.exits, *([] if behind is None else [behind])])


def _break(a: _RangeAnalysis, stmt: n.Break, state: Locals) -> None:
    a.frames[-stmt.depth].exits.append(state)


def _continue(a: _RangeAnalysis, stmt: n.Continue, state: Locals) -> None:
    a.frames[-stmt.depth].latches.append(state)


def _return(a: _RangeAnalysis, stmt: n.Return, state: Locals) -> None:
    return None


def _push(a: _RangeAnalysis, stmt: n.StackPush, state: Locals) -> Locals:
    a.push(stmt.stack, stmt.value)
    return state


RANGES.update(
    {
        n.Const: _value(lambda a, stmt, state: constant_interval(stmt)),
        n.Arg: _value(_unknown),
        n.Shape: _value(_unknown),
        n.Op: _value(_op),
        n.Cast: _value(lambda a, stmt, state: cast_interval(a.of(stmt.arg), stmt.arg.type, stmt.result.type)),
        n.BitCast: _value(_unknown),
        n.Within: _value(lambda a, stmt, state: a.of(stmt.index)),
        n.Random: _value(_random),
        n.Load: _value(_unknown),
        n.Store: _nothing,
        n.Atomic: _value(_unknown),
        n.Local: _declare,
        n.Get: _value(lambda a, stmt, state: state.get(stmt.var, ALL)),
        n.Set: _set,
        n.LocalArray: _declare,
        n.GetElement: _value(lambda a, stmt, state: state.get(stmt.var, ALL)),
        n.SetElement: _set_element,
        n.SharedArray: lambda a, stmt, state: {**state, stmt.var: ALL},  # other iterations write to it
        **dict.fromkeys((n.UpdateElement, n.Collective), _value(_unknown)),
        n.If: _if,
        n.For: _for,
        n.While: _loop,
        n.Scope: _scope,
        n.Break: _break,
        n.Continue: _continue,
        n.Return: _return,
        **dict.fromkeys((n.Assert, n.Print, n.Sync), _nothing),
        n.StackAlloca: _nothing,
        n.StackPush: _push,
        n.StackPop: _nothing,
        n.StackTop: _value(lambda a, stmt, state: a.top(stmt.stack)),
        n.StackTopAdjoint: _value(_unknown),
        n.StackAccumulate: _nothing,
    }
)
