"""Axes with one place are dropped, all others are kept, and kernels mean the same."""

from __future__ import annotations

import pytest
from ir_test_support.goldens import check_meaning
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import renumber
from stackgrad.compiler.passes.drop_unit_axes import drop_unit_axes

BOX = """kernel k(x: f32[3]) {{
  bounds {{
    %0: i32 = shape x, 0
    %1: i32 = const 0
    %2: i32 = const 1
    %3: i32 = const 4
    %4: i32 = const 5
  }} parallel {0} {{
    {1}
    %10: f32 = load x[%7, %8, %9]
    store x[%9, %8, %7], %10
  }}
}}"""
ALL = "%7: i32, %8: i32, %9: i32 in "


@pytest.mark.parametrize(
    ("before", "after", "constants"),
    [
        (ALL + "%1 .. %0, %1 .. %2, %1 .. %4", "%7: i32, %9: i32 in %1 .. %0, %1 .. %4", {8: 0}),
        (ALL + "%1 .. %0, %1 .. %3, %3 .. %4", "%7: i32, %8: i32 in %1 .. %0, %1 .. %3", {9: 4}),
        (ALL + "%1 .. %2, %1 .. %0, %3 .. %4", "%8: i32 in %1 .. %0", {7: 0, 9: 4}),
        (ALL + "%1 .. %2, %3 .. %4, %1 .. %2", "%7: i32 in %1 .. %2", {8: 4, 9: 0}),
    ],
    ids=["middle", "last", "first-and-last", "all"],
)
def test_an_axis_of_one_place_becomes_a_constant(before: str, after: str, constants: dict[int, int]) -> None:
    given = parse_kernel(BOX.format(before, ""))
    wanted = parse_kernel(BOX.format(after, " ".join(f"%{k}: i32 = const {v}" for k, v in constants.items())))
    made = drop_unit_axes(given)
    verify(made, "tasks")
    assert print_kernel(renumber(made)) == print_kernel(renumber(wanted))
    assert drop_unit_axes(made) is made


@pytest.mark.parametrize(
    "box",
    ["%1 .. %0, %1 .. %3, %1 .. %4", "%1 .. %0, %2 .. %2, %1 .. %3", "%1 .. %0, %0 .. %2, %1 .. %0"],
    ids=["long", "empty", "unknown"],
)
def test_other_axes_are_kept(box: str) -> None:
    given = parse_kernel(BOX.format(ALL + box, ""))
    assert drop_unit_axes(given) is given


@pytest.mark.parametrize("seed", range(12))
def test_meaning_is_the_same(seed: int) -> None:
    check_meaning(drop_unit_axes, seed)
