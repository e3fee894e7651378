"""Test loops that push, and reverse loops that pop for four trips at a time, on the emulated driver and the reference.

They have any number of trips, and slots of any kind.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from recorded_support import forward, near
from stack_loops import ADD, POP, READ, TAIL
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.emulated_cuda.backend import emulated_cuda

FAST = Options(precise=False)

HEAD = """kernel k(n: i32, m: i32, x: f32[1], out: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32 adstack_alloca t: T adstack_alloca u: u1
    %3: f32 = load x[%2] %4: i32 = arg n %5: i32 = const 0 %6: f32 = const 0.5 %7: f64 = const 3.0
    local v: f32 local sum: f64
    set v, %3
    for %10: i32 in %5 .. %4 {
      %11: f32 = get v adstack_push s, %11
      %12: f32 = sin %11 %13: f32 = mul %12, %6 set v, %13
      %14: T = cast %13 adstack_push t, %14
      %15: u1 = cmp_lt %13, %6 adstack_push u, %15
    }
"""
GROUPED = {
    "all at the head": f"for %20: i32 in %5 .. %4 descending {{ {READ} {POP} {ADD} }}",
    "popped at the end": f"for %20: i32 in %5 .. %4 descending {{ {READ} {ADD} {POP} }}",
    "a descending index": f"for %20: i32 in %5 .. %4 descending {{ {READ} {POP} {ADD} %32: f64 = cast %20 "
    "%33: f64 = get sum %34: f64 = add %33, %32 set sum, %34 }",
    "an ascending index": f"for %20: i32 in %5 .. %4 {{ {READ} {POP} {ADD} %32: f64 = cast %20 "
    "%33: f64 = get sum %34: f64 = mul %33, %32 set sum, %34 }",
    "reads under a condition": f"for %20: i32 in %5 .. %4 {{ {READ} if %23 {{ {ADD} %35: f32 = adstack_load_top s "
    f"%36: f64 = cast %35 set sum, %36 }} {POP} }}",
    "writes in each trip": f"for %20: i32 in %5 .. %4 {{ {READ} {POP} {ADD} store out[%2], %31 }}",
    "fewer than there are": f"%19: i32 = floordiv %4, %18 for %20: i32 in %5 .. %19 {{ {READ} {POP} {ADD} }} "
    f"{READ.replace('%2', '%4')} %50: f64 = cast %41 %51: f64 = get sum %52: f64 = add %51, %50 set sum, %52",
}
SINGLE = {
    "two pops of a trip": f"for %20: i32 in %5 .. %19 {{ {READ} {POP} {ADD} {POP} }}",
    "an early end": f"local stop: u1 for %20: i32 in %5 .. %4 until stop {{ {READ} {ADD} set stop, %23 }}",
    "counted trips": f"for %20: i32 in %5 .. %4 trips %60: i32 {{ {READ} {POP} {ADD} }} %61: f64 = cast %60 "
    "%62: f64 = get sum %63: f64 = add %61, %62 set sum, %63",
    "a read behind the pop": f"for %20: i32 in %5 .. %19 {{ {POP} {READ} {ADD} }}",
}


def kernel(loop: str, dtype: str) -> Kernel:
    half = "%18: i32 = const 2 %19: i32 = floordiv %4, %18"
    loop = loop.replace("%19: i32 = floordiv %4, %18 ", "")
    return parse_kernel((HEAD + half + " " + loop + TAIL).replace("T", dtype))


X = np.array([0.3, -0.9, 1.5, 3.0, 1e3, -4e4, 1e6, np.inf, np.nan, -0.0], np.float32)


def check(source: Kernel, n: int) -> None:
    """Assert that the emulated driver and the reference agree."""
    arrays, scalars = {"x": X.copy(), "out": np.zeros(len(X))}, {"n": n, "m": n}
    known = forward(source, arrays, scalars)
    Launcher(prepare_forward(source), emulated_cuda(), FAST).run(arrays, scalars)
    near(known, "out", arrays["out"])


TRIPS = {"f32": (0, 1, 2, 3, 4, 5, 7, 8, 9, 13), "f16": (0, 3, 4, 5, 6, 7, 8, 9, 13)}
"""In one or two trips sums of halves cancel, so that bounds of what their roundings do would say nothing."""


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "i32", "i64"])
@pytest.mark.parametrize("name", [*GROUPED, *SINGLE])
def test_any_number_of_trips(name: str, dtype: str) -> None:
    source = kernel({**GROUPED, **SINGLE}[name], dtype)
    for n in TRIPS.get(dtype, (0, 3, 8)):
        if n == 0 and name == "fewer than there are":
            continue  # it reads an empty stack
        check(source, n)


def heads(source: Kernel, options: Options = FAST) -> int:
    return len(re.findall(r"^pops\.head", generate(source, options).text, flags=re.M))


@pytest.mark.parametrize("name", [*GROUPED, *SINGLE])
def test_which_loops(name: str) -> None:
    source = kernel({**GROUPED, **SINGLE}[name], "f32")
    assert heads(source) == (name in GROUPED)
    assert heads(source, Options(precise=False, debug=True)) == 0
