"""Draw kernels of raw adstack statements: balanced kernels, and kernels that must overflow or underflow.

    segment := push segment* pop | loop of pushes, then loop of pops | a gate around segments | a stack made in a loop

Invariant: the worst depth of each adstack is known while it is drawn, so capacities suffice exactly where they must.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel, Param, Task
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import ArrayType, Scalar, adjoint_type, f16, f32, f64, i32, i64, u1
from ....compiler.ir.walk import map_blocks, renumber
from .draw import Chooser
from .raw import RawCase
from .values import ordinary_number

MOST_TRIPS = 4
TYPES = (f64, f32, i32, u1, f64, i64, f16)
OVERFLOW, EMPTY = "AdstackOverflow", "EmptyStack"
ENDS = (None, None, None, OVERFLOW, EMPTY)


class _DrawnStack:
    """Represent an adstack of a kernel being drawn, with its current and its largest depth in any lane.

    `depth` is the current depth and `peak` the largest depth so far, both in the worst lane.
    """

    def __init__(self, name: str, dtype: Scalar, adjoint: bool) -> None:
        self.name, self.dtype, self.adjoint = name, dtype, adjoint
        self.depth = self.peak = 0

    def grow(self, count: int) -> None:
        """Add a number of pushes to the current depth, and update the largest depth."""
        self.depth += count
        self.peak = max(self.peak, self.depth)


class _Generator:
    """Draw a kernel of raw adstack statements, whose local `sum` depends on every value read from an adstack."""

    def __init__(self, draw: Chooser) -> None:
        self.draw = draw
        self.b = Builder()
        self.stacks: list[_DrawnStack] = []
        self.indices: list[Value] = []
        self.names = 0
        self.budget = draw.integer(1, 6)
        self.lane = self.b.fresh(i32)

    # -- values ---------------------------------------------------------------------------------------------

    def value(self, dtype: Scalar) -> Value:
        """Emit an expression of type `dtype` whose value differs between lanes and trips, and return the value."""
        b = self.b
        index = self.draw.choice([self.lane, *self.indices])
        real = b.op("add", b.load("x", (self.lane,), f64), b.cast(index, f64))
        # Booleans are true where the real exceeds 1.
        if dtype.is_bool:
            return b.op("cmp_gt", real, b.const(1.0, f64))
        return b.cast(real, dtype)

    def trips(self) -> tuple[Value, int]:
        """Return a trip count for a loop, and the largest value that this count can have."""
        if self.draw.boolean():
            return self.b.load("c", (self.lane,), i32), MOST_TRIPS
        count = self.draw.integer(0, 3)
        return self.b.const(count, i32), count

    def show(self, value: Value) -> None:
        """Emit sum = 0.75 sum + value, so that the value affects the output of the kernel."""
        b = self.b
        b.set("sum", b.op("add", b.op("mul", b.get("sum", f64), b.const(0.75, f64)), b.cast(value, f64)))

    # -- statements -----------------------------------------------------------------------------------------

    def new_stack(self) -> _DrawnStack:
        """Emit the declaration of a new adstack and return it."""
        self.names += 1
        dtype = self.draw.choice(TYPES)
        dual = dtype.is_real and self.draw.boolean() and adjoint_type(dtype) == dtype
        stack = _DrawnStack(f"s{self.names}", dtype, dual)
        self.b.emit(n.StackAlloca(stack.name, dtype, None, stack.adjoint))
        return stack

    def push(self, stack: _DrawnStack, value: Value | None = None) -> None:
        """Emit a push of the given value, or of a random value."""
        self.b.push(stack.name, value or self.value(stack.dtype))

    def read(self, stack: _DrawnStack) -> None:
        """Emit reads of an adstack's top slot, and perhaps an update of its adjoint; the adstack must not be empty."""
        if stack.adjoint and self.draw.boolean(0.6):
            self.b.accumulate(stack.name, self.value(stack.dtype))
            self.show(self.b.top_adjoint(stack.name, stack.dtype))
        self.show(self.b.top(stack.name, stack.dtype))

    def segments(self, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit one or two random groups of statements that push and pop the same number of values.

        Args:
            stacks: Adstacks that the segments may use.
            depth: Number of levels of segments that may still be nested.
        """
        for _ in range(self.draw.choice((1, 1, 2))):
            self.budget -= 1
            kinds: list[Callable[[_DrawnStack, list[_DrawnStack], int], None]] = [self.pair, self.loops, self.pair]
            if depth > 0 and self.budget > 0:
                kinds += [self.gate, self.inner, self.loops, self.repeat]
            self.draw.choice(kinds)(self.draw.choice(stacks), stacks, depth - 1)

    def pair(self, stack: _DrawnStack, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit a push and the matching pop, perhaps with other balanced groups of statements between them."""
        self.push(stack)
        stack.grow(1)
        if depth > 0 and self.budget > 0:
            self.segments(stacks, depth)
        self.read(stack)
        self.b.pop(stack.name)
        stack.depth -= 1

    def loops(self, stack: _DrawnStack, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit a loop that pushes, then a reversed loop of as many trips that reads and pops."""
        end, most = self.trips()
        begin = self.b.const(0, i32)
        # The worst lane makes the largest number of trips.
        stack.grow(most)
        self._loop(begin, end, lambda: self.push(stack))
        if depth > 0 and self.budget > 0:
            self.segments(stacks, depth)

        def back() -> None:
            self.read(stack)
            self.b.pop(stack.name)

        self._loop(begin, end, back, descending=True)
        stack.depth -= most

    def _loop(self, begin: Value, end: Value, body: Callable[[], None], descending: bool = False) -> None:
        """Emit a loop over begin .. end around the statements that `body` emits."""
        index = self.b.fresh(i32)
        self.indices.append(index)
        with self.b.block() as inside:
            body()
        self.indices.pop()
        self.b.emit(n.For(index, begin, end, tuple(inside), descending=descending))

    def gate(self, stack: _DrawnStack, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit a branch, which only some lanes take, around random adstack statements.

        Args:
            stack: The adstack that a segment of one adstack uses.
            stacks: The adstacks that nested segments may use.
            depth: Number of levels of segments that may still be nested.
        """
        condition = self.b.op("cmp_gt", self.b.load("c", (self.lane,), i32), self.b.const(1, i32))
        with self.b.block() as then:
            self.segments(stacks, depth)
        self.b.if_(condition, then)

    def repeat(self, stack: _DrawnStack, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit a loop of balanced groups of statements, so that each trip leaves the adstacks unchanged."""
        end, _ = self.trips()
        self._loop(self.b.const(0, i32), end, lambda: self.segments(stacks, depth))

    def inner(self, stack: _DrawnStack, stacks: list[_DrawnStack], depth: int) -> None:
        """Emit a loop whose body declares a new adstack in each trip, in some cases with values left on it."""
        end, _ = self.trips()

        def body() -> None:
            mine = self.new_stack()
            self.stacks.append(mine)
            self.segments([mine, stack], depth)
            if self.draw.boolean():
                self.push(mine)
                mine.grow(1)

        self._loop(self.b.const(0, i32), end, body)

    def overflow(self, stacks: list[_DrawnStack]) -> None:
        """Emit pushes beyond the capacity of an adstack, or of one of two adstacks depending on the lane."""
        b, blocks = self.b, []
        for stack in stacks[:2]:
            with b.block() as pushes:
                for _ in range(stack.peak + 1):
                    self.push(stack)
            blocks.append(pushes)
        if len(blocks) == 1:
            for stmt in blocks[0]:
                b.emit(stmt)
            return
        odd = b.op("mod", self.lane, b.const(2, i32))
        b.if_(b.op("cmp_eq", odd, b.const(0, i32)), *blocks)

    def underflow(self, stack: _DrawnStack) -> None:
        """Emit a pop, a read or an update of the top of an adstack that is empty."""
        kind = self.draw.choice(("pop", "top", "adjoint"))
        if kind == "pop":
            self.b.pop(stack.name)
        elif kind == "adjoint" and stack.adjoint:
            self.b.accumulate(stack.name, self.value(stack.dtype))
        else:
            self.show(self.b.top(stack.name, stack.dtype))

    def body(self, end: str | None) -> tuple[Stmt, ...]:
        """Return the statements of one lane, which end with an overflow or underflow if `end` demands one."""
        b = self.b
        with b.block() as body:
            b.local("sum", f64)
            apart = end == OVERFLOW and self.draw.boolean(0.7)
            outer = [self.new_stack() for _ in range(self.draw.choice((1, 1, 2)) + apart)]
            self.stacks += outer
            self.segments(outer, 2)
            if end == OVERFLOW:
                self.overflow(outer if apart else outer[:1])
            elif end == EMPTY:
                self.underflow(outer[0])
            b.store("y", (self.lane,), b.get("sum", f64))
        return tuple(body)


def read_as_zero(kernel: Kernel) -> Kernel:
    """Return the kernel with its access to an empty adstack replaced by 0 or nothing, as builds without checks act.

    The read of the empty adstack gives 0 and nothing else happens. This read is the last statement of the task on an
    adstack.
    """
    (task,) = kernel.tasks
    uses = (n.StackPop, n.StackTop, n.StackAccumulate)
    at = max(k for k, stmt in enumerate(task.body) if isinstance(stmt, uses))
    last = task.body[at]
    zero = (n.Const(last.result, last.result.type.dtype.type(0).item()),) if isinstance(last, n.StackTop) else ()
    return replace(kernel, tasks=(replace(task, body=(*task.body[:at], *zero, *task.body[at + 1 :])),))


def _with_capacities(body: Block, capacities: dict[str, int]) -> Block:
    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, n.StackAlloca):
            return replace(stmt, capacity=capacities.get(stmt.stack))
        return map_blocks(stmt, lambda inner: _with_capacities(inner, capacities))

    return tuple(change(s) for s in body)


def draw_adstacks(draw: Chooser) -> RawCase:
    """Return a random adstack kernel with its arrays x, y and c, which have one element per lane.

    Most kernels are balanced.
    """
    g = _Generator(draw)
    trap = draw.choice(ENDS)
    with g.b.block() as bounds:
        begin, end = g.b.const(0, i32), g.b.shape("x", 0)
    body = g.body(trap)
    # A stack of an overflow needs a capacity, because without one it would grow.
    capacities = {s.name: s.peak for s in g.stacks if draw.boolean(0.4) or trap == OVERFLOW}
    task = Task(_with_capacities(body, capacities), (g.lane,), tuple(bounds), (begin,), (end,))
    params = (Param("x", ArrayType(f64, 1)), Param("y", ArrayType(f64, 1)), Param("c", ArrayType(i32, 1)))
    lanes = draw.choice((1, 2, 3, 8))
    arrays = {
        "x": np.array([ordinary_number(draw, f64) for _ in range(lanes)]),
        "y": np.zeros(lanes),
        "c": np.array([draw.integer(0, MOST_TRIPS) for _ in range(lanes)], np.int32),
    }
    return RawCase(renumber(Kernel("stacks", params, (task,))), arrays, trap)
