"""This module derives the size expressions of a kernel by abstract interpretation of its counting kernel.

Values, locals and temporaries are followed as symbolic intervals. A push adds 1 to the flow of its adstack, a loop sums
the flow over its range, and a condition chooses between flows. A local that changes from one trip of a loop to the next
is known if it only grows, or if each trip assigns a value that does not depend on the one before. A size is given if it
is exact; for other sizes there may be a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.nodes import STATEMENTS
from ..ir.roles import ARRAY_WRITES
from ..ir.statement import Block, Stmt, Value
from ..ir.table import Table
from ..ir.types import Scalar
from ..ir.walk import RESULTS, walk, walk_kernel
from . import algebra as a
from . import ranges
from . import stack_flow as f
from . import symbolic_intervals as s
from .expressions import ONE, TRUE, SizeExpr, argument, read, shape, variable
from .interval_operations import cast, constant, operation
from .loop_carried import walk_loop_body
from .stack_flow import LoopRange, StackFlow
from .symbolic_intervals import UNKNOWN, PointContext, SymbolicInterval

MOST = 1500
"""Largest number of nodes of an expression; a value whose expression is larger is taken as unknown."""

Flows = dict[str, StackFlow]
"""The flow of each adstack."""
Peaks = dict[str, SymbolicInterval]
"""The greatest height of each adstack."""


@dataclass
class PointState:
    """A `PointState` holds what is known at one point of a task: intervals of values and locals, and open loops.

    Attributes:
        values: Symbolic intervals of the values.
        locals: Symbolic intervals of the contents of locals and temporaries.
        around: The loops and conditions around the point.
        bounds: Begin and end of the loops around, by the number of their index.
    """

    values: dict[Value, SymbolicInterval] = field(default_factory=dict)
    locals: dict[str, SymbolicInterval] = field(default_factory=dict)
    around: PointContext | None = None
    bounds: dict[int, tuple[SizeExpr, SizeExpr]] = field(default_factory=dict)


class SizeRecognizer:
    """This class executes the tasks of one counting kernel on symbolic intervals, to find the depths of adstacks.

    Attributes:
        kernel: The counting kernel, as `count_slice` returns it.
        counters: The locals that count the heights and depths of adstacks, see `counting_kernel.counters`.
        arrays: Types of the arrays.
        scalars: Types of the scalar arguments.
        temps: For each temporary, the name of the local that stands for it.
        written: Arrays that the counting kernel writes.
        dtypes: Types of the locals.
        made: The statement that defines each value.
        state: What is known at the present point.
        fresh: Number of symbols used so far.
    """

    def __init__(self, kernel: Kernel, counters: dict[str, tuple[str, str]]) -> None:
        self.kernel = kernel
        self.counters = counters
        self.arrays = kernel.array_types()
        self.scalars = kernel.scalar_types()
        self.temps = {t.name: f"load {t.name}" for t in kernel.temps}
        self.written = {t.array for t in walk_kernel(kernel) if isinstance(t, ARRAY_WRITES)}
        self.dtypes: dict[str, Scalar] = {t.var: t.dtype for t in walk_kernel(kernel) if isinstance(t, n.Local)}
        self.dtypes |= {self.temps[t.name]: t.dtype for t in kernel.temps}
        self.made: dict[Value, Stmt] = {v: t for t in walk_kernel(kernel) for v in RESULTS[type(t)](t)}
        self.state = PointState({}, {local: s.constant_interval(0) for local in self.temps.values()})
        self.fresh = 0

    def symbol(self) -> int:
        """Return a new number that identifies a symbol or loop index."""
        self.fresh += 1
        return self.fresh

    # -- tasks ----------------------------------------------------------------------------------------------

    def task(self, task: Task) -> tuple[list[LoopRange], Peaks]:
        """Return the index ranges of a task, and the greatest height of each adstack in an iteration."""
        kept = dict(self.state.locals)
        self.block(task.bounds)
        axes = [self._range(b, e) for b, e in zip(self.spans(task.begin), self.spans(task.end))]
        for index, axis in zip(task.indices, axes):
            self.enter(index, axis)
        if task.is_parallel:
            self._forget_temps(task)
        flows, peaks = self.block(task.body)
        # These adstacks are declared where the slice has no declaration left.
        for stack, flow in flows.items():
            peaks[stack] = f.peak(flow)
        # A parallel task leaves no single value in a temporary that it writes, so what it writes is forgotten below.
        temps = {name: self.state.locals[name] for name in self.temps.values()} if not task.is_parallel else kept
        self.state = PointState({}, dict(temps))
        if task.is_parallel:
            self._forget_temps(task)
        return axes, peaks

    def _forget_temps(self, task: Task) -> None:
        """Record that nothing is known of the temporaries that a parallel task writes."""
        for stmt in walk(task.body):
            if isinstance(stmt, ARRAY_WRITES) and stmt.array in self.temps:
                self.state.locals[self.temps[stmt.array]] = UNKNOWN

    def _range(self, begin: SymbolicInterval, end: SymbolicInterval, early: bool = False) -> LoopRange:
        """Return the `LoopRange` of a loop over begin .. end; `early` says that the loop may end early."""
        known = begin.exact is not None and end.exact is not None
        if known:
            assert begin.exact is not None and end.exact is not None
            length = s.exact_interval(
                ranges.range_length(begin.exact, end.exact, self.state.bounds), begin.checks | end.checks
            )
            number = self.symbol()
        else:
            number = None
            length = s.maximum(s.NOTHING, s.sub(end, begin))
        return LoopRange(number, begin, end, length, early, dict(self.state.bounds))

    def enter(self, index: Value, loop: LoopRange, step: int = 1, first: SymbolicInterval = UNKNOWN) -> None:
        """Set the index and range of a loop as the context in which the statements of its body are analyzed.

        Args:
            index: The index of the loop.
            loop: The range of the loop.
            step: The step of the index, if the range numbers the iterations.
            first: The first index, if the step is not 1.
        """
        if loop.number is None:
            low, high = (loop.begin.low, loop.end.high) if step == 1 else (None, None)
            end = None if high is None else a.sub(high, ONE)
            self.state.values[index] = SymbolicInterval(low, end, loop.length.checks)
            return
        begin, end = loop.begin.exact, loop.end.exact
        assert begin is not None and end is not None
        number = variable(loop.number, begin.low, max(end.high - 1, begin.low))
        self.state.bounds[loop.number] = (begin, end)
        self.state.around = PointContext(self.state.around, begin, end, loop.number)
        plain = s.exact_interval(number, loop.length.checks)
        self.state.values[index] = plain if step == 1 else s.add(first, s.mul(s.constant_interval(step), plain))

    # -- blocks ---------------------------------------------------------------------------------------------

    def block(self, block: Block) -> tuple[Flows, Peaks]:
        """Return the change of outer adstacks' heights by a block, and the peak heights of the block's adstacks."""
        flows, peaks, own = Flows(), Peaks(), set[str]()
        for stmt in block:
            if isinstance(stmt, n.Set) and stmt.var in self.counters:
                self._count(stmt.var, stmt.value, flows, own)
            elif isinstance(stmt, (n.If, n.For, n.While, n.Scope)):
                inner, highest = _NESTED[type(stmt)](self, stmt)
                for stack, flow in inner.items():
                    flows[stack] = f.sequential_flow(flows.get(stack, f.STILL), flow)
                for stack, high in highest.items():
                    peaks[stack] = f.higher_peak(peaks.get(stack, s.NOTHING), high)
            else:
                self._plain(stmt)
        for stack in own:
            peaks[stack] = f.peak(flows.pop(stack, f.STILL))
        return flows, peaks

    def _count(self, local: str, value: Value, flows: Flows, own: set[str]) -> None:
        """Add a push, pop or declaration of an adstack, recognized as a write of its counter local, to `flows`.

        In a counting kernel, a declaration sets the height to 0, a pop sets it to a maximum with 0, and a push sets the
        depth, but the height only if something depends on it.
        """
        role, stack = self.counters[local]
        made = self.made[value]
        if role == "depth":
            flows[stack] = f.sequential_flow(flows.get(stack, f.STILL), f.PUSH)
        elif isinstance(made, n.Const):
            own.add(stack)
            flows[stack] = f.STILL
        elif isinstance(made, n.Op) and made.op == "max":
            flows[stack] = f.sequential_flow(flows.get(stack, f.STILL), f.POP)

    def _plain(self, stmt: Stmt) -> None:
        """Record the effect of a statement that has no blocks and sets no counter on known values and locals."""
        values, locals_ = self.state.values, self.state.locals
        if isinstance(stmt, n.Set):
            locals_[stmt.var] = self.span(stmt.value)
        elif isinstance(stmt, n.Local):
            locals_[stmt.var] = _zero(stmt.dtype)
        elif isinstance(stmt, n.Get):
            values[stmt.result] = locals_.get(stmt.var, UNKNOWN)
        elif isinstance(stmt, n.Store) and stmt.array in self.temps:
            locals_[self.temps[stmt.array]] = self.span(stmt.value)
        elif isinstance(stmt, n.Atomic) and stmt.array in self.temps:
            locals_[self.temps[stmt.array]] = UNKNOWN
        elif type(stmt) in _VALUES:
            found = _VALUES[type(stmt)](self, stmt)
            values[RESULTS[type(stmt)](stmt)[0]] = found if _size(found) <= MOST else UNKNOWN

    def assigned(self, block: Block) -> dict[str, None]:
        """Return the locals that a block sets, and the locals that stand for temporaries which the block writes."""
        found: dict[str, None] = {}
        for stmt in walk(block):
            if isinstance(stmt, n.Set):
                found[stmt.var] = None
            elif isinstance(stmt, ARRAY_WRITES) and stmt.array in self.temps:
                found[self.temps[stmt.array]] = None
        return found

    def gets(self, block: Block) -> set[str]:
        """Return the locals that a block reads, and the locals that stand for temporaries which the block reads."""
        gets = {t.var for t in walk(block) if isinstance(t, n.Get)}
        return gets | {self.temps[t.array] for t in walk(block) if isinstance(t, n.Load) and t.array in self.temps}

    # -- values ---------------------------------------------------------------------------------------------

    def span(self, value: Value) -> SymbolicInterval:
        """Return the symbolic interval of a value, UNKNOWN if nothing is known of it."""
        return self.state.values.get(value, UNKNOWN)

    def spans(self, values: tuple[Value, ...]) -> tuple[SymbolicInterval, ...]:
        """Return the symbolic interval of each value."""
        return tuple([self.span(v) for v in values])

    def load(self, stmt: n.Load) -> SymbolicInterval:
        """Return the symbolic interval of a loaded array element, which is unknown if the kernel writes the array."""
        if stmt.array in self.temps:
            return self.state.locals[self.temps[stmt.array]]
        indices = self.spans(stmt.indices)
        dtype = self.arrays[stmt.array].dtype
        known = [i.exact for i in indices if i.exact is not None]
        if stmt.array in self.written or len(known) < len(indices):
            return UNKNOWN
        checks = s.NONE.union(*[i.checks for i in indices])
        return s.leaf_interval(read(stmt.array, dtype, known), dtype, self.state.around).given(checks)

    def argument(self, stmt: n.Arg) -> SymbolicInterval:
        """Return the symbolic interval of a scalar argument."""
        dtype = self.scalars[stmt.name]
        return s.leaf_interval(argument(stmt.name, dtype), dtype, self.state.around)

    # -- control --------------------------------------------------------------------------------------------

    def branch(self, stmt: n.If) -> tuple[Flows, Peaks]:
        """Return the change of adstack heights by a branch with both of its blocks, and the peak heights."""
        condition = self.span(stmt.cond)
        c, before, around = condition.exact, self.state.locals, self.state.around
        sides, found = [], []
        for block, holds in ((stmt.then, c), (stmt.orelse, None if c is None else a.negate(c))):
            self.state.locals = dict(before)
            # What is checked inside the block needs to hold only where the condition holds.
            self.state.around = around if holds in (None, TRUE) else PointContext(around, holds)
            found.append(self.block(block))
            sides.append(self.state.locals)
        self.state.around = around
        self.state.locals = {k: _merge(condition, sides[0][k], sides[1][k]) for k in before}
        (then, high), (other, low) = found
        flows = {k: f.branching_flow(condition, then.get(k, f.STILL), other.get(k, f.STILL)) for k in {**then, **other}}
        peaks = {
            k: s.select_interval(condition, high.get(k, s.NOTHING), low.get(k, s.NOTHING)) for k in {**high, **low}
        }
        return flows, peaks

    def loop(self, stmt: n.For) -> tuple[Flows, Peaks]:
        """Return the change of adstack heights by a `for` loop, which may end early, and the peak heights."""
        begin, end = self.spans((stmt.begin, stmt.end))
        early = stmt.stop is not None
        loop = self._range(begin, end, early) if stmt.step == 1 else self._stepped(stmt, begin, end)
        around = self.state.around
        flows, peaks, checks = walk_loop_body(self, stmt, loop, lambda: self.enter(stmt.index, loop, stmt.step, begin))
        loop = replace(loop, length=loop.length.given(checks))
        if stmt.trips is not None and not early:
            self.state.values[stmt.trips] = s.checked_interval(loop.length, stmt.trips.type, around)
        made = {k: f.loop_flow(loop, flow) for k, flow in flows.items()}
        return made, {k: loop.over(ranges.range_maximum, high) for k, high in peaks.items()}

    def _stepped(self, stmt: n.For, begin: SymbolicInterval, end: SymbolicInterval) -> LoopRange:
        """Return the range of trip numbers of a loop with a step, 0 .. ceil((end - begin)/step)."""
        distance = s.sub(end, begin) if stmt.step > 0 else s.sub(begin, end)
        step = abs(stmt.step)
        count = s.floordiv(s.add(distance, s.constant_interval(step - 1)), s.constant_interval(step))
        return self._range(s.NOTHING, s.maximum(s.NOTHING, count), stmt.stop is not None)

    def repeat(self, stmt: n.While) -> tuple[Flows, Peaks]:
        """Return the change of adstack heights by a `while` loop of unknown trip count, and the peak heights."""
        unknown = LoopRange(None, UNKNOWN, UNKNOWN, UNKNOWN, True, {})
        names = self.assigned(stmt.condition + stmt.body)
        # A trip finds what an earlier trip has left, so nothing that the loop sets is known.
        self.state.locals |= {k: UNKNOWN for k in names if k in self.state.locals}
        outer = dict(self.state.locals)
        first = self.block(stmt.condition)
        second = self.block(stmt.body)
        inner = self.state.locals
        self.state.locals = {k: v if inner[k] is v else UNKNOWN for k, v in outer.items()}
        flows = {
            k: f.sequential_flow(first[0].get(k, f.STILL), second[0].get(k, f.STILL)) for k in {**first[0], **second[0]}
        }
        peaks = {**first[1], **second[1]}
        return (
            {k: f.loop_flow(unknown, flow) for k, flow in flows.items()},
            {k: unknown.over(ranges.range_maximum, p) for k, p in peaks.items()},
        )


def _zero(dtype: Scalar) -> SymbolicInterval:
    """Return the symbolic interval that contains only the zero of a type."""
    return s.constant_interval(0.0 if dtype.is_real else False if dtype.is_bool else 0)


def _merge(condition: SymbolicInterval, x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a local after a branch, given its intervals at the ends of both blocks."""
    return x if x is y else s.select_interval(condition, x, y)


