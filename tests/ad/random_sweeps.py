"""Draw random loop nests over small arrays, whose reads and writes of an element come in every order.

They have affine indices, strides, ranges that depend on outer indices, and loops in both directions. A test asserts
that each kernel is differentiated right or refused.
"""

from __future__ import annotations

import random

import numpy as np
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import ArrayType, f64, i32, u1

SHAPES = {"a": (7,), "b": (4, 4), "y": (3,)}


class _Sweep:
    """Draw one kernel of a loop nest; if `tight`, it has one statement, and every conflict changes the gradient."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.b = Builder()
        self.indices: list[Value] = []
        self.opaque: list[Value] = []
        self.tight = self.r.random() < 0.6
        self.budget = self.r.randint(2, 5)
        choices = ((1,), (1,), (1, 1), (0, 1), (-1,), (2,), (2, 1), (1, 2))
        self.factors = {a: [self.r.choice(choices) for _ in shape] for a, shape in SHAPES.items()}

    def number(self, value: int) -> Value:
        return self.b.const(value, i32)

    def affine(self, offsets: range, own: tuple[int, ...] = ()) -> Value:
        """Return an affine index: loop indices times factors, plus an offset, sometimes plus an argument or a load."""
        b, total = self.b, self.number(self.r.choice(offsets))
        terms = list(zip(reversed(self.indices), own))
        if not own:
            chosen = self.r.sample(self.indices[-3:], min(len(self.indices), self.r.choice((1, 1, 2))))
            terms = [(symbol, self.r.choice((1, 1, -1, 2, 3))) for symbol in chosen]
        if self.r.random() < 0.1:
            terms.append((b.arg("n", i32), 1))
        if self.opaque and self.r.random() < 0.2:
            terms.append((self.r.choice(self.opaque), 1))
        for symbol, factor in terms:
            if factor:
                total = b.op("add", total, symbol if factor == 1 else b.op("mul", symbol, self.number(factor)))
        return total

    def place(self, array: str) -> tuple[tuple[Value, ...], Value]:
        """Return the indices of an element, and the condition that they are inside of the array."""
        b = self.b
        own = self.factors[array] if self.r.random() < 0.75 else [()] * len(SHAPES[array])
        at = tuple(self.affine(range(3) if f else range(-2, 5), f) for f in own)
        inside = b.const(True, u1)
        for index, extent in zip(at, SHAPES[array]):
            inside = b.op("logical_and", inside, b.op("cmp_ge", index, self.number(0)))
            inside = b.op("logical_and", inside, b.op("cmp_lt", index, self.number(extent)))
        return at, inside

    def step(self) -> None:
        """Emit array[..] = f(array[..], v) and v = g(v, array[..]) under the condition that all indices are inside."""
        b = self.b
        source, target = self.r.choice(("aa", "aa", "bb", "ab", "ba"))
        at, inside = self.place(source)
        to, fits = self.place(target)
        with b.block() as body:
            old = b.load(source, at, f64)
            made = b.op("sin", b.op("mul", old, old)) if self.r.random() < 0.7 else b.op("mul", old, b.const(0.7, f64))
            if self.r.random() < 0.2:
                b.set("v", b.op("add", b.op("mul", b.get("v", f64), b.const(0.5, f64)), made))
            else:
                value = b.op("add", made, b.op("sin", b.get("v", f64))) if self.r.random() < 0.5 else made
                if self.r.random() < 0.2:
                    b.atomic("add", target, to, value)
                else:
                    b.store(target, to, value)
        b.if_(b.op("logical_and", inside, fits), body)

    def loop(self, depth: int) -> None:
        b = self.b
        near = [*self.indices, *self.opaque]
        begin = self.number(self.r.randint(0, 2))
        if near and self.r.random() < 0.6:
            begin = b.op("add", self.r.choice(near), self.number(self.r.randint(-1, 1)))
        end = b.op("add", begin, self.number(self.r.randint(1, 4))) if self.r.random() < 0.4 else self.number(4)
        step = self.r.choice((1, 1, 2, 2, -1, -2, 3))
        if step < 0:
            begin, end = end, begin
        index = b.fresh(i32)
        with b.block() as body:
            self.indices.append(index)
            self.block(depth - 1)
            self.indices.pop()
        b.emit(n.For(index, begin, end, tuple(body), step=step, descending=self.r.random() < 0.15))

    def block(self, depth: int) -> None:
        if self.tight:
            self.budget = 0
            if depth > 0:
                self.loop(depth)
            else:
                self.step()
            return
        known = list(self.opaque)
        for _ in range(self.r.randint(1, 3)):
            if self.budget <= 0:
                break
            self.budget -= 1
            if depth > 0 and self.r.random() < 0.6:
                self.loop(depth)
            else:
                self.step()
            if self.r.random() < 0.15:
                self.opaque.append(self.b.load("c", (self.number(self.r.randrange(3)),), i32))
        self.opaque = known

    def kernel(self, seed: int) -> Kernel:
        tasks = []
        for _ in range(self.r.choice((1, 1, 2))):
            self.budget = max(self.budget, 2)
            b = self.b
            b.local(f"w{len(tasks)}", f64)
            self.opaque = [b.load("c", (self.number(0),), i32)] if self.r.random() < 0.3 else []
            b.local("v", f64, b.const(0.3, f64)) if not tasks else b.set("v", b.const(0.4, f64))
            while self.budget > 0:
                self.loop(2)
            b.store("y", (self.number(len(tasks)),), b.get("v", f64))
            tasks.append(Task(b.take()))
            self.budget = self.r.randint(0, 3)
        params = [Param(a, ArrayType(f64, len(shape), True)) for a, shape in SHAPES.items()]
        return Kernel(f"sweep{seed}", (*params, Param("c", ArrayType(i32, 1)), Param("n", i32)), tuple(tasks))


def make_sweep(seed: int) -> Kernel:
    """Return a random kernel of stage source, which is the same for the same seed."""
    return _Sweep(seed).kernel(seed)


def make_state(seed: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return arrays and scalars on which the random kernels run."""
    rng = np.random.default_rng(seed)
    arrays = {a: rng.uniform(-1.2, 1.2, shape) for a, shape in SHAPES.items()}
    return arrays | {"c": rng.integers(0, 4, 3).astype(np.int32)}, {"n": int(rng.integers(0, 5))}
