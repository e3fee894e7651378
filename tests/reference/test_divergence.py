"""Test random programs with every way to leave a block, at several depths, in lanes that diverge.

The reference runs each program in several orders of lanes, and a translation to Python one lane at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run

ORDERS = ("vector", "reverse")
LANES = 29
SEEDS = range(120)


class Program:
    """Represent a random structured program over x[i], written twice: as IR text and as Python.

    Every decision depends on the lane and on what the lane has done so far. In Python a lane leaves d frames by an
    exception whose counter each frame decreases.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ids = iter(range(100, 100_000))
        self.ir: list[str] = []
        self.py: list[str] = []
        self.frames: list[str] = []
        self.left = 40

    def both(self, ir: str, py: str, depth: int) -> None:
        self.ir.append(ir)
        self.py.append("    " * depth + py)

    def mix(self, depth: int) -> None:
        a, b, c, d = (next(self.ids) for _ in range(4))
        k, m = self.rng.choice((3, 5, 7)), self.rng.randrange(100)
        self.both(
            f"%{a}: i32 = get h %{b}: i32 = const {k} %{c}: i32 = mul %{a}, %{b}"
            f" %{d}: i32 = const {m} %{d + 50_000}: i32 = add %{c}, %{d}"
            f" set h, %{d + 50_000} store y[%0], %{d + 50_000}",
            f"h = y[lane] = wrap(h * {k} + {m})",
            depth,
        )

    def condition(self) -> tuple[str, str, str]:
        """Return a condition as IR text, the name of its value, and Python text."""
        a, b, c, d, e, f = (next(self.ids) for _ in range(6))
        k, r = self.rng.choice((2, 3, 4)), self.rng.randrange(3)
        text = (
            f"%{a}: i32 = get h %{b}: i32 = add %{a}, %0 %{c}: i32 = const {k} %{d}: i32 = mod %{b}, %{c}"
            f" %{e}: i32 = const {r} %{f}: u1 = cmp_le %{d}, %{e}"
        )
        return text, f"%{f}", f"wrap(h + lane) % {k} <= {r}"

    def block(self, depth: int, level: int) -> None:
        self.both("", "pass", depth)
        for _ in range(self.rng.randint(1, 4)):
            self.left -= 1
            choices = ["mix", "if", "leave"] + (["for", "while", "scope"] if level < 4 and self.left > 0 else [])
            getattr(self, f"add_{self.rng.choice(choices)}")(depth, level)

    def add_mix(self, depth: int, level: int) -> None:
        self.mix(depth)

    def add_if(self, depth: int, level: int) -> None:
        text, name, py = self.condition()
        self.both(f"{text} if {name} {{", f"if {py}:", depth)
        inner = self.block if level < 4 and self.left > 0 else lambda d, _: self.mix(d)
        inner(depth + 1, level + 1)
        self.both("} else {", "else:", depth)
        inner(depth + 1, level + 1)
        self.both("}", "pass", depth)

    def add_leave(self, depth: int, level: int) -> None:
        """Add a break, continue or return under a condition."""
        text, name, py = self.condition()
        loops = [d for d, kind in enumerate(reversed(self.frames), 1) if kind == "loop"]
        ways = ["return"] + ["break"] * 2 * bool(self.frames) + ["continue"] * 2 * bool(loops)
        way = self.rng.choice(ways)
        if way == "return":
            self.both(f"{text} if {name} {{ return }}", f"if {py}: raise Done", depth)
            return
        target = self.rng.choice(loops) if way == "continue" else self.rng.randint(1, len(self.frames))
        leave = f"raise Leave({target}, {way == 'continue'})"
        self.both(f"{text} if {name} {{ {way} {target} }}", f"if {py}: {leave}", depth)

    def framed(self, kind: str, depth: int, level: int) -> None:
        """Add the body of a frame; in Python it is in a `try` that catches the exits to this frame."""
        self.frames.append(kind)
        self.both("", "try:", depth)
        self.block(depth + 1, level + 1)
        self.frames.pop()
        self.py.append("    " * depth + "except Leave as leave:")
        self.py.append("    " * (depth + 1) + "if leave.depth > 1: raise Leave(leave.depth - 1, leave.again)")
        if kind == "loop":
            self.py.append("    " * (depth + 1) + "if not leave.again: break")

    def add_for(self, depth: int, level: int) -> None:
        a, b, c, i, t = (next(self.ids) for _ in range(5))
        k = self.rng.choice((2, 3, 4))
        self.both(
            f"%{a}: i32 = const {k} %{b}: i32 = mod %0, %{a} %{c}: i32 = const -1"
            f" for %{i}: i32 in %{c} .. %{b} trips %{t}: i32 {{",
            f"trips{t} = 0",
            depth,
        )
        self.py.append("    " * depth + f"for i{i} in range(-1, lane % {k}):")
        self.py.append("    " * (depth + 1) + f"trips{t} += 1")
        n, m = next(self.ids), next(self.ids)
        self.both(f"%{n}: i32 = get h %{m}: i32 = add %{n}, %{i} set h, %{m}", f"h = wrap(h + i{i})", depth + 1)
        self.framed("loop", depth + 1, level)
        n, m = next(self.ids), next(self.ids)
        self.both(f"}} %{n}: i32 = get h %{m}: i32 = add %{n}, %{t} set h, %{m}", f"h = wrap(h + trips{t})", depth)

    def add_while(self, depth: int, level: int) -> None:
        """Add a while loop of at most 3 trips, counted in a local."""
        text, name, py = self.condition()
        a, b, c, d, e, n = (next(self.ids) for _ in range(6))
        self.both(f"local n{n}: i32", f"n{n} = 0", depth)
        self.both(
            f"while {{ {text} %{a}: i32 = get n{n} %{b}: i32 = const 3 %{c}: u1 = cmp_lt %{a}, %{b}"
            f" %{d}: u1 = logical_and {name}, %{c} }} test %{d} {{",
            f"while ({py}) and n{n} < 3:",
            depth,
        )
        f = next(self.ids)
        self.both(
            f"%{e}: i32 = get n{n} %{f}: i32 = const 1 %{f + 50_000}: i32 = add %{e}, %{f} set n{n}, %{f + 50_000}",
            f"n{n} += 1",
            depth + 1,
        )
        self.framed("loop", depth + 1, level)
        self.both("}", "pass", depth)

    def add_scope(self, depth: int, level: int) -> None:
        self.both("scope {", "pass", depth)
        self.framed("scope", depth, level)
        self.both("}", "pass", depth)


