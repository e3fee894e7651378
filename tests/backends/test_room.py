"""Test overflow checks of adstacks: one for a loop whose trips all push equally often, else one for each push."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.stack_changes import pushes_of_a_trip
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.compiler.ir.nodes import For
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.walk import walk_kernel

HEAD = """kernel k(n: i32, m: i64, out: i64[1]) {
  serial {
    adstack_alloca s: i32 of v
    adstack_alloca t: i32
    local stop: u1
    %0: i32 = const 0
    %1: i32 = arg n
    %2: u1 = cast %1
    %5: i64 = const 0
    %6: i64 = arg m
    adstack_push t, %0
"""
TAIL = """
    %90: i64 = const 1
    store out[%0], %90
  }
}"""

BODIES = {
    "one push": ("for %3: i32 in %0 .. %1 { adstack_push s, %3 }", ["s"]),
    "two pushes": ("for %3: i32 in %0 .. %1 { adstack_push s, %3 adstack_push s, %0 }", ["s"]),
    "two stacks": ("for %3: i32 in %0 .. %1 { adstack_push s, %3 adstack_push t, %0 }", ["s", "t"]),
    "a condition": ("for %3: i32 in %0 .. %1 { if %2 { adstack_push s, %3 } }", []),
    "a pop": ("for %3: i32 in %0 .. %1 { adstack_push s, %3 adstack_pop s }", []),
    "a pop of another": ("for %3: i32 in %0 .. %1 { adstack_push s, %3 adstack_pop t }", ["s"]),
    "an early end": ("for %3: i32 in %0 .. %1 until stop { adstack_push s, %3 }", []),
    "an inner loop": ("for %3: i32 in %0 .. %1 { for %4: i32 in %0 .. %1 { adstack_push s, %4 } }", ["s"]),
    "both loops": (
        "for %3: i32 in %0 .. %1 { adstack_push s, %3 for %4: i32 in %0 .. %1 { adstack_push s, %4 } }",
        ["s"],
    ),
    "pops behind": (
        "for %3: i32 in %0 .. %1 { adstack_push s, %3 } for %4: i32 in %0 .. %1 descending { adstack_pop s }",
        ["s"],
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_which_loops(name: str) -> None:
    body, covered = BODIES[name]
    kernel = parse_kernel(HEAD + body + TAIL)
    loops = [s for s in walk_kernel(kernel) if isinstance(s, For)]
    assert [stack for loop in loops for stack in pushes_of_a_trip(loop)] == covered


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_overflows_are_found_at_the_very_slot(bench: Any, name: str, debug: bool) -> None:
    """The depth that fits runs, one slot less does not, however many slots there were before."""
    text = HEAD + BODIES[name][0] + TAIL
    for n in (1, 2, 3):
        want = {"two pushes": 2 * n, "a pop": 1, "an inner loop": n * n, "both loops": n + n * n}.get(name, n)
        depths = {"s": want, "t": 1 + n * (name == "two stacks")}
        out = np.zeros(1, np.int64)
        bench.run(text, {"out": out}, {"n": n, "m": 0}, depths, debug=debug)
        assert out[0] == 1
        for stack in depths:
            out[0] = 0
            with pytest.raises(AdstackOverflow, match=f"adstack {stack}"):
                bench.run(text, {"out": out}, {"n": n, "m": 0}, {**depths, stack: depths[stack] - 1}, debug=debug)
            assert out[0] == 0


def test_trips_beyond_32_bits(bench: Any) -> None:
    """Neither the number of trips nor its product with the pushes of a trip is taken for a small one."""
    for each in (1, 2, 3):
        pushes = "adstack_push s, %0 " * each
        text = HEAD + f"for %7: i64 in %5 .. %6 {{ {pushes} }}" + TAIL
        for trips in (1 << 32, 1 << 62, (1 << 63) - 1, (1 << 64) // 3 + 1):
            with pytest.raises(AdstackOverflow, match="it holds 5 values"):
                bench.run(text, {"out": np.zeros(1, np.int64)}, {"n": 0, "m": trips}, {"s": 5, "t": 1})
        bench.run(text, {"out": np.zeros(1, np.int64)}, {"n": 0, "m": -5}, {"s": 0, "t": 1})


def test_the_loop_itself_looks_no_more() -> None:
    """In release code the body of a covered loop has no way to fail; in debug code it has."""
    kernel = parse_kernel(HEAD + BODIES["one push"][0] + TAIL)
    for debug in (False, True):
        text = CpuBackend().ir_text(kernel, Options(debug=debug), optimize=False)
        body = re.findall(r"\nfor\.body.*?\nfor\.latch", text, re.DOTALL)[0]
        assert ("label %fail" in body) == debug
