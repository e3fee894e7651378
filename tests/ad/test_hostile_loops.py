"""Test loops and early exits that mislead the compiler's analysis of memory accesses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, judge, real, refused = support.ints, support.judge, support.real, support.refused


@pytest.fixture(autouse=True)
def machine():
    support.setup()


def test_strided_loop_whose_begin_moves():
    """for j in range(t, 6, 2): step t = 1 writes the odd elements that t = 0 read, though 1 is no multiple of 2."""
    s, y = real(np.linspace(0.3, 0.9, 8)), real(0.0)

    @sg.kernel
    def run():
        for _ in range(1):
            total = 0.0
            for t in range(2):
                for j in range(t, 6, 2):
                    total += s[j + 1] * s[j + 1]
                    s[j] = total
            y[0] = total

    refused(run, "value of s[1] read here", "overwrites later (line ")


def test_strided_loop_whose_begin_stays():
    """Evens are read and odds written, in every step of the outer loop."""
    s, y, first = real(np.linspace(0.3, 0.9, 8)), real(0.0), ints(1)

    @sg.kernel
    def run():
        for _ in range(1):
            total = 0.0
            b = first[0]
            for _ in range(2):
                for j in range(b, 6, 2):
                    total += s[j + 1] * s[j + 1]
                    s[j] = total
            y[0] = total

    judge(run)


@pytest.mark.parametrize("flags", [(0, 0), (1, 0), (0, 1)])
def test_two_places_where_the_kernel_may_end(flags):
    """Each early return of the kernel has a flag of its own: the second does not undo what the first let pass."""
    x, y, z, c = real(1.0, 2.0), real(0.0, 0.0), real(0.5, 0.0), ints(*flags)

    @sg.kernel
    def run():
        if c[0] > 0:
            return
        for i in x:
            y[i] = x[i] * x[i]
        if c[1] > 0:
            return
        z[0] += y[0] * x[1]
        for i in x:
            z[i] = z[i] + x[i] * y[i]

    judge(run)


def test_while_condition_that_stores():
    """The function called in the condition scales y[i] and adds to z[i], once more than the body runs."""
    x, y, z = real(0.8, 0.9, 0.95), real(0.0, 0.0, 0.0), real(0.1, 0.2, 0.3)

    @sg.func
    def shrink(i, v):
        z[i] += v * v
        y[i] = y[i] * 0.5 + x[i] * 0.01
        return y[i]

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            y[i] = v
            z[i] = v * 0.1
            while shrink(i, v) > 0.1 and v > 0.2:
                v = v * 0.7 + 0.1 * y[i]
                z[i] += y[i] * 2.0
                if z[i] > 4.0:
                    break
            y[i] += v

    judge(run)


def test_while_condition_that_stores_and_returns_early():
    """The same where the function has two exits, in a loop inside a loop."""
    x, y, z, n = real(0.8, 0.9, 0.95), real(0.0, 0.0, 0.0), real(0.1, 0.2, 0.3), ints(3)

    @sg.func
    def step(i, v):
        if v > 0.5:
            z[i] += v
            return v
        z[i] = z[i] + sg.sin(v) * x[i]
        return v * 0.5

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for k in range(n[0]):
                while step(i, v) > 0.05:
                    v = v * (0.4 + 0.1 * k)
                    if v < 0.02:
                        break
                v += 0.5 * x[i]
            y[i] = v

    judge(run)


@pytest.mark.parametrize("begin, end, step", [(2**31 - 8, 2**31 - 1, 5), (-(2**31) + 8, -(2**31) + 1, -5), (7, 0, -3)])
def test_early_exit_near_the_ends_of_the_index_type(begin, end, step):
    """begin + trips · step is beyond the largest integer; every index that was visited is not."""
    x, y, c = real(0.8, 0.9, 0.95), real(0.0, 0.0, 0.0), real(0.3, 0.5)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for j in range(begin, end, step):
                v = sg.sin(v) * x[i] * (1.0 + c[j % 2])
                if v < 0.6:
                    break
            y[i] = v

    judge(run)


def test_early_exit_from_a_narrow_loop():
    """200 rounds of an i8 index, and 64 of an i64 one, in text: trip counts have types of their own."""
    text = """kernel run(x: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    local v: f64
    set v, %3
    %4: T = const -100
    %5: T = const 100
    for %6: T in %4 .. %5 step STEP {
      %7: f64 = get v
      %8: f64 = cast %6
      %9: f64 = const 0.01
      %10: f64 = mul %8, %9
      %11: f64 = sin %7
      %12: f64 = mul %11, %10
      %13: f64 = sin %12
      set v, %13
      %14: f64 = const -0.9
      %15: u1 = cmp_lt %13, %14
      if %15 {
        break 1
      }
    }
    %16: f64 = get v
    store y[%2], %16
  }
}
"""
    arrays = {"x": np.array([0.8, 0.9, 0.95]), "y": np.zeros(3)}
    for dtype, step in (("i8", 1), ("i8", 3), ("i64", 3), ("i16", 1)):
        typed = text.replace(": T ", f": {dtype} ").replace("STEP", str(step))
        kernel = sg.kernel_from_text(typed)
        support.judge_ir(kernel.ir(), arrays, {})
