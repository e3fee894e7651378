"""Adstacks of every type, and of several types in one task, on a device: what goes in comes out, in order."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel

DTYPES = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "u1": np.bool_,
}
OVER = "bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1"
DEPTH = 5


def there_and_back(t: str) -> str:
    """Pushes x[i, 0], x[i, 1], ...; what is popped goes to y[i, ...], and what an empty stack gives to the last."""
    return f"""kernel k(x: {t}[2], y: {t}[2]) {{ {OVER} {{
      adstack_alloca s: {t} capacity {DEPTH}
      %3: i32 = const 0 %4: i32 = const {DEPTH}
      for %5: i32 in %3 .. %4 {{ %6: {t} = load x[%2, %5] adstack_push s, %6 }}
      for %7: i32 in %3 .. %4 {{ %8: {t} = adstack_load_top s adstack_pop s store y[%2, %7], %8 }}
      %9: {t} = adstack_load_top s adstack_pop s store y[%2, %4], %9 }} }}"""


ADJOINT = """kernel k(x: {t}[2], y: {t}[2]) {{ {over} {{
  adstack_alloca s: {t} capacity {depth} adjoint
  %3: i32 = const 0 %4: i32 = const {depth}
  for %5: i32 in %3 .. %4 {{ %6: {t} = load x[%2, %5] adstack_push s, %6 adstack_acc_adj s, %6 adstack_acc_adj s, %6 }}
  for %7: i32 in %3 .. %4 {{
    %8: {t} = adstack_load_top s %9: {t} = adstack_load_top_adj s adstack_pop s
    %10: {t} = sub %9, %8 store y[%2, %7], %10 }} }} }}"""

MIXED = f"""kernel k(x: i32[2], y: i32[2]) {{ {OVER} {{
  adstack_alloca a: i32 adstack_alloca b: i8 adstack_alloca c: u1 adstack_alloca d: f64 adstack_alloca e: i32
  %3: i32 = const 0 %4: i32 = const {DEPTH}
  for %5: i32 in %3 .. %4 {{
    %6: i32 = load x[%2, %5] %7: i8 = cast %6 %8: u1 = cmp_gt %6, %3 %9: f64 = cast %6
    adstack_push a, %6 adstack_push b, %7 adstack_push c, %8 adstack_push d, %9
    if %8 {{ adstack_push e, %6 }}
  }}
  for %10: i32 in %3 .. %4 descending {{
    %11: i32 = adstack_load_top a %12: i8 = adstack_load_top b %13: u1 = adstack_load_top c
    %14: f64 = adstack_load_top d
    adstack_pop a adstack_pop b adstack_pop c adstack_pop d
    %15: i32 = cast %12 %16: i32 = cast %13 %17: i32 = cast %14
    %18: i32 = add %11, %15 %19: i32 = add %16, %17 %20: i32 = add %18, %19
    local v: i32 set v, %20
    if %13 {{ %21: i32 = adstack_load_top e adstack_pop e %22: i32 = add %20, %21 set v, %22 }}
    %23: i32 = get v store y[%2, %10], %23
  }} }} }}"""


def values(t: str) -> np.ndarray:
    """More rows than a workgroup, each with numbers of its own."""
    rng = np.random.default_rng(4)
    if t == "u1":
        return rng.integers(0, 2, (200, DEPTH)).astype(np.bool_)
    if t.startswith("f"):
        return rng.normal(size=(200, DEPTH)).astype(DTYPES[t])
    info = np.iinfo(DTYPES[t])
    return rng.integers(info.min, info.max, (200, DEPTH), dtype=DTYPES[t], endpoint=True)


def result(vulkan: VulkanBackend, text: str, x: np.ndarray, **capacities: int) -> np.ndarray:
    y = np.ones((len(x), DEPTH + 1), x.dtype)
    made = vulkan.compile(parse_kernel(text), Options())
    made.run({"x": x.copy(), "y": y}, {}, Sizes(capacities=capacities), Draws())
    return y


@pytest.mark.rotating
@pytest.mark.parametrize("t", DTYPES)
def test_what_goes_in_comes_out(vulkan: VulkanBackend, t: str) -> None:
    x = values(t)
    y = result(vulkan, there_and_back(t), x)
    np.testing.assert_array_equal(y[:, :DEPTH], x[:, ::-1])
    assert not y[:, DEPTH].any()


@pytest.mark.parametrize("t", ["f16", "f32", "f64"])
def test_adjoints(vulkan: VulkanBackend, t: str) -> None:
    """Two additions into the adjoint of each slot."""
    x = values(t)
    y = result(vulkan, ADJOINT.format(t=t, over=OVER, depth=DEPTH), x)
    np.testing.assert_array_equal(y[:, :DEPTH], (x + x - x)[:, ::-1])


def test_several_types_and_depths_in_one_task(vulkan: VulkanBackend) -> None:
    """Stacks of one depth with slots of several sizes, and one that grows in a branch."""
    x = np.random.default_rng(6).integers(-50, 50, (300, DEPTH)).astype(np.int32)
    y = result(vulkan, MIXED, x, a=DEPTH, b=DEPTH, c=DEPTH, d=DEPTH, e=DEPTH)
    np.testing.assert_array_equal(y[:, :DEPTH], 3 * x + (x > 0) + np.where(x > 0, x, 0))
