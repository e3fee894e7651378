"""Constant folding: by the scalar table, with the traps left where they are."""

from __future__ import annotations

import math

import pytest
from ir_test_support.goldens import check, check_meaning, check_unchanged, serial
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import SCALARS, Scalar
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.fold_constants import fold_constants
from stackgrad.reference.scalar import evaluate
from table_rows import each_row

ZERO = "%8: i32 = const 0; %9: i32 = const 9; "


def folds(before: str, after: str) -> None:
    check(fold_constants, before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%10: i32 = mul %9, %9", "%10: i32 = const 81"),
        (
            "%10: i32 = neg %9; %11: i32 = mod %10, %9; %12: i32 = add %11, %9",
            "%10: i32 = const -9; %11: i32 = const 0; %12: i32 = const 9",
        ),
        ("%10: u8 = cast %9; %11: u8 = bit_not %10", "%10: u8 = const 9; %11: u8 = const 246"),
        ("%10: f32 = cast %9; %11: i32 = bit_cast %10", "%10: f32 = const 9.0; %11: i32 = const 1091567616"),
        (
            "%10: u1 = cmp_lt %8, %9; %11: i32 = select %10, %0, %9; store m[%0], %11",
            "%10: u1 = const true; store m[%0], %0",
        ),
        (
            "%10: u1 = cmp_gt %8, %9; %11: i32 = select %10, %0, %9; store m[%0], %11",
            "%10: u1 = const false; store m[%0], %9",
        ),
        ("%10: f32 = cast %8; %11: f32 = div %10, %10", "%10: f32 = const 0.0; %11: f32 = const nan"),
    ],
)
def test_operations(before: str, after: str) -> None:
    folds(ZERO + before, ZERO + after)


@pytest.mark.parametrize(
    "text",
    [
        "%10: i32 = floordiv %9, %8",  # traps
        "%10: i32 = mod %9, %8",
        "%10: i32 = add %9, %0",
        "if %2 { store m[%0], %9 }",
        "for %10: i32 in %8 .. %9 { store m[%10], %9 }",
        "for %10: i32 in %9 .. %8 step -1 { store m[%10], %9 }",
        "for %10: i32 in %9 .. %0 { store m[%10], %9 }",
    ],
)
def test_stays(text: str) -> None:
    check_unchanged(fold_constants, ZERO + text)


def test_branches_are_chosen() -> None:
    known = "%10: u1 = const true; %11: u1 = const false; "
    arms = "{ %12: i32 = neg %0; store m[%0], %12 } else { %13: i32 = popcnt %0; store m[%0], %13 } "
    folds(f"{known} if %10 {arms}", known + "%12: i32 = neg %0; store m[%0], %12")
    folds(f"{known} if %11 {arms}", known + "%12: i32 = popcnt %0; store m[%0], %12")
    folds(f"{known} if %11 {{ store m[%0], %0 }}", known)


def test_a_folded_condition_chooses_nested_branches() -> None:
    folds(
        ZERO + "%10: u1 = cmp_lt %9, %8; if %2 { %11: u1 = logic_not %10; if %11 { scope { if %10 { break 1 } } } }",
        ZERO + "%10: u1 = const false; if %2 { %11: u1 = const true; scope { } }",
    )


@pytest.mark.parametrize("header", ["%9 .. %8", "%8 .. %8", "%8 .. %9 step -1", "%9 .. %8 descending"])
def test_empty_ranges(header: str) -> None:
    folds(
        ZERO + f"for %10: i32 in {header} trips %11: i64 {{ store m[%10], %9 }} %12: i32 = cast %11; store m[%0], %12",
        ZERO + "%11: i64 = const 0; %12: i32 = const 0; store m[%0], %12",
    )


def test_a_while_that_never_runs() -> None:
    folds(
        ZERO + "while { store m[%0], %0; %10: u1 = cmp_lt %9, %8 } test %10 trips %11: i32 { store m[%0], %9 } "
        "store m[%0], %11",
        ZERO + "store m[%0], %0; %10: u1 = const false; %11: i32 = const 0; store m[%0], %11",
    )


def test_constants_cross_tasks_at_stage_source() -> None:
    first, second = "%0: i32 = const 3", "%1: i32 = neg %0 store a[], %1"
    kernel = parse_kernel(f"kernel k(a: i32[0]) {{ serial {{ {first} }} serial {{ {second} }} }}")
    made = fold_constants(kernel)
    verify(made, "source")
    assert made.tasks[1].body[0] == n.Const(Value(1, SCALARS["i32"]), -3)


def test_locations_are_kept() -> None:
    kernel = serial("%8: i32 = const 4; %9: i32 = neg %8 !7")
    assert fold_constants(kernel).tasks[0].body[-1].loc == 7


# ---- every operation on every type --------------------------------------------------------------------------


def operands(dtype: Scalar) -> tuple[float | int | bool, ...]:
    if dtype.is_bool:
        return (False, True)
    return (0.0, -0.0, 1.5, -3.0, math.inf, math.nan) if dtype.is_real else (0, 1, 3, 100)


@each_row("name", OPS)
@each_row("dtype", SCALARS.values(), ids=str)
def test_folding_is_evaluation(name: str, dtype: Scalar) -> None:
    """One kernel with all pairs of operands; each result is the constant that the scalar table gives, or is left.

    Left is what traps, and what a backend may round in its own way.
    """
    types = tuple([dtype] * OPS[name].arity if name != "select" else [SCALARS["u1"], dtype, dtype])
    made = result_type(name, types)
    if made is None:
        return
    numbers = operands(dtype)
    lines = [f"%{100 + i}: {dtype} = const {str(v).lower()}" for i, v in enumerate(numbers)] + ["%99: u1 = const true"]
    wanted = []
    for i, x in enumerate(numbers):
        for j, y in enumerate(numbers):
            args = {1: f"%{100 + i}", 2: f"%{100 + i}, %{100 + j}", 3: f"%99, %{100 + i}, %{100 + j}"}[len(types)]
            lines.append(f"%{1000 + len(wanted)}: {made} = {name} {args}")
            wanted.append(evaluate(name, *{1: (x,), 2: (x, y), 3: (True, x, y)}[len(types)], types=types))
    kernel = fold_constants(serial(";".join(lines)))
    verify(kernel, "tasks")
    found = {s.result.id: s for s in kernel.tasks[0].body if isinstance(s, (n.Const, n.Op))}
    for number, value in enumerate(wanted):
        stmt = found.get(1000 + number)
        if name == "select":
            assert stmt is None
        elif value is None or made.is_real and OPS[name].ulps > 0.5:
            assert isinstance(stmt, n.Op)
        else:
            assert isinstance(stmt, n.Const) and repr(stmt.value) == repr(value)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_do_the_same(seed: int) -> None:
    check_meaning(fold_constants, seed)