def _size(span: SymbolicInterval) -> int:
    """Return the number of expression nodes of a symbolic interval."""
    return sum(e.size for e in (span.low, span.high) if e is not None)


_VALUES: Table[type[Stmt], Callable[..., SymbolicInterval]] = Table(
    "sizing.values",
    STATEMENTS.values(),
    about="the size expression of the result of a statement",
    optional="nothing is known of the result",
)
"""The span of the result for statements whose result may be known."""
_VALUES.update(
    {
        n.Const: lambda r, t: constant(t),
        n.Arg: SizeRecognizer.argument,
        n.Load: SizeRecognizer.load,
        n.Shape: lambda r, t: s.exact_interval(shape(t.array, t.axis, t.result.type)),
        n.Op: lambda r, t: operation(t, r.spans(t.args), r.state.around),
        n.Within: lambda r, t: r.span(t.index),
        n.Cast: lambda r, t: cast(r.span(t.arg), t.arg.type, t.result.type, r.state.around),
    }
)

_NESTED: Table[type[Stmt], Callable[..., tuple[Flows, Peaks]]] = Table(
    "sizing.nested",
    STATEMENTS.values(),
    about="the walk over a statement with blocks, for adstack sizes",
    optional="the statement has no blocks",
)
"""The walk over each kind of statement with blocks."""
_NESTED.update(
    {
        n.If: SizeRecognizer.branch,
        n.For: SizeRecognizer.loop,
        n.While: SizeRecognizer.repeat,
        n.Scope: lambda r, t: r.block(t.body),
    }
)
