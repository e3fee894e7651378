# ruff: noqa: B007, C416, F401, F821, F823, F841, RET503 - the mistakes are the point
"""Mistakes in names, elements and loops."""

from __future__ import annotations

from typing import Any

import pytest
import stackgrad as sg
from frontend_support import Field, integers, real
from mistakes import Mistakes, check_mistake
from stackgrad.compiler.errors import (
    KernelIndexError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    LocatedError,
    Unsupported,
)

x, n, grid, zero = real(1, 2, 3), integers(1, 2, 3), Field(sg.f64, (2, 3)), Field(sg.f64)
fields = [x, real(4, 5)]
FACTOR = 2.0

mistake = Mistakes()


# ---- names ------------------------------------------------------------------------------------------------------


@mistake(KernelNameError, "the name `FACTR` is not known", "FACTR", "`FACTOR`")
def unknown_name():
    x[0] = FACTR  # here


@mistake(KernelSyntaxError, "has no attribute `sine`", "sg.sine", "`sin`")
def unknown_function():
    x[0] = sg.sine(1.0)  # here


@mistake(KernelNameError, "`v` is first assigned inside the block at line", "v", "`v = 0.0`")
def name_of_an_ended_block():
    for i in range(3):
        if i > 0:
            v = 1.0
        x[i] = v  # here


@mistake(KernelNameError, "`v` is first assigned inside the block at line", "v", "before the block")
def name_of_both_branches():
    for i in range(3):
        if i > 0:
            v = 1.0
        else:
            v = 2.0
        x[i] = v  # here


@mistake(KernelNameError, "`i` is first assigned inside the block", "i")
def index_after_its_loop():
    for _ in range(1):
        for i in range(3):
            x[i] = 0.0
        x[0] = i  # here


@mistake(KernelNameError, "`v` is used before it has a value", "v")
def used_before_assignment():
    x[0] = v  # here
    v = 1.0


@mistake(KernelSyntaxError, "`i` is a loop index and cannot be assigned", "i", "copy it")
def assigned_index():
    for i in range(3):
        i = 2  # here


@mistake(KernelSyntaxError, "`a` is an argument of the kernel and cannot be assigned", "a", "copy it")
def assigned_argument(a: sg.f64):
    a = 2.0  # here
    x[0] = a


@mistake(KernelSyntaxError, "`a` cannot be assigned", "a", "copy it")
def augmented_argument(a: sg.f64):
    a += 2.0  # here


@mistake(KernelSyntaxError, "`i` has a meaning here already", "i", "another name")
def index_that_shadows():
    i = 0
    for i in range(3):  # here
        x[i] = 1.0


@mistake(KernelNameError, "`zero` is used before it has a value", "zero", "`zero[None]` for an element")
def augmented_field():
    zero += 1.0  # here


@mistake(KernelNameError, "`FACTOR` is used before it has a value", "FACTOR", "assign `FACTOR` first")
def augmented_number():
    FACTOR += 1.0  # here


@mistake(KernelNameError, "`grid` is first assigned inside the block at line", "grid", "or the local another name")
def field_after_a_local_of_its_name():
    for i in range(3):
        if i > 0:
            grid = 1.0
        x[i] = grid[i, 0]  # here


@mistake(
    KernelTypeError,
    "a local holds numbers, vectors, matrices and structs, not the field `zero`",
    "n = zero",
    "index it",
)
def field_as_a_local():
    n = zero  # here


# ---- elements ---------------------------------------------------------------------------------------------------


@mistake(KernelIndexError, "`grid` has 2 axes, but is indexed with 1", "grid[i]", "`grid[i, j]`")
def too_few_indices():
    for i in range(2):
        x[i] = grid[i]  # here


@mistake(KernelIndexError, "`x` has 1 axis, but is indexed with 2", "x[i, 0]", "`x[i]`")
def too_many_indices():
    for i in range(2):
        x[i, 0] = 1.0  # here


