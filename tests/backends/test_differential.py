"""Test the CPU against the reference interpreter: every statement of the IR, and both forms of atomics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.llvm.branching.control import BRANCHING
from stackgrad.backends.llvm.branching.statements import LOWER
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import ATOMIC_OPS, atomic_fits
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.roles import BLOCKS
from stackgrad.compiler.ir.types import SCALARS, Scalar
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.reference.launch import run as interpret

VALUES = """kernel values(n: i32, a: f64, p: u1, x: f64[1], y: f64[1], k: i64[1], g: u1[2], r: u64[1]) {
  temp $sum: f64
  temp $any: u1
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = arg a
    %5: u1 = arg p
    %6: i64 = shape g, 1
    %7: f64 = mul %3, %4
    %8: i64 = cast %7
    %9: i64 = bit_cast %7
    %10: i64 = bit_xor %8, %9
    store k[%2], %10
    %11: u1 = cmp_lt %7, %3
    %12: u1 = bit_or %11, %5
    %13: i32 = const 1
    %19: i32 = within %13, %6, "column {index} of {extent}"
    store g[%2, %19], %12
    %14: f64 = atomic add $sum[], %7
    %15: u1 = atomic bit_or $any[], %11
    %16: u64 = random
    %17: u64 = cast %6
    %18: u64 = add %16, %17
    store r[%2], %18
    assert %5, "p is true in this test"
  }
  serial {
    %20: f64 = load $sum[]
    %21: u1 = load $any[]
    %22: f64 = const 1e6
    %23: f64 = select %21, %20, %22
    %24: i32 = const 0
    store y[%24], %23
    print "sum {}" %20
  }
}"""

CONTROL = """kernel flow(n: i32, x: f64[1], y: f64[1], k: i64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    local v: f64
    local done: u1
    local_array a: f64[5]
    %3: f64 = load x[%2]
    set v, %3
    %4: i32 = const 0
    %5: i32 = const 7
    scope {
      for %6: i32 in %4 .. %5 step 2 until done trips %7: i32 {
        %8: f64 = get v
        %9: f64 = const 1.5
        %10: f64 = mul %8, %9
        set v, %10
        %11: i64 = cast %10
        %12: i64 = const 5
        %13: i64 = mod %11, %12
        set_element a[%13], %10
        %14: u1 = cmp_gt %10, %12e
        if %14 { break 2 } else {
          %15: u1 = cmp_lt %10, %9
          if %15 { continue 1 }
        }
        %16: u1 = cmp_lt %10, %3
        set done, %16
      }
      %17: i64 = cast %7
      store k[%2], %17
    }
    local m: i32
    while { %20: i32 = get m %21: u1 = cmp_lt %20, %2 } test %21 trips %22: i32 {
      %23: i32 = get m
      %24: i32 = const 3
      %25: i32 = add %23, %24
      set m, %25
      %26: i32 = const 20
      %27: u1 = cmp_gt %25, %26
      if %27 { break 1 }
    }
    %28: f64 = cast %22
    %30: i32 = const 3
    %31: f64 = get_element a[%30]
    %32: f64 = add %31, %28
    store y[%2], %32
    %33: u1 = cmp_gt %32, %28
    if %33 { return }
    %34: f64 = get v
    store y[%2], %34
  }
}""".replace("%12e", "%100").replace("%9: f64 = const 1.5", "%9: f64 = const 1.5 %100: f64 = const 12.0")

STACKS = """kernel stacks(n: i32, x: f64[1] grad, k: i64[1], g: u1[2]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f64 adjoint of v
    adstack_alloca i: i32 of i
    adstack_alloca b: u1
    %3: f64 = load x[%2]
    %4: i32 = const 0
    for %5: i32 in %4 .. %2 {
      %6: f64 = cast %5
      %7: f64 = add %6, %3
      adstack_push s, %7
      %8: u1 = cmp_gt %7, %6
      if %8 { adstack_push i, %5 }
      adstack_push b, %8
    }
    for %10: i32 in %4 .. %2 descending {
      %11: f64 = adstack_load_top s
      adstack_acc_adj s, %11
      adstack_acc_adj s, %3
      %12: f64 = adstack_load_top_adj s
      %13: f64 = atomic add x.grad[%2], %12
      %14: u1 = adstack_load_top b
      if %14 {
        %15: i32 = adstack_load_top i
        %16: i64 = cast %15
        %17: i64 = atomic max k[%2], %16
        adstack_pop i
      }
      adstack_pop b
      adstack_pop s
    }
  }
}"""

KERNELS = {"values": VALUES, "flow": CONTROL, "stacks": STACKS}


def inputs(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.standard_normal(n) * 3,
        "x.grad": rng.standard_normal(n),
        "y": np.zeros(max(n, 1)),
        "k": rng.integers(-9, 9, n),
        "g": rng.random((n, 3)) > 0.5,
        "r": np.zeros(n, np.uint64),
    }


@pytest.mark.rotating
@pytest.mark.parametrize("options", [Options(lanes=0), Options(debug=True)], ids=["release", "debug"])
@pytest.mark.parametrize("name", KERNELS)
def test_agrees(name: str, options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    """Bit for bit, memory and prints, for no iterations, one, and many, twice in a row."""
    kernel = parse_kernel(KERNELS[name])
    executable = CpuBackend().compile(kernel, options)
    for n in (0, 1, 2, 3, 40, 40):
        ours, theirs = inputs(n), inputs(n)
        scalars: dict[str, Any] = {"n": n, "a": 1.25, "p": True}
        scalars = {k: v for k, v in scalars.items() if k in kernel.scalar_types()}
        needed = {p.name for p in kernel.params} | {"x.grad"}
        ours, theirs = ({k: v for k, v in arrays.items() if k in needed} for arrays in (ours, theirs))
        if name != "stacks":
            del ours["x.grad"], theirs["x.grad"]
        draws = Draws(seed=n, launch=5)
        capsys.readouterr()
        deepest = interpret(kernel, theirs, scalars, draws=draws).deepest
        expected = capsys.readouterr().out
        executable.run(ours, scalars, Sizes(dict(deepest)), draws)
        assert capsys.readouterr().out == expected
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key], f"{key}, n = {n}")


def test_every_statement_is_covered() -> None:
    """By the kernels above, and by a row of one of the two tables."""
    seen = {type(s) for text in KERNELS.values() for s in walk_kernel(parse_kernel(text))}
    assert seen == set(STATEMENTS.values()) - set(BLOCKS), "blocks are loops in code of the CPU"
    assert LOWER.missing() == [] and BRANCHING.missing() == []
    assert {*LOWER, *BRANCHING} == set(STATEMENTS.values())


def _atomic(op: str, t: Scalar) -> Kernel:
    """Return a kernel of one atomic operation; for cas, most iterations expect the value that the one before stored."""
    expected = " expected %9" if op == "cas" else ""
    return parse_kernel(f"""kernel k(x: {t}[1], y: {t}[1], old: {t}[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {t} = load y[%2]
        %4: i32 = const 0
        %6: i32 = const 1
        %7: i32 = sub %2, %6
        %8: i32 = max %7, %4
        %9: {t} = load y[%8]
        %5: {t} = atomic {op} x[%4], %3{expected}
        store old[%2], %5
      }}
    }}""")


CASES = [(op, t) for op in ATOMIC_OPS for t in SCALARS.values() if atomic_fits(op, t)]


@pytest.mark.rotating
@pytest.mark.parametrize("concurrent", [False, True], ids=["plain", "atomic"])
@pytest.mark.parametrize("op", ATOMIC_OPS)
def test_atomics(op: str, concurrent: bool) -> None:
    """Old values and the final one, in the form for one thread and in the one for many."""
    backend = CpuBackend(replace(CPU, concurrent=concurrent))
    for t in (t for o, t in CASES if o == op):
        numbers = [1, 3, 0, 2, 1] if not t.is_real else [1.0, -0.0, 0.0, 0.1, -3.0, 1e4, np.inf, np.nan, 2.0]
        start = numbers[0] if op == "cas" else 2
        old = np.zeros(len(numbers), t.dtype)
        arrays = {"x": np.array([start], t.dtype), "y": np.array(numbers, t.dtype), "old": old}
        theirs = {name: array.copy() for name, array in arrays.items()}
        kernel = _atomic(op, t)
        interpret(kernel, theirs, {})
        backend.compile(kernel, Options()).run(arrays, {}, Sizes(), Draws())
        for name in ("x", "old"):
            np.testing.assert_array_equal(arrays[name], theirs[name], f"{op} {t} {name}")
            if t.is_real:
                real = ~np.isnan(theirs[name])
                np.testing.assert_array_equal(np.signbit(arrays[name][real]), np.signbit(theirs[name][real]))
