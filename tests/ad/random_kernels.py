"""Draw random kernels in raw IR: loops of every shape, exits, branches, locals, gathers, scatters, own elements.

`make_kernel(seed)` gives a kernel of stage tasks over f64 arrays x, w, y, z of length LANES with gradients and an i32
array c of small numbers. Values stay of order one, so that a derivative can be judged in double precision.
"""

from __future__ import annotations

import random

import numpy as np
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.statement import Stmt, Value
from stackgrad.compiler.ir.types import ArrayType, f64, i32

LANES = 5
REALS = ("x", "w", "y", "z")


class _Generator:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.b = Builder()
        self.reals: list[str] = []
        self.ints: list[str] = []
        self.frames: list[str] = []
        self.indices: list[Value] = []
        self.names = 0
        self.budget = self.r.randint(4, 22)
        self.fixed: set[str] = set()

    def name(self, base: str) -> str:
        self.names += 1
        return f"{base}{self.names}"

    def pick(self, *choices):  # type: ignore[no-untyped-def]
        return self.r.choice(choices)()

    # -- expressions ---------------------------------------------------------------------------------------------

    def index(self) -> Value:
        """Return a random index inside of the arrays: the iteration's own, one read from an array, or a constant."""
        b = self.b
        return self.pick(
            lambda: self.lane,
            lambda: self.lane,
            lambda: b.load("c", (self.lane,), i32),
            lambda: b.const(self.r.randrange(LANES), i32),
        )

    def integer(self) -> Value:
        b = self.b
        choices = [lambda: b.const(self.r.randint(0, 3), i32), lambda: b.load("c", (self.index(),), i32)]
        if self.ints:
            choices.append(lambda: b.get(self.r.choice(self.ints), i32))
        if self.indices:
            choices.append(lambda: self.r.choice(self.indices))
        return self.pick(*choices)

    def real(self, depth: int = 2) -> Value:
        b = self.b
        if depth == 0 or self.r.random() < 0.25:
            choices = [
                lambda: b.const(round(self.r.uniform(-1.5, 1.5), 2), f64),
                lambda: b.load(self.r.choice("xw"), (self.index(),), f64),
                lambda: b.cast(self.integer(), f64),
            ]
            if self.reals:
                choices += [lambda: b.get(self.r.choice(self.reals), f64)] * 3
            return self.pick(*choices)
        sub = lambda: self.real(depth - 1)
        return self.pick(
            lambda: b.op("add", sub(), sub()),
            lambda: b.op("sub", sub(), sub()),
            lambda: b.op("tanh", b.op("mul", sub(), sub())),
            lambda: b.op(self.r.choice(("sin", "cos", "tanh", "abs")), sub()),
            lambda: b.op("div", sub(), b.op("add", b.const(2.5, f64), b.op("sin", sub()))),
            lambda: b.op(self.r.choice(("min", "max")), sub(), sub()),
            lambda: b.op("select", self.condition(), sub(), sub()),
        )

    def condition(self) -> Value:
        b = self.b
        op = "cmp_" + self.r.choice(("lt", "gt", "le", "ge"))
        if self.r.random() < 0.5:
            return b.op(op, self.real(1), self.real(1))
        return b.op(op, self.integer(), self.integer())

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        reals, ints, indices = list(self.reals), list(self.ints), list(self.indices)
        for _ in range(self.r.randint(1, 4)):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(depth)
        self.reals, self.ints, self.indices = reals, ints, indices

    def statement(self, depth: int) -> None:
        simple = [self.set_real] * 4 + [self.declare] * 2 + [self.set_int, self.scatter, self.own, self.read_own]
        nested = [self.if_] * 3 + [self.for_] * 4 + [self.while_] * 2 + [self.scope, self.exit, self.exit]
        chosen = self.r.choice(simple + (nested if depth > 0 else [self.exit]))
        if chosen in simple or chosen == self.exit:
            chosen()
        else:
            chosen(depth - 1)

    def declare(self) -> None:
        if self.r.random() < 0.75:
            value = self.real()
            self.reals.append(self.b.local(self.name("v"), f64, value if self.r.random() < 0.9 else None))
        else:
            self.ints.append(self.b.local(self.name("k"), i32, self.integer()))

    def set_real(self) -> None:
        if self.reals:
            self.b.set(self.r.choice(self.reals), self.real())

    def set_int(self) -> None:
        free = [k for k in self.ints if k not in self.fixed]
        if free:
            total = self.b.op("add", self.integer(), self.integer())
            self.b.set(self.r.choice(free), self.b.op("mod", total, self.b.const(4, i32)))

    def scatter(self) -> None:
        self.b.atomic("add", "z", (self.index(),), self.real())

    def own(self) -> None:
        if self.r.random() < 0.5:
            self.b.store("y", (self.lane,), self.real())
        else:
            self.b.atomic("add", "y", (self.lane,), self.real())

    def read_own(self) -> None:
        if self.reals:
            self.b.set(self.r.choice(self.reals), self.b.op("tanh", self.b.load("y", (self.lane,), f64)))

    def if_(self, depth: int) -> None:
        condition = self.condition()
        with self.b.block() as then:
            self.block(depth)
        with self.b.block() as orelse:
            if self.r.random() < 0.5:
                self.block(depth)
        self.b.if_(condition, then, orelse)

    def for_(self, depth: int) -> None:
        b, step = self.b, self.r.choice((1, 1, 1, 2, -1))
        begin, end = (self.integer(), self.integer()) if self.r.random() < 0.4 else (b.const(0, i32), self.integer())
        if step < 0:
            begin, end = end, begin
        index = b.fresh(i32)
        self.frames.append("loop")
        with b.block() as body:
            self.indices.append(index)
            self.block(depth)
            self.indices.pop()
        self.frames.pop()
        b.emit(n.For(index, begin, end, tuple(body), step=step))

    def while_(self, depth: int) -> None:
        b = self.b
        counter = b.local(self.name("n"), i32)
        limit = self.integer()
        with b.block() as condition:
            below = b.op("cmp_lt", b.get(counter, i32), limit)
            if self.r.random() < 0.4:
                below = b.op("logical_and", below, self.condition())
        self.frames.append("loop")
        with b.block() as body:
            b.set(counter, b.op("add", b.get(counter, i32), b.const(1, i32)))
            self.ints.append(counter)
            self.fixed.add(counter)
            self.block(depth)
            self.ints.remove(counter)
        self.frames.pop()
        b.emit(n.While(tuple(condition), below, tuple(body)))

    def scope(self, depth: int) -> None:
        self.frames.append("scope")
        with self.b.block() as body:
            self.block(depth)
        self.frames.pop()
        self.b.emit(n.Scope(tuple(body)))

    def exit(self) -> None:
        """Emit an exit of random depth, mostly under a condition."""
        if not self.frames or self.r.random() < 0.1:
            stmt: Stmt = n.Return()
        else:
            depth = self.r.randint(1, len(self.frames))
            loops = self.frames[-depth] == "loop"
            stmt = n.Continue(depth) if loops and self.r.random() < 0.4 else n.Break(depth)
        if self.r.random() < 0.9:
            self.b.if_(self.condition(), [stmt])
        else:
            self.b.emit(stmt)
            self.budget = min(self.budget, 0)

    def kernel(self, seed: int) -> Kernel:
        b = self.b
        with b.block() as bounds:
            begin, end = b.const(0, i32), b.shape("x", 0)
        self.lane = b.fresh(i32)
        with b.block() as body:
            self.reals.append(b.local("v0", f64, b.load("x", (self.lane,), f64)))
            while self.budget > 0:
                self.block(3)
            b.atomic("add", "z", (self.lane,), b.get("v0", f64))
        task = Task(tuple(body), (self.lane,), tuple(bounds), (begin,), (end,))
        params = [Param(a, ArrayType(f64, 1, True)) for a in REALS] + [Param("c", ArrayType(i32, 1))]
        return Kernel(f"random{seed}", tuple(params), (task,))


def make_kernel(seed: int) -> Kernel:
    """Return a random kernel, which is the same for the same seed."""
    return _Generator(seed).kernel(seed)


def make_arrays(seed: int) -> dict[str, np.ndarray]:
    """Return random inputs that differ between lanes, and non-zero initial outputs."""
    rng = np.random.default_rng(seed)
    arrays = {a: rng.uniform(-1.2, 1.2, LANES) for a in REALS}
    return arrays | {"c": rng.integers(0, 4, LANES).astype(np.int32)}
