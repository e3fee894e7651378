"""Test masked code against branching code: the same memory bit for bit, for any number of lanes and iterations.

Sums and products of reals in one element are combined in another order by lanes: there the tests use whole numbers, so
that every order gives the same result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu.backend import CpuBackend, CpuExecutable
from stackgrad.backends.host.jit import host_target
from stackgrad.backends.llvm.masked import eligible, lanes_of
from stackgrad.backends.llvm.masked.function import lower_exits_of
from stackgrad.backends.llvm.masked.masks import MASKED_CONTROL
from stackgrad.backends.llvm.masked.statements import MASKED
from stackgrad.compiler.analysis.uniformity import RULES, Uniformity
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run as interpret

HEAD = """
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    %3: i32 = const 1 %4: i32 = const 3 %5: i32 = const 5 %6: i32 = const 0
    %7: f32 = load x[%2] %8: i32 = load m[%2] %9: f32 = const 0.5 %10: f32 = const 1.0
"""
PARAMS = "(n: i32, x: f32[1] grad, y: f32[1], m: i32[1], k: i64[1], w: f32[2])"

FLOW = """
    local v: f32 set v, %7
    %20: u1 = cmp_gt %7, %9
    if %20 { %21: f32 = mul %7, %7 set v, %21 } else { %22: f32 = get v %23: f32 = sub %22, %9 store w[%2, %3], %23 }
    for %24: i32 in %6 .. %8 trips %25: i32 {
      %26: f32 = get v %27: f32 = mul %26, %9 %28: f32 = cast %24 %29: f32 = add %27, %28 set v, %29
      %30: u1 = cmp_gt %29, %10
      if %30 { %31: i32 = bit_and %24, %3 %32: u1 = cmp_eq %31, %6 if %32 { continue 1 } break 1 }
      for %33: i32 in %24 .. %5 step 2 { %34: f32 = get v %35: f32 = cast %33 %36: f32 = add %34, %35 set v, %36 }
    }
    for %37: i32 in %8 .. %6 step -2 descending {
      %38: f32 = get v %39: f32 = cast %37 %40: f32 = sub %39, %38 set v, %40 }
    scope {
      %41: u1 = cmp_lt %7, %10
      if %41 { break 1 }
      local j: i32
      while { %42: i32 = get j %43: u1 = cmp_lt %42, %8 } test %43 trips %44: i32 {
        %45: i32 = get j %46: i32 = add %45, %3 set j, %46
        %47: u1 = cmp_ge %46, %4
        if %47 { if %20 { return } }
      }
      %48: i64 = cast %44 %49: i64 = atomic add k[%2], %48
    }
    %50: i64 = cast %25 %51: i64 = atomic max k[%2], %50
    %52: f32 = get v store y[%2], %52
"""

MEMORY = """
    local_array a: f32[4] local_array b: i32[3]
    for %20: i32 in %6 .. %4 {
      %21: f32 = cast %20 %22: f32 = add %21, %7 set_element a[%20], %22 set_element b[%20], %20
    }
    %23: i32 = bit_and %8, %4 set_element a[%23], %7
    %24: u1 = cmp_lt %7, %9
    if %24 { set_element a[%3], %9 set_element a[%8], %10 }
    %25: f32 = get_element a[%8] %26: f32 = get_element a[%3] %27: i32 = get_element b[%23] %28: i32 = get_element b[%8]
    %29: i32 = add %27, %28 %30: f32 = cast %29 %31: f32 = add %25, %26 %32: f32 = add %31, %30
    %33: i32 = sub %1, %2 %34: i32 = sub %33, %3 %35: i32 = mul %2, %3 %36: i32 = mod %35, %4
    store w[%34, %36], %32
    %37: f32 = load w[%34, %36] %38: f32 = load x[%6] %39: f32 = load x[%34]
    %40: f32 = add %37, %38 %41: f32 = sub %40, %39
    %42: i32 = add %2, %3 %43: i32 = sub %42, %3 store y[%43], %41
    %44: i64 = cast %2 %45: u1 = cmp_eq %8, %4
    if %45 { store k[%44], %44 %46: i64 = cast %8 %47: i64 = atomic add k[%6], %46 }
""".replace("%1, %2", "%60, %2").replace("local_array a", "%60: i32 = arg n local_array a", 1)

ATOMICS = """
    %20: f32 = round %7 %21: i32 = mod %8, %4 %22: i64 = cast %8 %44: i32 = const 2 %45: i32 = const 4
    %23: f32 = atomic add y[%21], %20 %24: f32 = atomic add y[%5], %20 %25: f32 = atomic min w[%6, %45], %7
    %26: f32 = atomic max w[%3, %44], %7 %27: i64 = atomic bit_or k[%45], %22 %28: i64 = atomic bit_xor k[%21], %22
    %29: u1 = cmp_gt %7, %9
    if %29 {
      %30: f32 = atomic add w[%2, %4], %7 %31: i64 = atomic min k[%4], %22 %32: i64 = atomic exchange k[%5], %22
      %33: f32 = atomic mul w[%4, %3], %10 %34: f32 = load w[%2, %4] store x[%2], %34
    }
    %35: f32 = atomic add x.grad[%2], %7 %36: f32 = cast %22 %37: f32 = add %35, %36 store w[%2, %5], %37
    %38: f32 = random %39: i64 = random %40: u1 = cmp_gt %38, %9
    if %40 { %41: f32 = random store w[%2, %4], %41 }
    %42: f32 = random %43: f32 = add %42, %38 store w[%2, %6], %43
    assert %40, "checked under debug alone"
