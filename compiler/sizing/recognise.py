"""Size expressions of a kernel, found by walking the slice of it that counts its adstacks.

Values, locals and temporaries are followed as spans; a push adds 1 to the flow of its stack, a loop sums it up over its
range, a condition chooses. What changes from one iteration of a loop to the next is known if it only grows, or is what
the iteration before has left. A size is given if it is exact; for the others there may be a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..ir import nodes as n
from ..ir.nodes import Block, Kernel, Stmt, Task, Value
from ..ir.types import Scalar
from ..ir.walk import RESULTS, walk, walk_kernel
from . import algebra as a
from . import flows as f
from . import ranges
from . import spans as s
from .carried import carry
from .expressions import ONE, TRUE, Expr, argument, read, shape, variable
from .flows import Flow, Loop
from .operations import cast, constant, operation
from .spans import UNKNOWN, Around, Span

MOST = 1500
"""Nodes of an expression beyond which a value is taken as unknown."""

Flows = dict[str, Flow]
Peaks = dict[str, Span]


@dataclass
class State:
    """What is known at a point of a task. locals: mutable scalars; around, bounds: loops and conditions around it."""

    values: dict[Value, Span] = field(default_factory=dict)
    locals: dict[str, Span] = field(default_factory=dict)
    around: Around | None = None
    bounds: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)


class Recogniser:
    """Walks the tasks of one slice in order. counters: see `count.counters`."""

    def __init__(self, kernel: Kernel, counters: dict[str, tuple[str, str]]) -> None:
        self.kernel = kernel
        self.counters = counters
        self.arrays = kernel.array_types()
        self.scalars = kernel.scalar_types()
        self.temps = {t.name: f"load {t.name}" for t in kernel.temps}
        self.written = {t.array for t in walk_kernel(kernel) if isinstance(t, (n.Store, n.Atomic))}
        self.dtypes: dict[str, Scalar] = {t.var: t.dtype for t in walk_kernel(kernel) if isinstance(t, n.Local)}
        self.dtypes |= {self.temps[t.name]: t.dtype for t in kernel.temps}
        self.made: dict[Value, Stmt] = {v: t for t in walk_kernel(kernel) for v in RESULTS[type(t)](t)}
        self.state = State({}, {local: s.number(0) for local in self.temps.values()})
        self.fresh = 0

    def symbol(self) -> int:
        """A number that no other symbol has."""
        self.fresh += 1
        return self.fresh

    # -- tasks ----------------------------------------------------------------------------------------------

    def task(self, task: Task) -> tuple[list[Loop], Peaks]:
        """The axes of a task, and how high its stacks get in an iteration."""
        kept = dict(self.state.locals)
        self.block(task.bounds)
        axes = [self._range(b, e) for b, e in zip(self.spans(task.begin), self.spans(task.end))]
        for index, axis in zip(task.indices, axes):
            self.enter(index, axis)
        if task.is_parallel:
            self._forget_temps(task)
        flows, peaks = self.block(task.body)
        for stack, flow in flows.items():  # of a stack declared where nothing was left to say so
            peaks[stack] = f.peak(flow)
        temps = {name: self.state.locals[name] for name in self.temps.values()} if not task.is_parallel else kept
        self.state = State({}, dict(temps))
        if task.is_parallel:
            self._forget_temps(task)
        return axes, peaks

    def _forget_temps(self, task: Task) -> None:
        for stmt in walk(task.body):
            if isinstance(stmt, (n.Store, n.Atomic)) and stmt.array in self.temps:
                self.state.locals[self.temps[stmt.array]] = UNKNOWN

    def _range(self, begin: Span, end: Span, early: bool = False) -> Loop:
        known = begin.exact is not None and end.exact is not None
        if known:
            assert begin.exact is not None and end.exact is not None
            length = s.exactly(ranges.trips(begin.exact, end.exact, self.state.bounds), begin.checks | end.checks)
            number = self.symbol()
        else:
            number = None
            length = s.maximum(s.NOTHING, s.sub(end, begin))
        return Loop(number, begin, end, length, early, dict(self.state.bounds))

    def enter(self, index: Value, loop: Loop, step: int = 1, first: Span = UNKNOWN) -> None:
        """Go into a loop. first, step: of its index, where it does not run over the range itself."""
        if loop.number is None:
            low, high = (loop.begin.low, loop.end.high) if step == 1 else (None, None)
            end = None if high is None else a.sub(high, ONE)
            self.state.values[index] = Span(low, end, loop.length.checks)
            return
        begin, end = loop.begin.exact, loop.end.exact
        assert begin is not None and end is not None
        number = variable(loop.number, begin.low, max(end.high - 1, begin.low))
        self.state.bounds[loop.number] = (begin, end)
        self.state.around = Around(self.state.around, begin, end, loop.number)
        plain = s.exactly(number, loop.length.checks)
        self.state.values[index] = plain if step == 1 else s.add(first, s.mul(s.number(step), plain))

    # -- blocks ---------------------------------------------------------------------------------------------

    def block(self, block: Block) -> tuple[Flows, Peaks]:
        """Walk a block: the flows of stacks from outside, the peaks of those that it declares."""
        flows, peaks, own = Flows(), Peaks(), set[str]()
        for stmt in block:
            if isinstance(stmt, n.Set) and stmt.var in self.counters:
                self._count(stmt.var, stmt.value, flows, own)
            elif isinstance(stmt, (n.If, n.For, n.While, n.Scope)):
                inner, highest = _NESTED[type(stmt)](self, stmt)
                for stack, flow in inner.items():
                    flows[stack] = f.then(flows.get(stack, f.STILL), flow)
                for stack, high in highest.items():
                    peaks[stack] = f.highest(peaks.get(stack, s.NOTHING), high)
            else:
                self._plain(stmt)
        for stack in own:
            peaks[stack] = f.peak(flows.pop(stack, f.STILL))
        return flows, peaks

    def _count(self, local: str, value: Value, flows: Flows, own: set[str]) -> None:
        """A height is set to 0 where the stack is declared, to the maximum with 0 at a pop; at a push the depth is set,
        and the height only if anything comes of it.
        """
        role, stack = self.counters[local]
        made = self.made[value]
        if role == "depth":
            flows[stack] = f.then(flows.get(stack, f.STILL), f.PUSH)
        elif isinstance(made, n.Const):
            own.add(stack)
            flows[stack] = f.STILL
        elif isinstance(made, n.Op) and made.op == "max":
            flows[stack] = f.then(flows.get(stack, f.STILL), f.POP)

    def _plain(self, stmt: Stmt) -> None:
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
        """Locals that a block sets, those of temporaries among them."""
        found: dict[str, None] = {}
        for stmt in walk(block):
            if isinstance(stmt, n.Set):
                found[stmt.var] = None
            elif isinstance(stmt, (n.Store, n.Atomic)) and stmt.array in self.temps:
                found[self.temps[stmt.array]] = None
        return found

    def gets(self, block: Block) -> set[str]:
        """Locals that a block reads, those of temporaries among them."""
        gets = {t.var for t in walk(block) if isinstance(t, n.Get)}
        return gets | {self.temps[t.array] for t in walk(block) if isinstance(t, n.Load) and t.array in self.temps}

    # -- values ---------------------------------------------------------------------------------------------

    def span(self, value: Value) -> Span:
        """What is known of a value."""
        return self.state.values.get(value, UNKNOWN)

    def spans(self, values: tuple[Value, ...]) -> tuple[Span, ...]:
        """What is known of values."""
        return tuple([self.span(v) for v in values])

    def load(self, stmt: n.Load) -> Span:
        """An element, if nothing is stored to the array, at an index that is known."""
        if stmt.array in self.temps:
            return self.state.locals[self.temps[stmt.array]]
        indices = self.spans(stmt.indices)
        dtype = self.arrays[stmt.array].dtype
        known = [i.exact for i in indices if i.exact is not None]
        if stmt.array in self.written or len(known) < len(indices):
            return UNKNOWN
        checks = s.NONE.union(*[i.checks for i in indices])
        return s.leaf(read(stmt.array, dtype, known), dtype, self.state.around).given(checks)

    def argument(self, stmt: n.Arg) -> Span:
        """A scalar argument."""
        dtype = self.scalars[stmt.name]
        return s.leaf(argument(stmt.name, dtype), dtype, self.state.around)

    # -- control --------------------------------------------------------------------------------------------

    def branch(self, stmt: n.If) -> tuple[Flows, Peaks]:
        """Both blocks, each where its condition holds."""
        condition = self.span(stmt.cond)
        c, before, around = condition.exact, self.state.locals, self.state.around
        sides, found = [], []
        for block, holds in ((stmt.then, c), (stmt.orelse, None if c is None else a.negate(c))):
            self.state.locals = dict(before)
            self.state.around = around if holds in (None, TRUE) else Around(around, holds)
            found.append(self.block(block))
            sides.append(self.state.locals)
        self.state.around = around
        self.state.locals = {k: _merge(condition, sides[0][k], sides[1][k]) for k in before}
        (then, high), (other, low) = found
        flows = {k: f.either(condition, then.get(k, f.STILL), other.get(k, f.STILL)) for k in {**then, **other}}
        peaks = {k: s.choose(condition, high.get(k, s.NOTHING), low.get(k, s.NOTHING)) for k in {**high, **low}}
        return flows, peaks

    def loop(self, stmt: n.For) -> tuple[Flows, Peaks]:
        """A loop over a range, which may end early."""
        begin, end = self.spans((stmt.begin, stmt.end))
        early = stmt.stop is not None
        loop = self._range(begin, end, early) if stmt.step == 1 else self._stepped(stmt, begin, end)
        around = self.state.around
        flows, peaks, checks = carry(self, stmt, loop, lambda: self.enter(stmt.index, loop, stmt.step, begin))
        loop = replace(loop, length=loop.length.given(checks))
        if stmt.trips is not None and not early:
            self.state.values[stmt.trips] = s.fitted(loop.length, stmt.trips.type, around)
        made = {k: f.repeat(loop, flow) for k, flow in flows.items()}
        return made, {k: loop.over(ranges.largest, high) for k, high in peaks.items()}

    def _stepped(self, stmt: n.For, begin: Span, end: Span) -> Loop:
        """A loop over the numbers of its iterations: ceil((end - begin)/step) of them."""
        distance = s.sub(end, begin) if stmt.step > 0 else s.sub(begin, end)
        step = abs(stmt.step)
        count = s.floordiv(s.add(distance, s.number(step - 1)), s.number(step))
        return self._range(s.NOTHING, s.maximum(s.NOTHING, count), stmt.stop is not None)

    def repeat(self, stmt: n.While) -> tuple[Flows, Peaks]:
        """A loop of which it is not known how often it runs."""
        unknown = Loop(None, UNKNOWN, UNKNOWN, UNKNOWN, True, {})
        names = self.assigned(stmt.condition + stmt.body)
        self.state.locals |= {k: UNKNOWN for k in names if k in self.state.locals}
        outer = dict(self.state.locals)
        first = self.block(stmt.condition)
        second = self.block(stmt.body)
        inner = self.state.locals
        self.state.locals = {k: v if inner[k] is v else UNKNOWN for k, v in outer.items()}
        flows = {k: f.then(first[0].get(k, f.STILL), second[0].get(k, f.STILL)) for k in {**first[0], **second[0]}}
        peaks = {**first[1], **second[1]}
        return (
            {k: f.repeat(unknown, flow) for k, flow in flows.items()},
            {k: unknown.over(ranges.largest, p) for k, p in peaks.items()},
        )


def _zero(dtype: Scalar) -> Span:
    return s.number(0.0 if dtype.is_real else False if dtype.is_bool else 0)


def _merge(condition: Span, x: Span, y: Span) -> Span:
    return x if x is y else s.choose(condition, x, y)


def _size(span: Span) -> int:
    return sum(e.size for e in (span.low, span.high) if e is not None)


_VALUES: dict[type[Stmt], Callable[..., Span]] = {
    n.Const: lambda r, t: constant(t),
    n.Arg: Recogniser.argument,
    n.Load: Recogniser.load,
    n.Shape: lambda r, t: s.exactly(shape(t.array, t.axis, t.result.type)),
    n.Op: lambda r, t: operation(t, r.spans(t.args), r.state.around),
    n.Cast: lambda r, t: cast(r.span(t.arg), t.arg.type, t.result.type, r.state.around),
}
"""Statements whose result may be known."""

_NESTED: dict[type[Stmt], Callable[..., tuple[Flows, Peaks]]] = {
    n.If: Recogniser.branch,
    n.For: Recogniser.loop,
    n.While: Recogniser.repeat,
    n.Scope: lambda r, t: r.block(t.body),
}
