"""Draw random kernels of stage `tasks` that never trap and never race, and execute them on the reference.

A kernel works on `a: f32[1]` and `k: i32[1]` (both read and, in serial tasks, written anywhere), `out: f32[1]` and
`count: i32[1]` (each iteration of a parallel task writes its own element), the scalars `x: f32` and `m: i32`, and the
temporary `$t`. Arrays have SIZE elements. Loops end after a few trips, indices are masked, divisors are odd.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from stackgrad.backends.base import Draws
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.kernels import Kernel, Param, Task, Temp
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.statement import Block, Value
from stackgrad.compiler.ir.types import ArrayType, Scalar, f32, i32, u1
from stackgrad.compiler.ir.walk import results
from stackgrad.reference.launch import run

SIZE = 8
FUEL = 200_000
"""Statements a launch may execute; a kernel that a pass broke may not end by itself."""
TYPES = (f32, i32, u1)
PARAMS = (
    Param("a", ArrayType(f32, 1)),
    Param("k", ArrayType(i32, 1)),
    Param("out", ArrayType(f32, 1)),
    Param("count", ArrayType(i32, 1)),
    Param("x", f32),
    Param("m", i32),
)
EDGES = {
    f32: (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -1.5, 3.0, float("inf"), float("nan")),
    i32: (0, 1, -1, 2, 3, 7, -8, 100),
}


class Generator:
    """Draw one random kernel; `scopes` lists the frames around the statement, innermost last, True for a loop."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.b = Builder()
        self.values: list[Value] = []
        self.locals: list[tuple[str, Scalar]] = []
        self.arrays: list[str] = []
        self.frames: tuple[bool, ...] = ()
        self.names = 0
        self.own: Value | None = None

    def kernel(self) -> Kernel:
        tasks = [self._task() for _ in range(self.random.randint(1, 3))]
        return Kernel("k", PARAMS, tuple(tasks), (Temp("$t", i32),))

    def _task(self) -> Task:
        self.values, self.locals, self.arrays, self.frames = [], [], [], ()
        if self.random.random() < 0.5:
            self.own = None
            return Task(self._root())
        begin, end = self.b.const(0, i32), self.b.shape("out", 0)
        bounds = self.b.take()
        self.own = self.b.fresh(i32)
        self.values.append(self.own)
        return Task(self._root(), (self.own,), bounds, (begin,), (end,))

    def _root(self) -> Block:
        """Return a body whose last statements store some of its locals and values."""
        self._statements(10, 0)
        read = [(var, dtype) for var, dtype in self.locals if self.random.random() < 0.4]
        seen = [self.b.get(var, dtype) for var, dtype in read] + [self.pick(dtype) for dtype in TYPES]
        total = self.b.const(0, i32)
        for value in seen:
            total = self.b.op("mul", total, self.b.const(31, i32))
            total = self.b.op("add", total, self.b.cast(value, i32))
        self.b.store("count", (self._element(),), total)
        self.b.store("out", (self._element(),), self.pick(f32))
        return self.b.take()

    # -- values ---------------------------------------------------------------------------------------------

    def pick(self, dtype: Scalar) -> Value:
        """Return a visible value of the type, preferably a late one, or a constant if there is none."""
        fitting = [v for v in self.values if v.type == dtype]
        if fitting and self.random.random() < 0.85:
            return fitting[-1 - min(int(self.random.expovariate(0.4)), len(fitting) - 1)]
        return self._constant(dtype)

    def _constant(self, dtype: Scalar) -> Value:
        return self._know(self.b.const(self.random.choice(EDGES.get(dtype, (True, False))), dtype))

    def _know(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def _mask(self, value: Value, mask: int) -> Value:
        return self.b.op("bit_and", value, self.b.const(mask, i32))

    def _any(self) -> Value:
        """Return an index into an array from a small range, so that accesses meet."""
        return self._mask(self.pick(i32), self.random.choice((0, 1, SIZE - 1)))

    def _element(self) -> Value:
        """Return an index of an element that this iteration may write."""
        return self.own or self._any()

    def op(self) -> None:
        row = OPS[self.random.choice(list(OPS))]
        dtype = self.random.choice(TYPES)
        args = [self.pick(dtype) for _ in range(row.arity)]
        if row.name == "select":
            args[0] = self.pick(u1)
        if row.traps and dtype == i32:
            args[1] = self.b.op("bit_or", args[1], self.b.const(1, i32))
        if result_type(row.name, tuple(a.type for a in args)):
            self._know(self.b.op(row.name, *args))

    def leaf(self) -> None:
        """Return a value without operands, or a conversion."""
        choice = self.random.randrange(7)
        if choice < 2:
            self._constant(self.random.choice(TYPES))
        elif choice == 2:
            self._know(self.b.arg("x", f32) if self.random.random() < 0.5 else self.b.arg("m", i32))
        elif choice == 3:
            self._know(self.b.shape("a", 0))
        elif choice == 4:
            self._know(self.b.cast(self.pick(self.random.choice(TYPES)), self.random.choice(TYPES)))
        elif choice == 5:
            self._know(self.b.bit_cast(self.pick(i32), i32))
        elif self.random.random() < 0.3:
            self._know(self.b.random(self.random.choice(TYPES)))

    # -- memory ---------------------------------------------------------------------------------------------

    def memory(self) -> None:
        """Emit an access: iterations read `a` anywhere, add to `k` anywhere, and own elements of `out` and `count`."""
        array, dtype = self.random.choice((("out", f32), ("count", i32)))
        choice = self.random.randrange(6)
        if choice < 2:
            self._know(self.b.load(array, (self._element(),), dtype))
        elif choice < 4:
            self.b.store(array, (self._element(),), self.pick(dtype))
        elif choice == 4:
            self._know(self.b.load("a", (self._any(),), f32))
        elif self.own is None:
            self._serial_memory()
        else:
            self.b.atomic("add", "k", (self._any(),), self.pick(i32))

    def _serial_memory(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            self.b.store("a", (self._any(),), self.pick(f32))
        elif choice == 1:
            op = self.random.choice(("add", "max", "exchange"))
            self._know(self.b.atomic(op, "k", (self._any(),), self.pick(i32)))
        elif choice == 2:
            self.b.store("$t", (), self.pick(i32))
        else:
            self._know(self.b.load("$t", (), i32))

    def variable(self) -> None:
        """Declare, read or write a local or a local array; reads and writes are more frequent."""
        choice = self.random.random()
        if choice < 0.15 or not self.locals:
            dtype = self.random.choice(TYPES)
            self.locals.append((self.b.local(self._name("v"), dtype, self.pick(dtype)), dtype))
        elif choice < 0.22:
            self.arrays.append(self._name("w"))
            self.b.emit(n.LocalArray(self.arrays[-1], f32, 4))
        elif choice < 0.45 and self.arrays:
            var = self.random.choice(self.arrays)
            if self.random.random() < 0.5:
                self._know(self.b.get_element(var, self._mask(self.pick(i32), 3), f32))
            else:
                self.b.set_element(var, self._mask(self.pick(i32), 3), self.pick(f32))
        else:
            var, dtype = self.random.choice(self.locals)
            if self.random.random() < 0.5:
                self._know(self.b.get(var, dtype))
            else:
                self.b.set(var, self.pick(dtype))

    def _carry(self, reading: float) -> None:
        """Add a read of a local at the start of a loop body and a write at its end, which link the trips."""
        for var, dtype in self.locals:
            if self.random.random() < 0.4:
                if self.random.random() < reading:
                    self._know(self.b.get(var, dtype))
                else:
                    self.b.set(var, self.pick(dtype))

    def _name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # -- control --------------------------------------------------------------------------------------------

    def _statements(self, count: int, depth: int) -> None:
        for _ in range(self.random.randint(1, count)):
            kinds: list[Callable[[], None]] = [self.op] * 5 + [self.leaf] * 2 + [self.memory] * 4 + [self.variable] * 6
            if depth < 3:
                kinds += [lambda: self.if_(depth), lambda: self.for_(depth)] * 2
                kinds += [lambda: self.while_(depth), lambda: self.scope(depth)]
            self.random.choice(kinds)()

    def _nested(self, depth: int, frames: tuple[bool, ...] = (), first: Callable[[], None] | None = None) -> Block:
        """Emit a nested block, and forget the names that it makes visible."""
        known = len(self.values), len(self.locals), len(self.arrays), self.frames
        self.frames = (*self.frames, *frames)
        with self.b.block() as body:
            if first:
                first()
                self._carry(0.6)
            self._statements(6, depth + 1)
            if first:
                self._carry(0.0)
            if self.frames and self.random.random() < 0.35:
                self._exit()
        del self.values[known[0] :], self.locals[known[1] :], self.arrays[known[2] :]
        self.frames = known[3]
        return tuple(body)

    def _exit(self) -> None:
        """Emit a jump at the end of a block, under a condition if the block is a branch of an `if`."""
        depth = self.random.randint(1, len(self.frames))
        if self.random.random() < 0.1:
            self.b.emit(n.Return())
        elif self.frames[-depth] and self.random.random() < 0.5:
            self.b.emit(n.Continue(depth))
        else:
            self.b.emit(n.Break(depth))

    def if_(self, depth: int) -> None:
        cond = self.pick(u1)
        then = self._nested(depth)
        orelse = self._nested(depth) if self.random.random() < 0.5 else ()
        self.b.if_(cond, list(then), list(orelse))

    def scope(self, depth: int) -> None:
        self.b.emit(n.Scope(self._nested(depth, (False,))))

    def _stop(self) -> str | None:
        flags = [var for var, dtype in self.locals if dtype == u1]
        return self.random.choice(flags) if flags and self.random.random() < 0.5 else None

    def for_(self, depth: int) -> None:
        step = self.random.choice((1, 1, 2, -1, -2))
        low, high = self._constant(i32), self._mask(self.pick(i32), 3)
        low = self._mask(low, 1)
        begin, end = (low, high) if step > 0 else (high, low)
        index, stop = self.b.fresh(i32), self._stop()
        body = self._nested(depth, (True,), lambda: self.values.append(index))
        trips = self.b.fresh(i32) if self.random.random() < 0.4 else None
        self.b.emit(n.For(index, begin, end, body, step, self.random.random() < 0.3, stop, trips))
        if trips:
            self._know(trips)

    def while_(self, depth: int) -> None:
        """Emit a `while` loop of at most three trips, counted by a local that no other statement uses."""
        counter, stop = self.b.local(self._name("c"), i32), self._stop()
        with self.b.block() as condition:
            test = self.b.op("cmp_lt", self.b.get(counter, i32), self.b.const(self.random.randint(0, 3), i32))
            if self.random.random() < 0.5:
                test = self.b.op("logical_and", test, self.pick(u1))
        inside = {value for stmt in condition for value in results(stmt)}
        self.values = [value for value in self.values if value not in inside]

        def advance() -> None:
            self.b.set(counter, self.b.op("add", self.b.get(counter, i32), self.b.const(1, i32)))

        body = self._nested(depth, (True,), advance)
        trips = self.b.fresh(i32) if self.random.random() < 0.4 else None
        self.b.emit(n.While(tuple(condition), test, body, stop, trips))
        if trips:
            self._know(trips)


def random_kernel(seed: int) -> Kernel:
    """Return the random kernel of this number."""
    return Generator(seed).kernel()


def execute(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    """Return the arrays after a launch on random inputs with edge values, as bit patterns with one NaN."""
    rng = np.random.default_rng(seed)
    arrays = {
        "a": rng.choice(np.array([*EDGES[f32], *rng.normal(size=10)], np.float32), SIZE),
        "k": rng.integers(-4, 9, SIZE).astype(np.int32),
        "out": np.zeros(SIZE, np.float32),
        "count": rng.integers(-4, 9, SIZE).astype(np.int32),
    }
    scalars = {"x": float(np.float32(rng.normal())), "m": int(rng.integers(-4, 9))}
    run(kernel, arrays, scalars, draws=Draws(seed, 1), fuel=FUEL)
    for name in ("a", "out"):
        bits = arrays[name].view(np.uint32).copy()
        bits[np.isnan(arrays[name])] = 0x7FC00000
        arrays[name] = bits
    return arrays


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    """Return True if two launches left the same memory."""
    return all(np.array_equal(left[name], right[name]) for name in left)