class Leave(Exception):
    """Represent a break or continue that is leaving frames."""

    def __init__(self, depth: int, again: bool) -> None:
        super().__init__()
        self.depth, self.again = depth, again


class Done(Exception):
    """Represent a return from the program."""


def wrap(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def as_kernel(program: Program) -> str:
    """Return the program as a kernel; it stores h at its end, and its changes to y, so that returns show, too."""
    return (
        "kernel f(x: i32[1], y: i32[1]) { bounds { %98: i32 = const 0 %99: i32 = shape x, 0 }"
        " parallel %0: i32 in %98 .. %99 { local h: i32 "
        + "\n".join(program.ir)
        + " %97: i32 = get h store x[%0], %97 } }"
    )


def as_python(program: Program) -> Callable[[int, list[int], list[int]], None]:
    """Return the program as a Python function run(lane, x, y)."""
    head = ["def run(lane, x, y):", "    h = 0", "    try:"]
    tail = ["        x[lane] = h", "    except Done:", "        pass"]
    space: dict[str, Any] = {"wrap": wrap, "Leave": Leave, "Done": Done}
    exec("\n".join([*head, *program.py, *tail]), space)
    made: Callable[[int, list[int], list[int]], None] = space["run"]
    return made


@pytest.mark.rotating
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    program.block(2, 0)
    kernel, python = parse_kernel(as_kernel(program)), as_python(program)
    x, y = [-77] * LANES, [0] * LANES
    for lane in range(LANES):
        python(lane, x, y)
    for order in ORDERS:
        arrays = {"x": np.full(LANES, -77, np.int32), "y": np.zeros(LANES, np.int32)}
        run(kernel, arrays, {}, order=order)
        assert arrays["x"].tolist() == x
        assert arrays["y"].tolist() == y


def test_random_programs_cover_the_ways_out() -> None:
    """Among the seeds there are breaks and continues of every depth up to 3, returns, scopes and both loops."""
    texts = []
    for seed in SEEDS:
        program = Program(seed)
        program.block(2, 0)
        texts.append(" ".join(program.ir))
    leaving = [f"{word} {depth}" for word in ("break", "continue") for depth in (1, 2, 3)]
    for word in (*leaving, "return", "scope", "for", "while"):
        assert sum(word in text for text in texts) >= 5, word
