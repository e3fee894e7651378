"""Loop invariants: what climbs, how far, and what must not."""

from __future__ import annotations

import pytest
from ir_test_support.goldens import check, check_meaning, check_unchanged
from ir_test_support.random_kernels import execute, random_kernel, same
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.common_subexpressions import common_subexpressions
from stackgrad.compiler.passes.dead_code import remove_dead_code
from stackgrad.compiler.passes.fold_constants import fold_constants
from stackgrad.compiler.passes.hoist_invariants import hoist_invariants
from stackgrad.compiler.passes.simplify import simplify

LOOP = "for %8: i32 in %0 .. %0 {{ {} }}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for %8: i32 in %0 .. %0 { %9: f32 = sqrt %1; store a[%8], %9 }",
            "%9: f32 = sqrt %1; for %8: i32 in %0 .. %0 { store a[%8], %9 }",
        ),
        # a chain climbs together
        (
            "for %8: i32 in %0 .. %0 { %9: f32 = const 2.0; %10: f32 = mul %1, %9; %11: f32 = cast %8; "
            "%12: f32 = mul %10, %11; "
            "store a[%8], %12 }",
            "%9: f32 = const 2.0; %10: f32 = mul %1, %9; for %8: i32 in %0 .. %0 { %11: f32 = cast %8; "
            "%12: f32 = mul %10, %11; "
            "store a[%8], %12 }",
        ),
        # as far as it can
        (
            "for %8: i32 in %0 .. %0 { for %9: i32 in %0 .. %8 { %10: f32 = sin %1; %11: i32 = neg %8; "
            "%12: i32 = add %9, %11; "
            "store a[%12], %10 } }",
            "%10: f32 = sin %1; for %8: i32 in %0 .. %0 { %11: i32 = neg %8; "
            "for %9: i32 in %0 .. %8 { %12: i32 = add %9, %11; "
            "store a[%12], %10 } }",
        ),
        # out of condition and body of a while
        (
            "local v: f32; while { %9: f32 = sin %1; %10: f32 = get v; "
            "%11: u1 = cmp_lt %10, %9 } test %11 { %12: f32 = cos %1; "
            "set v, %12 }",
            "local v: f32; %9: f32 = sin %1; %12: f32 = cos %1; while { %10: f32 = get v; "
            "%11: u1 = cmp_lt %10, %9 } test %11 { "
            "set v, %12 }",
        ),
        # a constant divisor other than zero
        (
            "for %8: i32 in %0 .. %0 { %9: i32 = const 3; %10: i32 = mod %0, %9; store m[%8], %10 }",
            "%9: i32 = const 3; %10: i32 = mod %0, %9; for %8: i32 in %0 .. %0 { store m[%8], %10 }",
        ),
        (
            "for %8: i32 in %0 .. %0 { %9: f32 = mod %1, %1; store a[%8], %9 }",
            "%9: f32 = mod %1, %1; for %8: i32 in %0 .. %0 { store a[%8], %9 }",
        ),
        # a loop inside an if
        (
            "if %2 { for %8: i32 in %0 .. %0 { %9: f32 = sqrt %1; store a[%8], %9 } }",
            "if %2 { %9: f32 = sqrt %1; for %8: i32 in %0 .. %0 { store a[%8], %9 } }",
        ),
        # extents
        (
            "for %8: i32 in %0 .. %0 { %9: i32 = shape a, 0; store m[%8], %9 }",
            "%9: i32 = shape a, 0; for %8: i32 in %0 .. %0 { store m[%8], %9 }",
        ),
    ],
)
def test_climbs(before: str, after: str) -> None:
    check(hoist_invariants, before, after)


@pytest.mark.parametrize(
    "text",
    [
        "%9: f32 = load a[%0]; store b[%8], %9",  # outside the array if the loop does not run
        "%9: i32 = floordiv %0, %0; store m[%8], %9",
        "%9: i32 = mod %8, %0; store m[%8], %9",
        "%9: f32 = random; store a[%8], %9",
        "%9: f32 = atomic add a[%0], %1",
        "if %2 { %9: f32 = sin %1; store a[%8], %9 }",
        "local v: f32; %9: f32 = get v; %10: f32 = sin %9; store a[%8], %10",
        "%9: i32 = neg %8; %10: i32 = neg %9; store m[%8], %10",
    ],
)
def test_stays(text: str) -> None:
    check_unchanged(hoist_invariants, LOOP.format(text))


def test_a_zero_divisor_stays() -> None:
    check_unchanged(hoist_invariants, "%7: i32 = const 0; " + LOOP.format("%9: i32 = mod %0, %7; store m[%8], %9"))


def test_the_parallel_loop_is_no_serial_one() -> None:
    kernel = parse_kernel(
        "kernel k(a: f32[1], x: f32) { bounds { %0: i32 = const 0 %1: i32 = shape a, 0 } "
        "parallel %2: i32 in %0 .. %1 { %3: f32 = arg x store a[%2], %3 } }"
    )
    verify(kernel, "structured")
    assert hoist_invariants(kernel) is kernel


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_do_the_same(seed: int) -> None:
    check_meaning(hoist_invariants, seed)


@pytest.mark.parametrize("seed", range(1000, 1080))
def test_all_passes_one_after_the_other(seed: int) -> None:
    kernel = made = random_kernel(seed)
    for change in (fold_constants, simplify, common_subexpressions, hoist_invariants, remove_dead_code) * 2:
        made = change(made)
        verify(made, "tasks")
    assert same(execute(kernel, seed), execute(made, seed))
