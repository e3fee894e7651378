"""Test values that the reverse sweep recomputes in loops of misleading shapes: counters, and restored local arrays."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.ir.parser import parse_kernel

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)

WAYS = tuple((policy, "reference") for policy in POLICIES) + (("lean", "cpu"), ("restoring", "cpu"), ("classic", "cpu"))


def judge_body(body):
    """Judge the kernel that stores to y[i] the value of `a` after `body`.

    The body may read %3 = x[i], %4 = n[i], and the constants %5 = 0 and %6 = 1.
    """
    kernel = parse_kernel(f"""kernel body(x: f64[1] grad, n: i32[1], y: f64[1] grad) {{
        bounds {{ %0: i32 = const 0  %1: i32 = shape x, 0 }}
        parallel %2: i32 in %0 .. %1 {{
            %3: f64 = load x[%2]
            %4: i32 = load n[%2]
            %5: i32 = const 0
            %6: i32 = const 1
            local a: f64
            set a, %3
            {body}
            %7: f64 = get a
            store y[%2], %7
        }}
    }}""")
    x = np.array([0.3, -0.8, 1.2, 0.7])
    arrays = {"x": x, "n": np.array([2, 0, 3, 1], np.int32), "y": np.cos(x)}
    support.judge_ir(kernel, arrays, {}, ways=WAYS)


def use(integer, ids=90):
    """Return IR text of a += sin(x cos(integer)), which makes the result depend on each value of the integer."""
    return f"""%{ids}: f64 = cast {integer}
        %{ids + 1}: f64 = cos %{ids}
        %{ids + 2}: f64 = mul %3, %{ids + 1}
        %{ids + 3}: f64 = sin %{ids + 2}
        %{ids + 4}: f64 = get a
        %{ids + 5}: f64 = add %{ids + 3}, %{ids + 4}
        set a, %{ids + 5}"""


def test_condition_that_writes_a_local_array():
    """The reverse sweep repeats no condition, so what is written there cannot be put back before an earlier read."""
    judge_body(f"""
        local_array h: i32[2]
        while {{
            %10: i32 = get_element h[%5]
            %11: i32 = add %10, %6
            set_element h[%5], %11
            %12: i32 = const 4
            %13: u1 = cmp_le %11, %12
        }} test %13 {{
            %14: i32 = get_element h[%5]
            {use("%14")}
        }}""")


def test_condition_of_an_inner_loop_that_writes_what_a_branch_reads():
    judge_body(f"""
        local_array h: i32[2]
        %10: i32 = const 3
        for %11: i32 in %5 .. %10 {{
            %12: i32 = get_element h[%6]
            {use("%12", 90)}
            while {{
                %13: i32 = get_element h[%6]
                %14: i32 = add %13, %6
                set_element h[%6], %14
                %15: i32 = mod %14, %10
                %16: u1 = cmp_ne %15, %5
            }} test %16 {{
                %17: i32 = get_element h[%6]
                set_element h[%5], %17
                {use("%17", 80)}
            }}
        }}""")


def test_counter_beside_a_flag_that_is_taken_back():
    """Where the branch does not end the loop after all, the arm that counts was not run before the next iteration."""
    judge_body(f"""
        local stop: u1
        local k: i32
        %10: i32 = const 9
        for %11: i32 in %5 .. %10 until stop {{
            %12: i32 = get k
            {use("%12")}
            %13: f64 = const 0.0
            %14: u1 = cmp_gt %93, %13
            if %14 {{
                %15: u1 = const true
                set stop, %15
                %16: u1 = cmp_lt %11, %4
                if %16 {{
                    %17: u1 = const false
                    set stop, %17
                }}
            }} else {{
                %18: i32 = add %12, %6
                set k, %18
            }}
        }}""")


@pytest.mark.rotating
@pytest.mark.parametrize("counter", ["i32", "i8", "u8", "i64", "u64"])
@pytest.mark.parametrize("begin, end, step", [(-128, 127, 1), (127, -128, -1), (-128, 127, 3)])
def test_counter_wider_than_the_index_of_its_loop(counter, begin, end, step):
    """The number of the iteration does not fit the type of the index: -128 .. 127 has 255 of them."""
    judge_body(f"""
        local k: {counter}
        %10: i8 = const {begin}
        %11: i8 = const {end}
        %12: {counter} = const 1
        for %13: i8 in %10 .. %11 step {step} {{
            %14: {counter} = get k
            {use("%14")}
            %15: {counter} = add %14, %12
            set k, %15
        }}""")