@mistake(KernelIndexError, "`zero` has 0 axes, but is indexed with 1", "zero[0]", "`zero[None]`")
def index_of_a_scalar_field():
    zero[0] = 1.0  # here


@mistake(KernelTypeError, "an index is an integer, not f64", "0.5 * x[1]", "int(")
def real_index():
    n[0] = int(x[0.5 * x[1]])  # here


@mistake(KernelIndexError, "the index -1 is negative", "-1", "n - 1")
def negative_index():
    zero[None] = x[-1]  # here


@mistake(KernelIndexError, "`x` has 1 axis, but is indexed with 0", "x[None]", "`x[i]`")
def none_index():
    x[None] = 1.0  # here


@mistake(KernelTypeError, "the field `n` has no gradient", "n.grad", "needs_grad=True")
def missing_gradient():
    x[0] = n.grad[0]  # here


@mistake(KernelSyntaxError, "`x.copy_from` cannot be used in a kernel", "x.copy_from")
def method_of_a_field():
    x.copy_from(y)  # here


@mistake(KernelTypeError, "a number cannot be indexed", "v[0]", "vector")
def indexed_number():
    v = 1.0
    x[0] = v[0]  # here


@mistake(KernelTypeError, "a number is expected here, not the field `x`", "x + 1.0", "`x[i]`")
def field_as_a_number():
    zero[None] = x + 1.0  # here


@mistake(
    KernelTypeError,
    "a sequence `fields` is indexed with a value that is not known at compile time",
    "fields[i]",
    "sg.static(range(n))",
)
def dynamic_index_of_a_list():
    for i in range(2):
        fields[i][0] = 1.0  # here


# ---- loops ------------------------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "`break` cannot leave a parallel loop", "break", "`continue`")
def break_of_a_parallel_loop():
    for i in range(3):
        if x[i] > 1:
            break  # here


@mistake(KernelSyntaxError, "`return` inside a parallel loop", "return", "`continue`")
def return_of_a_parallel_loop():
    for i in range(3):
        if x[i] > 1:
            return  # here


@mistake(KernelTypeError, "nothing that a kernel can loop over", "n[0]", "`range(n[0])`")
def loop_over_a_number():
    for i in n[0]:  # here
        x[i] = 1.0


@mistake(KernelTypeError, "nothing that a kernel can loop over", "fields", "sg.static(fields)")
def loop_over_a_list():
    for f in fields:  # here
        f[0] = 1.0


@mistake(KernelTypeError, "this loop has 2 axes and 3 indices", "i, j, m")
def wrong_number_of_targets():
    for i, j, m in grid:  # here
        grid[i, j] = m


@mistake(KernelTypeError, "the 0-d field `zero` has no indices", "zero", "zero[None]")
def loop_over_a_scalar_field():
    for i in zero:  # here
        x[i] = 1.0


@mistake(KernelNameError, "the name `unknown_field` is not known", "unknown_field")
def inner_loop_over_an_unknown_name():
    for i in range(2):
        for j in unknown_field:  # here
            x[i] = j


@mistake(KernelSyntaxError, "`range` takes 1 to 3 values", "range()")
def range_of_nothing():
    for i in range():  # here
        x[i] = 1.0


@mistake(KernelSyntaxError, "`sg.ndrange` stands only after `in` of a loop", "sg.ndrange(3)")
def ndrange_as_a_value():
    x[0] = sg.ndrange(3)  # here


@mistake(KernelSyntaxError, "`else` after a loop", "x[0] = 1.0")
def for_else():
    for i in range(3):
        x[i] = 0.0
    else:
        x[0] = 1.0  # here


@mistake(KernelSyntaxError, "`else` after a loop", "x[0] = 1.0")
def while_else():
    while n[0] > 0:
        n[0] -= 1
    else:
        x[0] = 1.0  # here


@pytest.mark.parametrize(("function", "kind", "reason", "at", "cure"), mistake)
def test_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    check_mistake(function, kind, reason, at, cure)
