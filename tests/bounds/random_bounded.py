"""Draw random kernels for tests of error bounds: every real operation, loops, branches, scatters, minima and maxima.

`make_kernel(seed, dtype)` gives a kernel of stage tasks over real arrays x, w, y, z with gradients and an i32 array c.
Most values stay of order one; some operations are given operands near their poles and jumps on purpose.
"""

from __future__ import annotations

import random

import numpy as np
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import ArrayType, Scalar, i32

REALS = ("x", "w", "y", "z")
TAME = ("sin", "cos", "tanh")
TRIPS = (0, 1, 2, 3, 5, 8, 20)


class Generator:
    """Draw one kernel; `lanes` is the length of arrays, `wild` the share of operations near jumps and poles."""

    def __init__(self, seed: int, dtype: Scalar, lanes: int, wild: float) -> None:
        self.r = random.Random(seed)
        self.b = Builder()
        self.dtype = dtype
        self.lanes = lanes
        self.wild = wild
        self.vars: list[str] = []
        self.indices: list[Value] = []
        self.names = 0
        self.budget = self.r.randint(4, 14)
        self.extremes = self.r.random() < 0.3

    def const(self, value: float) -> Value:
        return self.b.const(value, self.dtype)

    def integer(self) -> Value:
        choices = [lambda: self.b.const(self.r.choice(TRIPS), i32), lambda: self.b.load("c", (self.lane,), i32)]
        if self.indices:
            choices.append(lambda: self.r.choice(self.indices))
        return self.r.choice(choices)()

    def somewhere(self) -> Value:
        return self.lane if self.r.random() < 0.5 else self.b.load("c", (self.lane,), i32)

    # -- expressions -------------------------------------------------------------------------------------------

    def leaf(self) -> Value:
        if self.vars and self.r.random() < 0.6:
            return self.b.get(self.r.choice(self.vars), self.dtype)
        return self.r.choice(
            [
                lambda: self.const(round(self.r.uniform(-1.5, 1.5), 2)),
                lambda: self.b.load(self.r.choice("xw"), (self.somewhere(),), self.dtype),
                lambda: self.b.cast(self.integer(), self.dtype),
            ]
        )()

    def real(self, depth: int = 2) -> Value:
        if depth == 0:
            return self.leaf()
        b, sub = self.b, lambda: self.real(depth - 1)
        if self.r.random() < self.wild:
            return self.edge(sub)
        return self.r.choice(
            [
                lambda: b.op(self.r.choice(("add", "sub")), sub(), sub()),
                lambda: b.op("mul", sub(), b.op(self.r.choice(TAME), sub())),
                lambda: b.op(self.r.choice((*TAME, "neg", "abs")), sub()),
                lambda: b.op("div", sub(), b.op("add", self.const(2.5), b.op("sin", sub()))),
                lambda: b.op(self.r.choice(("sqrt", "log", "rsqrt", "inv", "rcp")), self.positive(sub())),
                lambda: b.op("exp", b.op("tanh", sub())),
                lambda: b.op("pow", self.positive(sub()), self.const(self.r.choice((2.0, -1.0, 1.5, 3.0)))),
                lambda: b.op(self.r.choice(("asin", "acos")), b.op("mul", self.const(0.9), b.op("sin", sub()))),
                lambda: b.op("atan2", sub(), self.positive(sub())),
                lambda: b.op(self.r.choice(("min", "max")), sub(), sub()),
                lambda: b.op("select", self.condition(), sub(), sub()),
            ]
        )()

    def edge(self, sub) -> Value:
        b = self.b
        return self.r.choice(
            [
                lambda: b.op(self.r.choice(("floor", "ceil", "round", "sgn")), sub()),
                lambda: b.op(self.r.choice(("mod", "floordiv")), sub(), self.const(0.75)),
                lambda: b.op(self.r.choice(("sqrt", "log", "inv", "tan", "asin", "frexp_mantissa")), sub()),
                lambda: b.op("div", sub(), sub()),
                lambda: b.cast(b.cast(b.op("mul", sub(), self.const(4.0)), i32), self.dtype),
            ]
        )()

    def positive(self, value: Value) -> Value:
        return self.b.op("add", self.const(0.5), self.b.op("abs", value))

    def condition(self) -> Value:
        op = "cmp_" + self.r.choice(("lt", "gt", "le", "ge"))
        if self.r.random() < 0.6:
            return self.b.op(op, self.real(1), self.real(1))
        return self.b.op(op, self.integer(), self.integer())

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        known = list(self.vars)
        for _ in range(self.r.randint(1, 4)):
            if self.budget <= 0:
                break
            self.budget -= 1
            simple = [self.assign] * 4 + [self.declare] * 2 + [self.scatter, self.own]
            nested = [self.branch, self.loop, self.loop, self.loop]
            chosen = self.r.choice(simple + (nested if depth else []))
            chosen(depth - 1) if chosen in nested else chosen()
        self.vars = known

    def declare(self) -> None:
        self.names += 1
        self.vars.append(self.b.local(f"v{self.names}", self.dtype, self.real()))

    def assign(self) -> None:
        """Emit an assignment of a bounded value, so that loops of many trips do not overflow."""
        value = self.b.op(self.r.choice(TAME), self.real()) if self.r.random() < 0.7 else self.real(1)
        self.b.set(self.r.choice(self.vars), self.b.op("mul", self.const(0.7), value))

    def scatter(self) -> None:
        self.b.atomic("max" if self.extremes else "add", "z", (self.somewhere(),), self.real())

    def own(self) -> None:
        if self.r.random() < 0.5:
            self.b.store("y", (self.lane,), self.real())
        else:
            self.b.atomic("add", "y", (self.lane,), self.real())

    def branch(self, depth: int) -> None:
        condition = self.condition()
        with self.b.block() as then:
            self.block(depth)
        with self.b.block() as orelse:
            self.block(depth)
        self.b.if_(condition, then, orelse)

    def loop(self, depth: int) -> None:
        b = self.b
        begin, end, index = b.const(0, i32), self.integer(), b.fresh(i32)
        with b.block() as body:
            self.indices.append(index)
            self.assign()
            self.block(depth)
            self.indices.pop()
        b.emit(n.For(index, begin, end, tuple(body), step=self.r.choice((1, 1, 2))))

    def kernel(self, name: str) -> Kernel:
        b = self.b
        with b.block() as bounds:
            begin, end = b.const(0, i32), b.shape("x", 0)
        self.lane = b.fresh(i32)
        with b.block() as body:
            self.vars.append(b.local("v0", self.dtype, b.load("x", (self.lane,), self.dtype)))
            while self.budget > 0:
                self.block(2)
            b.atomic("max" if self.extremes else "add", "z", (self.lane,), b.get("v0", self.dtype))
        task = Task(tuple(body), (self.lane,), tuple(bounds), (begin,), (end,))
        params = [Param(a, ArrayType(self.dtype, 1, True)) for a in REALS] + [Param("c", ArrayType(i32, 1))]
        return Kernel(name, tuple(params), (task,))


def make_kernel(seed: int, dtype: Scalar, lanes: int, wild: float = 0.03) -> Kernel:
    """Return a random kernel, which is the same for the same arguments."""
    return Generator(seed, dtype, lanes, wild).kernel(f"bounded{seed}")


def make_arrays(seed: int, dtype: Scalar, lanes: int) -> dict[str, np.ndarray]:
    """Return inputs that differ between lanes, non-zero initial outputs, and indices and trip counts up to 5."""
    rng = np.random.default_rng(seed)
    arrays = {a: rng.uniform(-1.2, 1.2, lanes).astype(dtype.dtype) for a in REALS}
    return arrays | {"c": rng.integers(0, 6, lanes).astype(np.int32)}
