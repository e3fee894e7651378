"""Draw random kernels of several tasks for tests of gradients.

They have serial code between parallel loops, kernel-level variables and reductions, returns, boxes of two axes, arrays
indexed by time, atomic minima and maxima, and own elements rewritten in place. `make_program(seed)` returns a kernel of
stage source without races: within a parallel task each array is only read, or touched at own elements only, or only
added to, or only updated by one of atomic minimum and maximum.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.statement import Stmt, Value
from stackgrad.compiler.ir.types import ArrayType, f64, i32, u1

_spec = importlib.util.spec_from_file_location("random_expressions", Path(__file__).with_name("random_expressions.py"))
assert _spec and _spec.loader
base = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(base)
FLAT, GRID, SHAPES, LANES, STEPS = base.FLAT, base.GRID, base.SHAPES, base.LANES, base.STEPS
READ, OWN, ADDED, EXTREME, FREE, ABSENT = base.READ, base.OWN, base.ADDED, base.EXTREME, base.FREE, base.ABSENT


class _Program(base.Expressions):
    """Draw the statements and the tasks of one random kernel."""

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        outer, self.scope = self.scope, self.scope.copy()
        for _ in range(self.r.randint(1, 4)):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(depth)
        self.scope = outer

    def statement(self, depth: int) -> None:
        simple = [self.set_real] * 3 + [self.declare] * 2 + [self.write] * 4
        simple += [self.set_int, self.set_flag, self.reduce]
        nested = [self.if_] * 3 + [self.for_] * 3 + [self.while_, self.scope_]
        exits = [self.exit] * 2 if self.exits else []
        if depth > 0 and self.chance(0.45):
            self.r.choice(nested)(depth - 1)
        else:
            self.r.choice(simple + exits)()

    def declare(self) -> None:
        kind = self.r.random()
        if kind < 0.65:
            value = self.real() if self.chance(0.9) else None
            self.scope.reals.append(self.b.local(self.name("v"), f64, value))
        elif kind < 0.9:
            self.scope.ints.append(self.b.local(self.name("k"), i32, self.wrapped(self.integer(), 4)))
        else:
            self.scope.flags.append(self.b.local(self.name("f"), u1, self.condition()))

    def set_real(self) -> None:
        if self.scope.reals:
            self.b.set(self.r.choice(self.scope.reals), self.bounded())

    def set_int(self) -> None:
        free = [k for k in self.scope.ints if k not in self.counters]
        if free:
            total = self.b.op(self.r.choice(("add", "sub", "mul")), self.integer(), self.integer())
            self.b.set(self.r.choice(free), self.wrapped(total, 4))
        elif self.roles.get("k") == FREE:
            self.b.store("k", (self.b.const(self.r.randrange(2), i32),), self.wrapped(self.integer(), 4))

    def set_flag(self) -> None:
        if self.scope.flags:
            self.b.set(self.r.choice(self.scope.flags), self.condition())

    def reduce(self) -> None:
        """Emit v = op(v, e) for a kernel-level variable into which this parallel task reduces."""
        if self.reduced:
            var, op = self.r.choice(list(self.reduced.items()))
            self.b.set(var, self.b.op(op, self.b.get(var, f64), self.bounded()))

    def write(self) -> None:
        """Emit one statement that changes memory in a way that the role of its array allows."""
        b, written = self.b, self.allowed(OWN, ADDED, EXTREME, FREE)
        if not written:
            return
        array = self.r.choice(written)
        at, role = self.element(array), self.roles[array]
        if role == ADDED:
            b.atomic("add", array, at, self.bounded())
        elif role == EXTREME:
            b.atomic(self.extreme, array, at, self.bounded() if self.chance(0.9) else b.const(0.3, f64))
        elif self.chance(0.4):
            op = self.r.choice(("add", "add", "min", "max", "mul"))
            value = b.const(0.7, f64) if op == "mul" and self.chance(0.7) else self.bounded()
            old = b.atomic(op, array, at, value)
            if self.chance(0.3):
                self.scope.values.append(old)
        elif self.chance(0.1):
            b.store(array, at, b.const(0.4, f64))
        else:
            again = self.chance(0.3)
            value = b.op("mul", b.load(array, at, f64), b.const(0.7, f64)) if again else self.bounded()
            b.store(array, at, value)

    def if_(self, depth: int) -> None:
        condition = self.condition()
        with self.b.block() as then:
            self.block(depth)
        with self.b.block() as orelse:
            if self.chance(0.6):
                self.block(depth)
        self.b.if_(condition, then, orelse)

    def for_(self, depth: int) -> None:
        """Emit a loop over a constant range, whose index affine indices may use, or over a range read from data."""
        b, step = self.b, self.r.choice((1, 1, 1, 2, -1, -2))
        index = b.fresh(i32)
        known = self.chance(0.6)
        if known:
            low = self.r.randint(0, 2)
            high = low + self.r.randint(0, 3)
            visited = range(low, high, step) if step > 0 else range(high, low, step)
            begin, end = b.const(visited.start, i32), b.const(visited.stop, i32)
        else:
            begin, end = (self.integer(), self.integer()) if self.chance(0.4) else (b.const(0, i32), self.integer())
            if step < 0:
                begin, end = end, begin
        self.frames.append("loop")
        outer, self.scope = self.scope, self.scope.copy()
        with b.block() as body:
            if known and visited:
                self.scope.ranges.append((index, min(visited), max(visited)))
            elif not known:
                self.scope.ranges.append((index, -99, 99))
            self.block(depth)
        self.scope = outer
        self.frames.pop()
        b.emit(n.For(index, begin, end, tuple(body), step=step))

    def while_(self, depth: int) -> None:
        b = self.b
        counter = b.local(self.name("n"), i32)
        self.counters.add(counter)
        limit = self.wrapped(self.integer(), 4)
        outer, self.scope = self.scope, self.scope.copy()
        with b.block() as condition:
            below = b.op("cmp_lt", b.get(counter, i32), limit)
            if self.chance(0.4):
                below = b.op("logical_and", below, self.inlined() if self.chance(0.5) else self.condition())
        self.scope = outer.copy()
        self.frames.append("loop")
        with b.block() as body:
            b.set(counter, b.op("add", b.get(counter, i32), b.const(1, i32)))
            self.scope.ints.append(counter)
            self.block(depth)
        self.frames.pop()
        self.scope = outer
        b.emit(n.While(tuple(condition), below, tuple(body)))

    def inlined(self) -> Value:
        """Emit an inlined function with an early return, in the form that the frontend gives it; it may store."""
        b = self.b
        result = b.local(self.name("f"), u1)
        outer, self.scope = self.scope, self.scope.copy()
        with b.block() as body:
            if self.chance(0.3):
                self.write()
            first, second = self.condition(), self.condition()
            with b.block() as early:
                b.set(result, second)
                b.emit(n.Break(1))
            b.if_(first, early)
            b.set(result, self.condition())
        self.scope = outer
        b.emit(n.Scope(tuple(body)))
        return b.get(result, u1)

    def scope_(self, depth: int) -> None:
        self.frames.append("scope")
        with self.b.block() as body:
            self.block(depth)
        self.frames.pop()
        self.b.emit(n.Scope(tuple(body)))

    def exit(self) -> None:
        if not self.frames or self.chance(0.1):
            stmt: Stmt = n.Return()
        else:
            depth = self.r.randint(1, len(self.frames))
            loops = self.frames[-depth] == "loop"
            stmt = n.Continue(depth) if loops and self.chance(0.4) else n.Break(depth)
        self.b.if_(self.condition(), [stmt])

    # -- tasks ---------------------------------------------------------------------------------------------------

    def serial(self) -> Task:
        """Return serial code of the kernel, whose top-level declarations later tasks can use."""
        self.roles = {**dict.fromkeys(SHAPES, FREE), "k": FREE}
        self.reduced, self.lanes = {}, ()
        self.budget = self.r.randint(1, 5)
        while self.budget > 0:
            self.budget -= 1
            self.statement(2)
        return Task(self.b.take())

    def parallel(self) -> Task:
        b, flat = self.b, self.chance(0.75)
        outer, self.scope = self.scope, self.scope.copy()
        reals = list(self.scope.reals)
        self.scope.values = [v for v in self.scope.values if self.chance(0.5)]
        self.assign(flat)
        with b.block() as bounds:
            ends = [self.extent()] if flat else [(b.const(0, i32), b.const(STEPS, i32)), self.extent()]
        self.lanes = tuple(b.fresh(i32) for _ in ends)
        self.scope.ranges += [(self.lanes[-1], 0, LANES - 1)] + ([] if flat else [(self.lanes[0], 0, STEPS - 1)])
        self.reduced = {v: self.r.choice(("add", "sub", "min", "max")) for v in reals if self.chance(0.4)}
        self.budget = self.r.randint(2, 9)
        with b.block() as body:
            self.borrow([v for v in reals if v not in self.reduced])
            while self.budget > 0:
                self.budget -= 1
                self.statement(2)
            if self.reduced and self.chance(0.7):
                self.reduce()
        self.scope = outer
        b.take()
        return Task(tuple(body), self.lanes, tuple(bounds), tuple(e[0] for e in ends), tuple(e[1] for e in ends))

    def borrow(self, reals: list[str]) -> None:
        """Declare locals of this task, initialized with kernel-level variables, which the task may not overwrite."""
        for names, dtype in ((reals, f64), (self.scope.ints, i32), (self.scope.flags, u1)):
            made = [self.b.local(self.name("v"), dtype, self.b.get(v, dtype)) for v in names if self.chance(0.5)]
            kept = {f64: "reals", i32: "ints", u1: "flags"}[dtype]
            setattr(self.scope, kept, made)

    def assign(self, flat: bool) -> None:
        """Choose for each array how this task may access it."""
        flats = (READ, OWN, OWN, ADDED, EXTREME, ABSENT) if flat else (READ, ADDED)
        kinds = {**dict.fromkeys(FLAT, flats), **dict.fromkeys(GRID, (READ, OWN, OWN, ADDED))}
        kinds |= {"m": (READ, ADDED, EXTREME), "l": (READ, ADDED)}
        self.roles = {array: self.r.choice(kinds[array]) for array in SHAPES} | {"k": READ}
        self.mirrored = {array for array in SHAPES if self.chance(0.15)}
        self.extreme = self.r.choice(("min", "max"))

    def extent(self) -> tuple[Value, Value]:
        """Return begin and end of a range of iterations: all of them, or as many as a kernel-level integer says."""
        b = self.b
        choices = [lambda: b.shape("x", 0), lambda: self.wrapped(b.arg("n", i32), LANES + 1)]
        if self.scope.ints:
            choices.append(lambda: self.wrapped(b.get(self.r.choice(self.scope.ints), i32), LANES + 1))
        return b.const(self.r.choice((0, 0, 1)), i32), self.pick(*choices)

    def kernel(self, seed: int) -> Kernel:
        tasks = []
        for _ in range(self.r.randint(1, 5)):
            tasks.append(self.serial() if self.chance(0.35) else self.parallel())
        params = [Param(a, ArrayType(f64, len(shape), self.chance(0.9))) for a, shape in SHAPES.items()]
        params += [Param("c", ArrayType(i32, 1)), Param("k", ArrayType(i32, 1)), Param("n", i32)]
        return Kernel(f"program{seed}", tuple(params), tuple(tasks))


def make_program(seed: int) -> Kernel:
    """Return a random kernel of stage source, which is the same for the same seed."""
    return _Program(seed).kernel(seed)


def make_state(seed: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return arrays and scalars on which the random kernels run."""
    rng = np.random.default_rng(seed)
    arrays = {a: rng.uniform(-1.2, 1.2, shape) for a, shape in SHAPES.items()}
    arrays |= {"c": rng.integers(0, 4, LANES).astype(np.int32), "k": rng.integers(0, 4, 2).astype(np.int32)}
    return arrays, {"n": int(rng.integers(0, 5))}
