"""Draw random loop nests with pushes, whose loop bounds take every form that sizing must handle.

Loops with steps, empty and negative ranges; bounds that are numbers, arguments, shapes, outer indices, elements (own,
shifted, indirect, lists of row starts), their sums, differences, products, quotients, remainders, minima, maxima and
choices; conditions on indices, elements and reals; reals of two widths and integers with a history; a few loops that
end early, whose depth only a count finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

PARAMS = (
    "x: {real}[1] grad, y: {real}[1] grad, g: f64[1], cnt: i32[1], row: i32[1], idx: i32[1], wide: i64[1], p: u1[1], "
    "q: i32[0], m: i32, k: i64"
)
N = 6
"""Elements of the arrays over the task's index."""


@dataclass(frozen=True)
class Nest:
    """Represent a kernel with the data for its gradient; `hard` means that some loop needs counting."""

    kernel: Kernel
    text: str
    arrays: dict[str, np.ndarray]
    scalars: dict[str, int]
    hard: bool


def make_nest(seed: int, easy: bool = False) -> Nest:
    """Return the random nest of a seed; an `easy` one has no loops that end early."""
    return _Writer(np.random.default_rng(seed), easy).nest()


class _Writer:
    def __init__(self, rng: np.random.Generator, easy: bool) -> None:
        self.rng = rng
        self.count = 100
        self.names = 0
        self.lines: list[str] = []
        self.indices: list[str] = []
        self.real = ("f64", "f32")[self.upto(2)]
        self.axes = 1 + (self.upto(4) == 0)
        self.serial = self.upto(12) == 0
        self.easy = easy
        self.hard = False

    def upto(self, n: int) -> int:
        return int(self.rng.integers(n))

    def pick(self, *makers: Callable[[], str]) -> str:
        return makers[self.upto(len(makers))]()

    # -- lines ----------------------------------------------------------------------------------------------

    def value(self, dtype: str, rest: str) -> str:
        self.count += 1
        self.lines.append(f"%{self.count}: {dtype} = {rest}")
        return f"%{self.count}"

    def number(self, n: int) -> str:
        return self.value("i32", f"const {n}")

    def op(self, name: str, *args: str, dtype: str = "i32") -> str:
        return self.value(dtype, f"{name} {', '.join(args)}")

    # -- bounds ---------------------------------------------------------------------------------------------

    def index(self) -> str:
        """Return the index of an enclosing loop."""
        return self.indices[self.upto(len(self.indices))] if self.indices else self.number(2)

    def place(self) -> str:
        """Return an index inside of the arrays."""
        if self.indices and self.upto(3):
            return self.indices[0] if not self.serial else self.op("mod", self.index(), self.number(N))
        return self.op("mod", self.index(), self.number(N))

    def small(self) -> str:
        """Return an integer that is not large."""
        return self.pick(
            lambda: self.number(self.upto(8) - 2),
            lambda: self.value("i32", "arg m"),
            lambda: self.value("i32", "shape x, 0"),
            lambda: self.value("i32", "load q[]"),
            self.index,
            self.index,
            lambda: self.value("i32", f"load cnt[{self.place()}]"),
            lambda: self.value("i32", f"load cnt[{self.value('i32', f'load idx[{self.place()}]')}]"),
            lambda: self.value("i32", f"cast {self.value('i64', f'load wide[{self.place()}]')}"),
            lambda: self.value("i32", f"cast {self.value('i64', 'arg k')}"),
        )

    def bound(self) -> str:
        """Return a loop bound made of one or two small integers."""
        return self.pick(
            self.small,
            self.small,
            self.small,
            lambda: self.op("add", self.small(), self.number(self.upto(4) - 1)),
            lambda: self.op("sub", self.value("i32", "arg m"), self.index()),
            lambda: self.op("sub", self.small(), self.small()),
            lambda: self.op("min", self.small(), self.small()),
            lambda: self.op("max", self.small(), self.small()),
            lambda: self.op("mul", self.index(), self.number(self.upto(3))),
            lambda: self.op("floordiv", self.small(), self.number((2, 3, -2)[self.upto(3)])),
            lambda: self.op("mod", self.small(), self.number(1 + self.upto(4))),
            lambda: self.op("select", self.condition(), self.small(), self.small()),
        )

    def condition(self) -> str:
        """Return the condition of a guard."""
        compare = f"cmp_{('lt', 'le', 'gt', 'ge', 'eq', 'ne')[self.upto(6)]}"
        return self.pick(
            lambda: self.op(compare, self.index(), self.number(self.upto(5)), dtype="u1"),
            lambda: self.op(compare, self.index(), self.small(), dtype="u1"),
            lambda: self.op(compare, self.small(), self.number(self.upto(3)), dtype="u1"),
            lambda: self.value("u1", f"load p[{self.place()}]"),
            lambda: self.op(
                compare, self.value("f64", f"load g[{self.place()}]"), self.value("f64", "const 0.5"), dtype="u1"
            ),
        )

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, depth: int) -> None:
        for _ in range(1 + self.upto(2)):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        choice = self.upto(10)
        if depth == 0 or choice < 2:
            self.update()
        elif choice < 4:
            self.guard(depth)
        elif choice == 4 and not self.easy and self.upto(20) == 0:
            self.early(depth)
        else:
            self.loop(depth)

    def update(self) -> None:
        if self.upto(4):
            name = "ab"[self.upto(2)]
            made = self.value(self.real, f"sin {self.value(self.real, f'get {name}')}")
            self.lines.append(f"set {name}, {made}")
            return
        old = self.value("i32", "get h")
        real = self.value(self.real, f"cast {old}")
        product = self.op("mul", self.value(self.real, "get a"), real, dtype=self.real)
        more = self.op("add", self.op("mul", old, old), self.number(1))
        self.lines += [f"set a, {product}"]
        self.lines.append(f"set h, {self.op('mod', more, self.number(5))}")

    def guard(self, depth: int) -> None:
        self.lines.append(f"if {self.condition()} {{")
        self.block(depth - 1)
        if self.upto(3) == 0:
            self.lines.append("} else {")
            self.block(depth - 1)
        self.lines.append("}")

    def loop(self, depth: int, until: str = "") -> None:
        if self.indices and not self.serial and self.upto(6) == 0:  # a list of row starts
            place = self.indices[0]
            begin = self.value("i32", f"load row[{place}]")
            end, step = self.value("i32", f"load row[{self.op('add', place, self.number(1))}]"), 1
        else:
            begin, end, step = self.bound(), self.bound(), (1, 1, 1, 2, 3, -1, -2)[self.upto(7)]
        self.count += 1
        index = f"%{self.count}"
        self.lines.append(f"for {index}: i32 in {begin} .. {end}{f' step {step}' if step != 1 else ''}{until} {{")
        self.indices.append(index)
        self.block(depth - 1)
        if until:
            stop = self.op(
                "cmp_gt", self.value("f64", f"load g[{self.place()}]"), self.value("f64", "const 0.8"), dtype="u1"
            )
            self.lines.append(f"set {until.split()[1]}, {stop}")
        self.indices.pop()
        self.lines.append("}")

    def early(self, depth: int) -> None:
        self.hard = True
        self.names += 1
        self.lines.append(f"local s{self.names}: u1")
        self.loop(depth, f" until s{self.names}")

    # -- kernels --------------------------------------------------------------------------------------------

    def nest(self) -> Nest:
        head = "serial {"
        if not self.serial:
            ends = ", ".join(("%0 .. %1", "%0 .. %2")[: self.axes])
            names = ", ".join(("%3: i32", "%4: i32")[: self.axes])
            bounds = f"%0: i32 = const {0 if self.upto(3) else 1} %1: i32 = shape cnt, 0 %2: i32 = const 3"
            head = f"bounds {{ {bounds} }} parallel {names} in {ends} {{"
            self.indices = ["%3", "%4"][: self.axes]
        zero = self.number(0)
        at = self.indices[0] if self.indices else zero
        self.lines += [f"local a: {self.real}", f"local b: {self.real}", "local h: i32"]
        for name in "ab":
            self.lines.append(f"set {name}, {self.value(self.real, f'load x[{at}]')}")
        self.block(1 + self.upto(3))
        done = self.op("add", *(self.value(self.real, f"get {name}") for name in "ab"), dtype=self.real)
        self.lines.append(f"%{self.count + 1}: {self.real} = atomic add y[{at}], {done}")
        body = "\n    ".join(self.lines)
        text = f"kernel run({PARAMS.format(real=self.real)}) {{\n  {head}\n    {body}\n  }}\n}}"
        return Nest(parse_kernel(text), text, self.arrays(), {"m": self.upto(6) - 1, "k": self.upto(5)}, self.hard)

    def arrays(self) -> dict[str, np.ndarray]:
        rng, real = self.rng, {"f64": np.float64, "f32": np.float32}[self.real]
        lengths = rng.integers(0, 4, N)
        return {
            "x": rng.random(N).astype(real),
            "y": np.zeros(N, real),
            "g": rng.random(N),
            "cnt": rng.integers(-2, 6, N).astype(np.int32),
            "p": rng.random(N) > 0.5,
            "row": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "idx": rng.integers(0, N, N).astype(np.int32),
            "wide": rng.integers(0, 5, N),
            "q": np.array(self.upto(5), np.int32),
            "x.grad": np.zeros(N, real),
            "y.grad": np.ones(N, real),
        }
