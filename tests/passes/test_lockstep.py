"""Stacks of one depth: which they are, and that code that keeps their depth once does what the reference does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.analysis.equal_depths import leaders, lockstep
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

HEAD = "adstack_alloca {0}: f64 adstack_alloca {1}: f64{2} %1: f64 = const 1.5 %2: f64 = const 2.5 %3: i32 = arg n"
PUSH, POP = "adstack_push {} , %{}", "adstack_pop {}"


def kernel(*lines: str, literal: str = "") -> Kernel:
    """A serial kernel on stacks a and b; `+a` pushes, `-a` pops, `a>k` stores the top to out[k], other text stands."""
    text, number = [HEAD.format("a", "b", literal), "%90: i32 = const 0"], 100
    for line in lines:
        for word in line.split(" "):
            number += 2
            if word[:1] in ("+", "-"):
                stack = word[1:]
                text.append(PUSH.format(stack, 1 if stack == "a" else 2) if word[0] == "+" else POP.format(stack))
            elif ">" in word:
                text.append(f"%{number}: i32 = const {word[2:]} %{number + 1}: f64 = adstack_load_top {word[0]}")
                text.append(f"store out[%{number}], %{number + 1}")
            else:
                text.append(word.replace("loop", f"for %{number}: i32 in %90 .. %3"))
    return parse_kernel(f"kernel k(n: i32, out: f64[1]) {{ serial {{ {' '.join(text)} }} }}")


TOGETHER = {
    "pushed and popped": ("+a +b", "a>0 b>1", "-a -b"),
    "one after the other": ("+a a>0 +b b>1", "-b a>2 -a"),
    "in a loop": ("loop { +a +b }", "a>0 b>1", "loop { a>2 -a b>3 -b }"),
    "in nested loops": ("loop { +a +b loop { +b +a } }", "loop { loop { a>0 b>1 -a -b } a>2 b>3 -b -a }"),
    "read at another height": ("+a +a +b a>0 b>1 +b -a a>2 b>3 -b",),
    "popped while empty": ("-a -b a>0 b>1 +a +b a>2 b>3",),
}
APART = {
    "one more": ("+a +b +a", "a>0 b>1"),
    "in another block": ("+a loop { +b }", "a>0 b>1"),
    "in another loop": ("loop { +a } loop { +b }", "a>0 b>1"),
    "another order": ("+a -a +a +b", "a>0 b>1"),
    "popped elsewhere": ("+a +b -a loop { +b -b }", "b>1"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_one_group(name: str) -> None:
    groups = lockstep(kernel(*TOGETHER[name]).tasks[0].body)
    assert groups["a"] == groups["b"]


@pytest.mark.parametrize("name", APART)
def test_two_groups(name: str) -> None:
    body = kernel(*APART[name]).tasks[0].body
    assert len({*lockstep(body).values()}) == 2 and leaders(body) == {"a": "a", "b": "b"}


def test_a_capacity_in_the_text_sets_apart() -> None:
    assert len({*lockstep(kernel("+a +b", literal=" capacity 7").tasks[0].body).values()}) == 2


def run(source: Kernel, backend: str, n: int) -> tuple[list[float], Sizes]:
    launcher = Launcher(prepare_forward(source), registry.get(backend), Options())
    out = np.full(4, -1.0)
    launcher.run({"out": out}, {"n": n})
    return out.tolist(), launcher._last


@pytest.mark.rotating
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("name", [*TOGETHER, *APART])
def test_code_agrees_with_the_reference(name: str, n: int) -> None:
    lines = {**TOGETHER, **APART}[name]
    if "empty" in name or n == 0:  # the reference refuses to read below an empty stack
        out, _ = run(kernel(*lines), "cpu", n)
        assert {*out} <= {-1.0, 0.0, 1.5, 2.5}
    else:
        assert run(kernel(*lines), "cpu", n) == run(kernel(*lines), "reference", n)


def test_reads_of_an_empty_group_give_zero() -> None:
    assert run(kernel("-a -b a>0 b>1 +a +b a>2 b>3"), "cpu", 1)[0] == [0.0, 0.0, 1.5, 2.5]


@pytest.mark.parametrize("small", ["a", "b"])
def test_an_overflow_names_the_stack_that_is_full(small: str) -> None:
    """The check is one for the group, whichever of its stacks has the least room."""
    source = kernel("loop { +a +b }", "a>0 b>1")
    executable: Any = registry.get("cpu").compile(source, Options())
    capacities = {"a": 5, "b": 5, small: 2}
    out = np.zeros(4)
    with pytest.raises(AdstackOverflow, match=f"adstack {small} overflowed: it holds 2 values .* made it 4"):
        executable.run({"out": out}, {"n": 4}, Sizes(capacities), Draws())
    executable.run({"out": out}, {"n": 2}, Sizes(capacities), Draws())
    assert out[:2].tolist() == [1.5, 2.5]