"""

STACKS = """
    adstack_alloca s: f32 adjoint
    adstack_alloca u: i32
    adstack_alloca b: u1
    local v: f32 set v, %7
    for %20: i32 in %6 .. %4 { adstack_push u, %20 %21: f32 = get v adstack_push s, %21 set v, %9 }
    for %22: i32 in %6 .. %8 {
      %23: f32 = get v %24: f32 = cast %22 %25: f32 = add %23, %24 set v, %25
      %26: u1 = cmp_gt %25, %10 adstack_push b, %26
      if %26 { adstack_push s, %25 }
    }
    for %27: i32 in %6 .. %8 descending {
      %28: u1 = adstack_load_top b adstack_pop b
      if %28 {
        %29: f32 = adstack_load_top s adstack_acc_adj s, %29 adstack_acc_adj s, %10
        %30: f32 = adstack_load_top_adj s %31: f32 = atomic add x.grad[%2], %30 adstack_pop s
      }
    }
    for %32: i32 in %6 .. %4 descending {
      %33: f32 = adstack_load_top s %34: i32 = adstack_load_top u adstack_acc_adj s, %7
      %35: f32 = adstack_load_top_adj s
      %36: f32 = cast %34 %37: f32 = add %33, %36 %38: f32 = add %37, %35 store w[%2, %32], %38
      adstack_pop u adstack_pop s
    }
"""

KERNELS = {
    name: f"kernel k{PARAMS} {{{HEAD}{body}  }}\n}}"
    for name, body in {"flow": FLOW, "memory": MEMORY, "atomics": ATOMICS, "stacks": STACKS}.items()
}


def inputs(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    size = max(n, 8)
    return {
        "x": (rng.standard_normal(size) * 2).astype(np.float32),
        "x.grad": np.zeros(size, np.float32),
        "y": np.zeros(size, np.float32),
        "m": rng.integers(-1, 8, size).astype(np.int32),
        "k": np.arange(size, dtype=np.int64),
        "w": rng.random((size, 6)).astype(np.float32),
    }


@cache
def compiled(text: str, lanes: int, masks: bool) -> CpuExecutable:
    """Compile a kernel for the host, without index checks if it leaves its arrays on purpose."""
    target = host_target() if masks else replace(host_target(), vector_masks=False)
    return CpuBackend(target).compile(parse_kernel(text), Options(lanes=lanes, bounds="a[%8]" not in text))


def run(text: str, lanes: int, n: int, masks: bool = True) -> dict[str, np.ndarray]:
    """Return memory after a launch, with the adstack depths that the interpreter reaches."""
    executable = compiled(text, lanes, masks)
    names = {p.name for p in executable.kernel.params} | {"x.grad"}
    if "x.grad" not in text:
        names.remove("x.grad")
    arrays = {name: array for name, array in inputs(n).items() if name in names}
    scalars: dict[str, Any] = {"n": n} if "n" in executable.kernel.scalar_types() else {}
    draws = Draws(seed=n, launch=3)
    deepest: dict[str, int] = {}
    if executable.layout.stacks:
        copies = {name: array.copy() for name, array in arrays.items()}
        deepest = dict(interpret(executable.kernel, copies, scalars, draws=draws).deepest)
    executable.run(arrays, scalars, Sizes(deepest), draws)
    return arrays


@pytest.mark.rotating
@pytest.mark.parametrize("masks", [True, False], ids=["masks", "loops"])
@pytest.mark.parametrize("lanes", [4, 8, 64])
@pytest.mark.parametrize("name", KERNELS)
def test_agrees_with_branching_code(name: str, lanes: int, masks: bool) -> None:
    """With the machine's masked access to memory and with loops in its place."""
    for n in (0, 1, 2, 3, 17, 200):
        found, expected = run(KERNELS[name], lanes, n, masks), run(KERNELS[name], 0, n)
        for key in found:
            np.testing.assert_array_equal(found[key], expected[key], f"{key}, n = {n}")


BOX = """kernel k(x: i64[3]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 %2: i64 = const 1 %3: i32 = shape x, 1 %4: i32 = LAST }
  parallel %5: i32, %6: i64, %7: i32 in %0 .. %1, %2 .. %8, %0 .. %4 {
    %10: i64 = cast %5 %11: i64 = const 100 %12: i64 = mul %10, %11 %13: i64 = add %12, %6
    %14: i64 = mul %13, %11
    %15: i64 = cast %7 %16: i64 = add %14, %15
    %17: i64 = atomic add x[%5, %6, %7], %16
  }
}""".replace("%3: i32 = shape x, 1", "%3: i32 = shape x, 1 %8: i64 = cast %3")


