"""Launches on a Vulkan device: staging, errors, adstacks, features that are left out, what others get wrong."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from recorded_support import near
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import AdstackOverflow, DeviceError, KernelTypeError, OutOfBounds
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.reference.launch import run as interpret

Arrays = dict[str, np.ndarray]

SWEEP = """kernel sweep(x: f64[1] grad, n: i32[1], y: f64[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: i32 = load n[%2]
    %5: i32 = const 0
    local v: f64
    set v, %3
    for %6: i32 in %5 .. %4 {
      %7: f64 = get v
      %8: f64 = const 0.3
      %9: u1 = cmp_gt %7, %8
      if %9 { %10: f64 = sin %7 set v, %10 } else { %11: f64 = mul %7, %7 %12: f64 = cos %11 set v, %12 }
    }
    %13: f64 = get v
    %14: f64 = atomic add y[%5], %13
  }
}"""


def launch(
    vulkan: VulkanBackend,
    kernel: Kernel | str,
    arrays: Arrays,
    scalars: dict[str, Any] | None = None,
    sizes: Sizes | None = None,
    **options: bool,
) -> Arrays:
    made = parse_kernel(kernel) if isinstance(kernel, str) else kernel
    vulkan.compile(made, Options(**options)).run(arrays, scalars or {}, sizes or Sizes(), Draws())
    return arrays


def inputs(n: int) -> Arrays:
    x = np.linspace(-2, 2, n)
    return {
        "x": x,
        "x.grad": np.zeros(n),
        "n": (np.arange(n) % 7).astype(np.int32),
        "y": np.zeros(1),
        "y.grad": np.ones(1),
    }


@pytest.mark.rotating
@pytest.mark.parametrize("lowering", ["classic", "lean"])
@pytest.mark.parametrize("n", [0, 1, 3, 5000])
def test_gradients_of_distinct_lanes(vulkan: VulkanBackend, lowering: str, n: int) -> None:
    """Loops of several lengths and both arms of a branch, in more than one workgroup; more iterations than threads."""
    lowered = prepare_reverse(parse_kernel(SWEEP), lowering)
    ours = inputs(n)
    known = run_bounded(lowered.kernel, ours, {}, precise=False)
    Launcher(lowered, vulkan, Options()).run(ours, {})
    near(known, "x.grad", ours["x.grad"])
    assert n < 2 or len(set(ours["x.grad"])) > n // 2


OVERFLOW = """kernel over(x: f32[1], n: i32[1]) {
  serial { %0: i32 = const 0 %1: f32 = const 5.0 store x[%0], %1 }
  bounds { %2: i32 = const 0 %3: i32 = shape n, 0 } parallel %4: i32 in %2 .. %3 {
    adstack_alloca s: f32 capacity 4 of v
    %5: i32 = load n[%4]
    %6: i32 = const 0
    %7: f32 = load x[%6]
    for %8: i32 in %6 .. %5 { adstack_push s, %7 }
  }
  serial { %10: i32 = const 1 %11: f32 = const 7.0 store x[%10], %11 }
}"""


def test_an_overflow_names_its_stack_and_the_next_launch_is_right(vulkan: VulkanBackend) -> None:
    """Later tasks do nothing."""
    arrays = {"x": np.zeros(2, np.float32), "n": np.array([1, 9, 2], np.int32)}
    with pytest.raises(AdstackOverflow, match="adstack s, the history of v, overflowed: it holds 4 values") as caught:
        launch(vulkan, OVERFLOW, arrays)
    assert "kernel over, task 1" in str(caught.value)
    assert arrays["x"].tolist() == [5.0, 0.0]
    arrays["n"][:] = [4, 0, 3]
    assert launch(vulkan, OVERFLOW, arrays)["x"].tolist() == [5.0, 7.0]


def test_traps_of_debug_builds(vulkan: VulkanBackend) -> None:
    text = """kernel k(x: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = const 9 } parallel %2: i32 in %0 .. %1 {
      %3: f32 = load x[%2] } }"""
    with pytest.raises(OutOfBounds, match="index [78] is outside axis 0 of x, which has 7 elements"):
        launch(vulkan, text, {"x": np.zeros(7, np.float32)}, debug=True)


def test_arrays_that_share_memory(vulkan: VulkanBackend) -> None:
    """One array by two names, and a part of another."""
    text = """kernel k(x: f64[1], y: f64[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
      %3: f64 = load x[%2] %4: f64 = add %3, %3 store y[%2], %4 } }"""
    whole = np.arange(8.0)
    launch(vulkan, text, {"x": whole, "y": whole})
    assert whole.tolist() == [2.0 * k for k in range(8)]
    part = np.arange(8.0)
    launch(vulkan, text, {"x": part, "y": part[3:6]})
    assert part.tolist()[:3] == [0.0, 1.0, 2.0] and part.tolist()[3:] == [0.0, 2.0, 4.0, 6.0, 7.0]


def test_a_misfit_runs_nothing(vulkan: VulkanBackend) -> None:
    with pytest.raises(KernelTypeError, match="float64 of rank 1, not float32"):
        launch(vulkan, "kernel k(x: f32[1]) { serial { } }", {"x": np.zeros(3)})


TWO_TABLES = """kernel two(x: f32[1], y: f64[1], g: u1[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca a: f32 capacity 3 adjoint
    adstack_alloca b: u1 capacity 2
    %3: f32 = load x[%2] %4: f32 = add %3, %3 %5: u1 = cmp_gt %3, %4
    adstack_push a, %3 adstack_push a, %4 adstack_push b, %5 adstack_acc_adj a, %3
    %6: f32 = adstack_load_top_adj a adstack_pop a %7: f32 = adstack_load_top a %8: f32 = add %6, %7 store x[%2], %8
    %9: u1 = adstack_load_top b store g[%2], %9
  }
  bounds { %10: i32 = const 0 %11: i32 = shape y, 0 } parallel %12: i32 in %10 .. %11 {
    adstack_alloca c: i16 capacity 5
    adstack_alloca d: f64 capacity 1
    adstack_alloca e: f16 capacity 2
    %13: i16 = cast %12 adstack_push c, %13 adstack_push c, %13 %14: f64 = load y[%12] adstack_push d, %14
    %15: f16 = cast %14 adstack_push e, %15 %16: f16 = adstack_load_top e %17: f64 = cast %16
    %18: i16 = adstack_load_top c %19: f64 = cast %18 %20: f64 = adstack_load_top d
    %21: f64 = add %17, %19 %22: f64 = add %21, %20 store y[%12], %22
  }
}"""


def test_two_tasks_with_different_stacks(vulkan: VulkanBackend) -> None:
    def arrays() -> Arrays:
        return {"x": np.linspace(-1, 1, 200, dtype=np.float32), "y": np.arange(300.0) / 8, "g": np.zeros(200, bool)}

    ours, theirs = arrays(), arrays()
    launch(vulkan, TWO_TABLES, ours)
    interpret(parse_kernel(TWO_TABLES), theirs, {})
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], name)


@pytest.mark.parametrize("masked", [(), ("float32_add", "modes")])
def test_sums_with_and_without_atomic_addition(vulkan: VulkanBackend, masked: tuple[str, ...]) -> None:
    text = """kernel k(x: f32[1], s: f32[1], h: i8[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: f32 = load x[%2] %4: i32 = const 0 %5: f32 = atomic add s[%4], %3
        %6: i32 = const 3 %7: i32 = mod %2, %6 %8: i8 = const 1 %9: i8 = atomic add h[%7], %8 } }"""
    backend = VulkanBackend(masked) if masked else vulkan
    arrays = {"x": np.ones(3000, np.float32), "s": np.zeros(1, np.float32), "h": np.zeros(3, np.int8)}
    launch(backend, text, arrays)
    assert arrays["s"][0] == 3000.0 and arrays["h"].tolist() == [1000 - 1024] * 3
    backend.reset()


def test_heap_is_reported_and_given_back(vulkan: VulkanBackend) -> None:
    vulkan.reset()
    arrays = {"x": np.zeros(2, np.float32), "n": np.zeros(100, np.int32)}
    launch(vulkan, OVERFLOW, arrays)
    held = vulkan.heap_report()["real"]
    assert held["current"] == held["peak"] >= 100 * 4 * 4 and vulkan.heap_report()["integer"]["current"] == 0
    vulkan.reset()
    assert vulkan.heap_report()["real"] == {"current": 0, "peak": 0}


def test_stacks_that_no_device_holds_are_refused_with_numbers(vulkan: VulkanBackend) -> None:
    text = OVERFLOW.replace("capacity 4", "")
    arrays = {"x": np.zeros(2, np.float32), "n": np.zeros(100, np.int32)}
    with pytest.raises(DeviceError, match="history of v: 1000000000000 slots of 4 bytes"):
        launch(vulkan, text, arrays, sizes=Sizes({"s": 10**12}))
    assert not arrays["x"].any()


def test_a_driver_that_leaves_loops_is_found_out(vulkan: VulkanBackend) -> None:
    """Where a driver limits the trips of loops, a launch that passes the limit says so; elsewhere it is right."""
    text = """kernel k(n: i32, y: i64[1]) { serial { %0: i32 = const 0 %1: i32 = arg n local v: i64
      for %2: i32 in %0 .. %1 { for %3: i32 in %0 .. %1 {
        %4: i64 = get v %5: i64 = const 3 %6: i64 = add %4, %5 set v, %6 } }
      %7: i64 = get v store y[%0], %7 } }"""
    assert launch(vulkan, text, {"y": np.zeros(1, np.int64)}, {"n": 200})["y"][0] == 3 * 200**2
    if vulkan.features.quirks.loop_limit:
        with pytest.raises(DeviceError, match="leaves the loops of a shader after 65,535 trips"):
            launch(vulkan, text, {"y": np.zeros(1, np.int64)}, {"n": 1000})  # eight at a time
    else:
        assert launch(vulkan, text, {"y": np.zeros(1, np.int64)}, {"n": 1000})["y"][0] == 3 * 1000**2


def test_what_a_kernel_holds_is_given_back(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines and command buffers go at the next wait; launches have other grids and addresses."""
    text = """kernel k(x: f64[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
      %3: f64 = load x[%2] %4: f64 = add %3, %3 store x[%2], %4 } }"""
    made: Any = vulkan.compile(parse_kernel(text), Options())
    for n in (5, 1000, 0, 5):
        x = np.arange(float(n))
        made.run({"x": x}, {}, Sizes(), Draws())
        assert x.tolist() == [2.0 * k for k in range(n)]
    ended: list[object] = []
    destroy = vulkan.device.destroy
    monkeypatch.setattr(vulkan.device, "destroy", lambda *args: (ended.append(args), destroy(*args)))
    del made
    gc.collect()
    vulkan.sync()
    assert ended
