"""How many iterations a task has, as the host can tell before a launch."""

from __future__ import annotations

from typing import Any

import pytest
from stackgrad.backends.launching.extents import iterations
from stackgrad.compiler.ir.parser import parse_kernel

SHAPES = {"x": (6, 7), "n": ()}


def count(bounds: str, begin: str, end: str, indices: str = "%90: i32", **scalars: Any) -> dict[int, int]:
    """Iterations of `parallel INDICES in BEGIN .. END`; n[] is 5."""
    text = f"""kernel k(x: f32[2], n: i32[0], a: i32, r: f32) {{
  temp t: i32
  bounds {{
    {bounds}
  }} parallel {indices} in {begin} .. {end} {{
    adstack_alloca s: f32 of v
  }}
}}
"""
    return iterations(parse_kernel(text), SHAPES, {"a": 3, "r": 1.5, **scalars}, lambda name, place: {"n": 5}[name])


@pytest.mark.parametrize(
    ("bounds", "end", "want"),
    [
        ("%1: i32 = const 12", "%1", 12),
        ("%1: i32 = arg a", "%1", 3),
        ("%1: i32 = shape x, 1", "%1", 7),
        ("%1: i32 = load n[]", "%1", 5),
        ("%1: i32 = arg a\n%2: i32 = load n[]\n%3: i32 = mul %1, %2", "%3", 15),
        ("%1: i32 = arg a\n%2: i32 = const 2\n%3: i32 = floordiv %1, %2", "%3", 1),
        ("%1: i32 = arg a\n%2: i64 = cast %1", "%1", 3),
        ("%1: i32 = const -4", "%1", 0),
        ("%1: i32 = const 65536\n%3: i32 = mul %1, %1", "%3", 0),
    ],
)
def test_of_one_axis(bounds: str, end: str, want: int) -> None:
    assert count(f"%0: i32 = const 0\n{bounds}", "%0", end) == {0: want}


def test_of_a_box() -> None:
    bounds = "%0: i32 = const 1\n%1: i32 = shape x, 0\n%2: i32 = shape x, 1"
    assert count(bounds, "%0", "%1, %0 .. %2", "%90: i32, %91: i32") == {0: 30}


@pytest.mark.parametrize(
    "bounds",
    [
        "%1: i32 = load t[]",  # only the device knows
        "%2: i32 = const 6\n%3: f32 = load x[%2, %2]\n%1: i32 = cast %3",  # outside of the array
        "%3: f32 = arg r\n%1: i32 = cast %3",  # arithmetic of reals
        "%2: i32 = arg a\n%1: i32 = bit_shl %2, %2",
    ],
)
def test_what_cannot_be_told(bounds: str) -> None:
    assert count(f"%0: i32 = const 0\n{bounds}", "%0", "%1") == {}