@pytest.mark.parametrize("shape", [(3, 4, 70), (3, 4, 3), (1, 2, 1), (7, 9, 5), (0, 4, 4), (2, 5, 64)])
@pytest.mark.parametrize("last", ["shape x, 2", "const 3"])
def test_boxes(shape: tuple[int, int, int], last: str) -> None:
    """Blocks along rows, and blocks across rows that are known to be short."""
    text = BOX.replace("LAST", last)
    shape = (*shape[:2], 3) if last == "const 3" else shape
    for lanes in (8, 64):
        found, expected = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        compiled(text, lanes, True).run({"x": found}, {}, Sizes(), Draws())
        compiled(text, 0, True).run({"x": expected}, {}, Sizes(), Draws())
        np.testing.assert_array_equal(found, expected)


def test_a_full_stack_is_reported_by_masked_code() -> None:
    """One slot too few, under uniform control and under control of its own."""
    executable = compiled(KERNELS["stacks"], 8, True)
    deepest = interpret(executable.kernel, inputs(40), {"n": 40}).deepest
    for stack in ("u", "b"):
        short = dict(deepest) | {stack: deepest[stack] - 1}
        with pytest.raises(AdstackOverflow, match=f"adstack {stack} overflowed: it holds {short[stack]} values"):
            executable.run(inputs(40), {"n": 40}, Sizes(short), Draws())


def _uniformity(text: str) -> Uniformity:
    return Uniformity(lower_exits_of(parse_kernel(text), 0), linear=True)


def test_what_is_uniform() -> None:
    """Loops with fixed bounds, stacks pushed in them, elements at fixed indices; not what an element decides."""
    u = _uniformity(KERNELS["stacks"])
    assert u.ragged == {"s", "b"} and u.mixed == {"s", "b"} and u.changing == {"v"}
    named = {v.id for v in u.varying}
    assert {2, 7, 8, 25, 26, 28, 33} <= named and not {20, 22, 27, 32, 34, 36} & named
    u = _uniformity(KERNELS["memory"])
    assert u.changing == {"a"} and {v.id: s for v, s in u.strides.items() if v.id in (33, 42, 43, 35)} == {
        33: -1,
        42: 1,
        43: 1,
        35: 1,
    }


WIDE = replace(CPU, vector_masks=True)


def _text(body: str) -> str:
    return f"kernel k{PARAMS} {{{HEAD}{body}  }}\n}}"


def _kernel(body: str) -> Kernel:
    return parse_kernel(_text(body))


def test_which_tasks_have_masked_code() -> None:
    """Tasks that print do not, nor serial ones, nor those with vast local arrays. Large ones get fewer lanes, and so do
    those whose loops carry many numbers, and those of many statements.
    """
    assert eligible(_kernel(""), 0) and not eligible(_kernel('print "{}" %7'), 0)
    assert not eligible(parse_kernel("kernel k() { serial { } }"), 0)
    assert not eligible(_kernel("local_array a: f32[100000]"), 0)
    assert lanes_of(_kernel("local_array a: f32[1000]"), 0, Options(), WIDE) == 16
    assert lanes_of(_kernel("local_array a: f32[4000]"), 0, Options(), WIDE) == 8
    for count, lanes in ((3, 64), (8, 32), (9, 16)):
        names = [f"v{k}" for k in range(count)]
        declared = " ".join(f"local {name}: f64" for name in names)
        sets = " ".join(f"set {name}, %20" for name in names)
        loop = f"{declared} %20: f64 = cast %7 for %21: i32 in %6 .. %8 {{ {sets} }}"
        assert lanes_of(_kernel(loop), 0, Options(), WIDE) == lanes
    for count, lanes in ((400, 64), (600, 16)):
        sums = " ".join(f"%{20 + k}: i32 = add %7, %7" for k in range(count))
        assert lanes_of(_kernel(sums), 0, Options(), WIDE) == lanes
        assert lanes_of(_kernel(sums), 0, Options(lanes=32), WIDE) == 32
    assert lanes_of(_kernel(""), 0, Options(), CPU) == 32
    assert lanes_of(_kernel(""), 0, Options(), WIDE) == 64 and lanes_of(_kernel(""), 0, Options(lanes=4), WIDE) == 4


def test_tables_are_full() -> None:
    """Each statement has a row in one of the two tables, or a reason why not."""
    assert {*MASKED, *MASKED_CONTROL, *MASKED.holes} == set(STATEMENTS.values())
    assert MASKED.missing() == [] and MASKED_CONTROL.missing() == [] and RULES.missing() == []


def test_a_uniform_library_function_that_decides_control() -> None:
    """It is computed by the inlined code as in lanes, with no mask: it is a scalar."""
    text = _text("""
        %20: f32 = load x[%6] %21: f32 = sin %20 %22: u1 = cmp_gt %21, %9 %23: f32 = sin %7
        if %22 { store y[%2], %23 } else { store y[%2], %21 }
    """)
    for n in (1, 40):
        np.testing.assert_array_equal(run(text, 8, n)["y"], run(text, 64, n)["y"])
