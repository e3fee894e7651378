"""Common subexpressions: what is found again, where, and what writes in between forbid."""

from __future__ import annotations

import pytest
from ir_test_support.goldens import check, check_meaning, check_unchanged
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.common_subexpressions import common_subexpressions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "%9: f32 = sin %1; %10: f32 = sin %1; %11: f32 = mul %9, %10; store a[%0], %11",
            "%9: f32 = sin %1; %11: f32 = mul %9, %9; store a[%0], %11",
        ),
        # products commute
        (
            "%9: f32 = sin %1; %10: f32 = mul %1, %9; %11: f32 = mul %9, %1; %12: f32 = sub %10, %11; store a[%0], %12",
            "%9: f32 = sin %1; %10: f32 = mul %1, %9; %12: f32 = sub %10, %10; store a[%0], %12",
        ),
        # arguments, extents, constants, casts
        ("%9: i32 = arg n; store m[%9], %9", "store m[%0], %0"),
        ("%9: i32 = shape a, 0; %10: i32 = shape a, 0; store m[%9], %10", "%9: i32 = shape a, 0; store m[%9], %9"),
        ("%9: i32 = const 3; %10: i32 = const 3; store m[%9], %10", "%9: i32 = const 3; store m[%9], %9"),
        ("%9: f32 = const nan; %10: f32 = const nan; store a[%0], %10", "%9: f32 = const nan; store a[%0], %9"),
        (
            "%9: i64 = cast %0; %10: i64 = cast %0; %11: i64 = add %9, %10; %12: i32 = cast %11; store m[%0], %12",
            "%9: i64 = cast %0; %11: i64 = add %9, %9; %12: i32 = cast %11; store m[%0], %12",
        ),
        # in blocks nested below, also in the condition of a while
        (
            "%9: f32 = sin %1; if %2 { %10: f32 = sin %1; store a[%0], %10 } "
            "else { %11: f32 = sin %1; store b[%0], %11 }",
            "%9: f32 = sin %1; if %2 { store a[%0], %9 } else { store b[%0], %9 }",
        ),
        (
            "%9: u1 = logic_not %2; while { %10: u1 = logic_not %2 } test %10 { store m[%0], %0 }",
            "%9: u1 = logic_not %2; while { } test %9 { store m[%0], %0 }",
        ),
        # loads with no write in between; a store to another array is none
        (
            "%9: f32 = load a[%0]; store b[%0], %9; %10: f32 = load a[%0]; store b[%0], %10",
            "%9: f32 = load a[%0]; store b[%0], %9; store b[%0], %9",
        ),
        (
            "%9: f32 = load a[%0]; for %10: i32 in %0 .. %0 { %11: f32 = load a[%0]; store b[%10], %11 }",
            "%9: f32 = load a[%0]; for %10: i32 in %0 .. %0 { store b[%10], %9 }",
        ),
        (
            "local v: f32; set v, %1; %9: f32 = get v; %10: f32 = get v; %11: f32 = mul %9, %10; store a[%0], %11",
            "local v: f32; set v, %1; %9: f32 = get v; %11: f32 = mul %9, %9; store a[%0], %11",
        ),
        (
            "adstack_alloca s: f32 adjoint; adstack_push s, %1; %9: f32 = adstack_load_top s; adstack_acc_adj s, %9; "
            "%10: f32 = adstack_load_top s; store a[%0], %10",
            "adstack_alloca s: f32 adjoint; adstack_push s, %1; %9: f32 = adstack_load_top s; adstack_acc_adj s, %9; "
            "store a[%0], %9",
        ),
    ],
)
def test_merged(before: str, after: str) -> None:
    check(common_subexpressions, before, after)


@pytest.mark.parametrize(
    "text",
    [
        # different content
        "%9: f32 = const 0.0; %10: f32 = const -0.0; store a[%0], %9; store a[%0], %10",
        "%9: i32 = const 1; %10: i64 = const 1; %11: f32 = const 1.0; %12: u1 = const true",
        "%9: f32 = sub %1, %1; %10: f32 = load a[%0]; %11: f32 = sub %9, %10; %12: f32 = sub %10, %9",
        "%9: f32 = load a[%0]; %10: f32 = min %1, %9; %11: f32 = min %9, %1",
        "%9: i64 = cast %0; %10: i8 = cast %0",
        "%9: i32 = shape a, 0; %10: i32 = shape b, 0; %11: i64 = shape a, 0",
        # every execution counts
        "%9: f32 = random; %10: f32 = random",
        "%9: f32 = atomic add a[%0], %1; %10: f32 = atomic add a[%0], %1",
        # not visible: siblings, the condition in the body, what comes behind
        "if %2 { %9: f32 = sin %1; store a[%0], %9 } else { %10: f32 = sin %1; store a[%0], %10 } %11: f32 = sin %1",
        "while { %9: u1 = logic_not %2 } test %9 { %10: u1 = logic_not %2; store flags[%0], %10 }",
        # writes in between
        "%9: f32 = load a[%0]; store a[%0], %1; %10: f32 = load a[%0]",
        "%9: f32 = load a[%0]; %10: f32 = atomic add a[%0], %1; %11: f32 = load a[%0]",
        "%9: f32 = load a[%0]; if %2 { store a[%0], %1 } %10: f32 = load a[%0]",
        "%9: f32 = load a[%0]; scope { if %2 { store a[%0], %1; break 1 } } %10: f32 = load a[%0]",
        "%9: f32 = load $t[]; store $t[], %1; %10: f32 = load $t[]",
        "local v: f32; %9: f32 = get v; set v, %1; %10: f32 = get v",
        "local_array w: f32[2]; %9: f32 = get_element w[%0]; set_element w[%0], %1; %10: f32 = get_element w[%0]",
        # the write stands below, but the loop comes back
        "%9: f32 = load a[%0]; for %10: i32 in %0 .. %0 { %11: f32 = load a[%0]; store a[%10], %11 }",
        "local v: f32; %9: f32 = get v; while { %10: f32 = get v; %11: u1 = cmp_lt %10, %9 } test %11 { set v, %1 }",
        "for %9: i32 in %0 .. %0 { local v: f32; %10: f32 = get v; store a[%9], %10; set v, %1; "
        "%11: f32 = get v; store a[%9], %11 }",
        # stacks
        "adstack_alloca s: f32; adstack_push s, %1; %9: f32 = adstack_load_top s; adstack_pop s; "
        "%10: f32 = adstack_load_top s",
        "adstack_alloca s: f32 adjoint; adstack_push s, %1; %9: f32 = adstack_load_top_adj s; adstack_acc_adj s, %1; "
        "%10: f32 = adstack_load_top_adj s",
    ],
)
def test_stays(text: str) -> None:
    check_unchanged(common_subexpressions, text)


def test_tasks_stand_alone() -> None:
    """Equal values of two tasks stay two values: a task sees none of another."""
    kernel = parse_kernel(
        "kernel k(a: i32[0]) { serial { %0: i32 = const 3 store a[], %0 } serial { %1: i32 = const 3 store a[], %1 } }"
    )
    assert common_subexpressions(kernel) is kernel


def test_a_merged_value_that_later_tasks_use() -> None:
    kernel = parse_kernel(
        "kernel k(a: i32[0]) { serial { %0: i32 = const 3 %1: i32 = const 3 } serial { store a[], %1 } }"
    )
    verify(kernel, "source")
    made = common_subexpressions(kernel)
    verify(made, "source")
    assert len(made.tasks[0].body) == 1


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(80))
def test_random_kernels_do_the_same(seed: int) -> None:
    check_meaning(common_subexpressions, seed)
