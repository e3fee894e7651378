"""Draw scopes, indices and expressions for random kernels."""

from __future__ import annotations

import random

from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import f64, i32, i64, u1

LANES, STEPS = 4, 6
FLAT = ("x", "w", "y", "z")
GRID = ("s", "r")
SHAPES = {**dict.fromkeys(FLAT, (LANES,)), **dict.fromkeys(GRID, (STEPS, LANES)), "m": (3,), "l": ()}
READ, OWN, ADDED, EXTREME, FREE, ABSENT = "read", "own", "added", "extreme", "free", "absent"


class Scope:
    """Hold the names and values that a statement may use; `ranges` has the least and greatest value of loop indices."""

    def __init__(self) -> None:
        self.reals: list[str] = []
        self.ints: list[str] = []
        self.flags: list[str] = []
        self.values: list[Value] = []
        self.ranges: list[tuple[Value, int, int]] = []

    def copy(self) -> Scope:
        made = Scope()
        for name, content in vars(self).items():
            setattr(made, name, list(content))
        return made


class Expressions:
    """Draw the expressions that a random kernel computes at one point of its construction."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.b = Builder()
        self.scope = Scope()
        self.names = 0
        self.budget = 0
        self.frames: list[str] = []
        self.counters: set[str] = set()
        self.roles: dict[str, str] = {}
        self.extreme = "max"
        self.lanes: tuple[Value, ...] = ()
        self.mirrored: set[str] = set()
        self.reduced: dict[str, str] = {}
        self.exits = self.r.random() < 0.6
        self.gathers = self.r.random() < 0.7

    def name(self, base: str) -> str:
        self.names += 1
        return f"{base}{self.names}"

    def pick(self, *choices):  # type: ignore[no-untyped-def]
        return self.r.choice(choices)()

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    # -- indices -------------------------------------------------------------------------------------------------

    def wrapped(self, value: Value, extent: int) -> Value:
        """Return a data-dependent index that is kept inside [0, extent)."""
        return self.b.op("mod", value, self.b.const(extent, value.type))

    def affine(self, extent: int) -> Value | None:
        """Return a·index + k for an enclosing loop with a and k that keep it inside, or None if there are none."""
        fitting = [
            (index, a, k)
            for index, low, high in self.scope.ranges
            for a in (1, 1, -1, 2)
            for k in range(-3, extent + 4)
            if all(0 <= a * v + k < extent for v in (low, high))
        ]
        if not fitting:
            return None
        index, a, k = self.r.choice(fitting)
        scaled = index if a == 1 else self.b.op("mul", index, self.b.const(a, i32))
        return scaled if k == 0 and self.chance(0.9) else self.b.op("add", scaled, self.b.const(k, i32))

    def anywhere(self, extent: int) -> Value:
        b = self.b
        found = self.affine(extent) if self.chance(0.6) else None
        if found is not None:
            return b.cast(b.cast(found, i64), i32) if self.chance(0.1) else found
        if self.gathers and self.chance(0.6):
            return self.pick(
                lambda: self.wrapped(b.load("c", (self.anywhere(LANES),), i32), extent),
                lambda: self.wrapped(self.integer(), extent),
            )
        return b.const(self.r.randrange(extent), i32)

    def element(self, array: str) -> tuple[Value, ...]:
        """Return the indices of an access to the array that are allowed by the array's role in this task."""
        if self.roles.get(array) != OWN:
            return tuple(self.anywhere(extent) for extent in SHAPES[array])
        own = self.lanes[-1]
        if array in self.mirrored:
            own = self.b.op("sub", self.b.const(LANES - 1, i32), own)
        if array in GRID:
            return (self.lanes[0] if len(self.lanes) == 2 else self.anywhere(STEPS), own)
        return (own,)

    def allowed(self, *roles: str) -> list[str]:
        return [a for a, role in self.roles.items() if role in roles and a in SHAPES]

    # -- expressions ---------------------------------------------------------------------------------------------

    def integer(self) -> Value:
        b = self.b
        choices = [lambda: b.const(self.r.randint(0, 3), i32), lambda: b.arg("n", i32)]
        if self.scope.ints:
            choices += [lambda: b.get(self.r.choice(self.scope.ints), i32)] * 2
        if self.scope.ranges:
            choices += [lambda: self.r.choice(self.scope.ranges)[0]] * 2
        if "k" in self.allowed_ints:
            choices.append(lambda: b.load("k", (b.const(self.r.randrange(2), i32),), i32))
        return self.pick(*choices)

    @property
    def allowed_ints(self) -> set[str]:
        return {"k"} if self.roles.get("k") in (READ, FREE) else set()

    def leaf(self) -> Value:
        b = self.b
        choices = [lambda: b.const(round(self.r.uniform(-1.5, 1.5), 2), f64)]
        if self.chance(0.2):
            choices.append(lambda: b.cast(self.integer(), f64))
        readable = self.allowed(READ, OWN, FREE)
        if readable:
            choices += [lambda: self.loaded(self.r.choice(readable))] * 3
        if self.scope.reals:
            choices += [lambda: b.get(self.r.choice(self.scope.reals), f64)] * 3
        if self.scope.values:
            choices += [lambda: self.r.choice(self.scope.values)]
        return self.pick(*choices)

    def loaded(self, array: str) -> Value:
        value = self.b.load(array, self.element(array), f64)
        if self.chance(0.5):
            self.scope.values.append(value)
        return value

    def real(self, depth: int = 2) -> Value:
        b = self.b
        if depth == 0 or self.chance(0.3):
            return self.leaf()

        def sub() -> Value:
            return self.real(depth - 1)

        made = self.pick(
            lambda: b.op("add", sub(), sub()),
            lambda: b.op("sub", sub(), sub()),
            lambda: b.op("tanh", b.op("mul", sub(), sub())),
            lambda: b.op("mul", b.op("sin", sub()), b.op("cos", sub())),
            lambda: b.op("neg", sub()),
            lambda: b.op("mul", sub(), b.const(0.5, f64)),
            lambda: b.op("div", sub(), b.op("add", b.const(2.5, f64), b.op("sin", sub()))),
            lambda: b.op(self.r.choice(("min", "max")), sub(), sub()),
            lambda: b.op("select", self.condition(), sub(), sub()),
        )
        if self.chance(0.2):
            self.scope.values.append(made)
        return made

    def bounded(self) -> Value:
        """Return a real of magnitude about one."""
        return self.b.op("tanh", self.real()) if self.chance(0.3) else self.b.op("sin", self.real())

    def condition(self) -> Value:
        b = self.b
        op = "cmp_" + self.r.choice(("lt", "gt", "le", "ge"))
        if self.scope.flags and self.chance(0.3):
            return b.get(self.r.choice(self.scope.flags), u1)
        if self.chance(0.5):
            return b.op(op, self.real(1), self.real(1))
        return b.op(op, self.integer(), self.integer())
