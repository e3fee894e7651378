"""Intervals are sound: what the reference computes lies inside, for random integer expressions over a loop index."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stackgrad.compiler.analysis.launch_ranges import LaunchRanges
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run

BINARY = (
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "mod",
    "floordiv",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bit_shl",
    "bit_shr",
    "bit_sar",
)
UNARY = ("neg", "abs")
EDGES = (0, 1, 2, 3, 5, 7, 31, 127, -1, -2, -128, 100)
LINE = st.tuples(st.sampled_from(BINARY + UNARY), st.integers(0, 20), st.integers(0, 20))
LINES = st.lists(LINE, min_size=1, max_size=8)
INTEGERS = {"i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u32": np.uint32}
CONSTANTS = st.lists(st.sampled_from(EDGES), min_size=1, max_size=4)


def kernel(dtype, constants, lines):
    text = [f"    %{k + 3}: {dtype} = const {c}" for k, c in enumerate(constants)]
    names = [2, *range(3, 3 + len(constants))]
    for op, a, b in lines:
        args = [names[a % len(names)], names[b % len(names)]][: 1 if op in UNARY else 2]
        names.append(names[-1] + 1 if len(names) > 1 else 3)
        text.append(f"    %{names[-1]}: {dtype} = {op} " + ", ".join(f"%{v}" for v in args))
    last = names[-1] + 1
    text = [line.replace("%2", "%90") if "%2," in line or line.endswith("%2") else line for line in text]
    return parse_kernel(
        f"kernel k(out: {dtype}[1]) {{\n  bounds {{\n    %0: i32 = const 0\n    %1: i32 = const 9\n"
        f"  }} parallel %2: i32 in %0 .. %1 {{\n    %90: {dtype} = cast %2\n"
        + "\n".join(text)
        + f"\n    %{last}: i32 = const 0\n    store out[%2], %{names[-1]}\n  }}\n}}\n"
    )


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(INTEGERS)), CONSTANTS, LINES)
def test_values_lie_inside(dtype, constants, lines):
    made = kernel(dtype, [c % 128 if dtype[0] == "u" else c for c in constants], lines)
    stored = made.tasks[0].body[-1]
    low, high = LaunchRanges(made.tasks[0], {}, {"out": (9,)}).of(stored.value)
    out = np.zeros(9, INTEGERS[dtype])
    try:
        run(made, {"out": out}, {})
    except ZeroDivisionError:
        return
    assert low <= int(out.min()) and int(out.max()) <= high


def test_what_is_known():
    """Masks, shifts and absolute values bound an index; a wrapped number is bounded by its type alone."""
    cases = {
        "bit_and": ("bit_and", 7, (0, 7)),
        "bit_shl": ("bit_shl", 2, (0, 32)),
        "bit_sar": ("bit_sar", 1, (0, 4)),
        "bit_xor": ("bit_xor", 3, (0, 15)),
    }
    for op, constant, found in cases.values():
        made = kernel("i32", [constant], [(op, 0, 1)])
        assert LaunchRanges(made.tasks[0], {}, {"out": (9,)}).of(made.tasks[0].body[-1].value) == found
    wraps = kernel("i8", [100], [("add", 1, 1)])
    assert LaunchRanges(wraps.tasks[0], {}, {"out": (9,)}).of(wraps.tasks[0].body[-1].value) == (-128, 127)
