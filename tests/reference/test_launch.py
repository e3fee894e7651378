"""Launches: binding, orders, the backend, and sizes that matter in practice."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.compiler.errors import AdstackOverflow, InternalError, KernelTypeError
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.backend import ReferenceBackend
from stackgrad.reference.order import FORWARD, REVERSE, VECTOR, order_by_name, shuffled

Launch = Callable[..., Any]
Each = Callable[[str, str], str]


# ---- binding ------------------------------------------------------------------------------------------------

BINDING = """kernel f(x: f32[2] grad, n: i32) { serial {
    %0: i32 = const 0  %1: f32 = load x[%0, %0]  store x.grad[%0, %0], %1 } }"""


def good() -> dict[str, Any]:
    return {"x": np.zeros((2, 3), np.float32), "x.grad": np.zeros((2, 3), np.float32), "n": 1}


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "needs the array `x`"),
        ({"x.grad": None}, "needs the array `x.grad`"),
        ({"n": None}, "needs the scalar `n`"),
        ({"x": np.zeros((2, 3))}, r"takes `x` as f32\[2\], not float64\[2\]"),
        ({"x": np.zeros(6, np.float32)}, r"not float32\[1\]"),
        ({"x": np.zeros((3, 2), np.float32).T}, "`x` is not C-contiguous"),
        ({"x.grad": read_only(np.zeros((2, 3), np.float32))}, "writes to `x.grad`, which is read-only"),
    ],
)
def test_arguments_that_do_not_fit(launch: Launch, change: dict[str, Any], message: str) -> None:
    given = {name: value for name, value in (good() | change).items() if value is not None}
    with pytest.raises(KernelTypeError, match=message) as caught:
        launch(BINDING, **given)
    assert "cure: " in str(caught.value)


def test_arguments_that_fit(launch: Launch) -> None:
    given = good()
    given["x"][0, 0] = 5
    read_only(given["x"])
    launch(BINDING, **given)
    assert given["x.grad"][0, 0] == 5


def test_unused_adjoint_arrays_may_be_left_out(launch: Launch) -> None:
    x = np.zeros(1, np.float32)
    launch("kernel f(x: f32[1] grad) { serial { %0: i32 = const 0 %1: f32 = const 2.0 store x[%0], %1 } }", x=x)
    assert x[0] == 2


def test_empty_arrays(launch: Launch, each: Each) -> None:
    report = launch(each("x: f32[1]", "%1: f32 = const 1.0  store x[%0], %1"), x=np.zeros(0, np.float32))
    assert report.executed == 2


def test_a_value_of_another_task_is_a_defect(launch: Launch) -> None:
    with pytest.raises(InternalError, match=r"%0: i32"):
        launch("kernel f(x: i32[1]) { serial { %0: i32 = const 0 } serial { store x[%0], %0 } }", x=np.zeros(1, "i4"))


# ---- orders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [VECTOR, FORWARD, REVERSE, shuffled(5)], ids=lambda o: o.name)
@pytest.mark.parametrize(("total", "width"), [(0, 4), (1, 4), (4, 4), (11, 4), (3, 100)])
def test_chunks_cover_every_iteration_once(order: Any, total: int, width: int) -> None:
    chunks = list(order.chunks(total, width))
    assert sorted(k for start, stop in chunks for k in range(start, stop)) == list(range(total))
    assert all(0 < stop - start <= width for start, stop in chunks)


def test_orders_by_name() -> None:
    assert [order_by_name(n) for n in ("vector", "forward", "reverse")] == [VECTOR, FORWARD, REVERSE]
    assert list(order_by_name("shuffled:7").chunks(20, 1)) == list(shuffled(7).chunks(20, 1))
    assert list(order_by_name("shuffled:7").chunks(20, 1)) != list(shuffled(8).chunks(20, 1))
    for name in ("", "random", "shuffled", "shuffled:x", "vector:1"):
        with pytest.raises(ValueError, match="use vector, forward, reverse or shuffled:SEED"):
            order_by_name(name)


def test_orders_expose_a_race(launch: Launch, each: Each) -> None:
    """Each iteration adds to the element before it what it finds there and in its own."""
    text = each(
        "x: i32[1]",
        """%1: i32 = const 1  %2: u1 = cmp_ge %0, %1  if %2 { %3: i32 = sub %0, %1
        %4: i32 = load x[%3]  %5: i32 = load x[%0]  %6: i32 = add %4, %5  store x[%0], %6 }""",
    )
    found = {}
    for order in ("vector", "forward", "reverse", "shuffled:2"):
        x = np.ones(9, np.int32)
        launch(text, x=x, _order=order)
        found[order] = x.tolist()
    assert found["vector"] == found["reverse"] == [1] + [2] * 8
    assert found["forward"] == list(range(1, 10))
    assert found["shuffled:2"] not in (found["vector"], found["forward"])


# ---- the backend --------------------------------------------------------------------------------------------

PUSHES = """kernel f(x: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32  %3: f32 = load x[%2]  adstack_push s, %3  adstack_push s, %3 } }"""


def test_probe() -> None:
    probe = ReferenceBackend().probe()
    assert probe.available
    assert np.__version__ in probe.version


def test_compile_run_report_reset() -> None:
    backend = ReferenceBackend()
    kernel = parse_kernel(PUSHES)
    executable = backend.compile(kernel, Options())
    assert executable.kernel is kernel
    for _ in range(2):
        executable.run({"x": np.ones(10, np.float32)}, {}, Sizes({"s": 2}), Draws())
        assert backend.heap_report()["real"] == {"current": 0, "peak": 2 * 10 * 4}
    with pytest.raises(AdstackOverflow):
        executable.run({"x": np.ones(10, np.float32)}, {}, Sizes({"s": 1}), Draws())
    assert backend.heap_report()["real"]["current"] == 0
    backend.reset()
    assert backend.heap_report()["real"] == {"current": 0, "peak": 0}


def test_backend_in_another_order() -> None:
    """One lane at a time needs the memory of one lane."""
    backend = ReferenceBackend(order="reverse")
    backend.compile(parse_kernel(PUSHES), Options()).run({"x": np.ones(10, np.float32)}, {}, Sizes({"s": 2}), Draws())
    assert backend.heap_report()["real"]["peak"] == 2 * 4


# ---- sizes --------------------------------------------------------------------------------------------------


def test_sine_recurrence_of_many_lanes(launch: Launch, each: Each) -> None:
    """10^5 lanes, 64 steps, exact in every lane."""
    text = each(
        "x: f32[1]",
        """local v: f32  %1: f32 = load x[%0]  set v, %1  %2: i32 = const 0  %3: i32 = const 64
        for %4: i32 in %2 .. %3 { %5: f32 = get v  %6: f32 = sin %5  %7: f32 = const 0.95  %8: f32 = mul %6, %7
          %9: f32 = const 0.01  %10: f32 = add %8, %9  set v, %10 }
        %11: f32 = get v  store x[%0], %11""",
    )
    x = np.random.default_rng(0).random(100_000).astype(np.float32)
    v = x.copy()
    for _ in range(64):
        v = np.sin(v.astype(np.float64)).astype(np.float32) * np.float32(0.95) + np.float32(0.01)
    start = perf_counter()
    launch(text, x=x)
    assert perf_counter() - start < 5
    assert np.array_equal(x, v)


def test_many_iterations_in_bounded_memory(launch: Launch) -> None:
    x = np.zeros(1024, np.int32)
    text = """kernel f(x: i32[1], n: i32) { bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
        %3: i32 = const 1023  %4: i32 = bit_and %2, %3  store x[%4], %2 } }"""
    tracemalloc.start()
    launch(text, x=x, n=20_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    k = np.arange(1024)
    assert np.array_equal(x, k + (19_999_999 - k) // 1024 * 1024)


def test_skewed_trip_counts(launch: Launch, each: Each) -> None:
    """One lane of 20,000 rounds among 20,000 lanes of one round: work follows the lanes that run."""
    n, x = np.ones(20_000, np.int32), np.zeros(20_000, np.int32)
    n[777] = 20_000
    start = perf_counter()
    text = """%1: i32 = const 0  %2: i32 = load n[%0]  local s: i32
        for %3: i32 in %1 .. %2 { %4: i32 = get s  %5: i32 = add %4, %3  set s, %5 }
        %6: i32 = get s  store x[%0], %6"""
    launch(each("x: i32[1], n: i32[1]", text), n=n, x=x)
    assert perf_counter() - start < 5
    assert x[777] == 19_999 * 10_000
    assert x.sum() == x[777]
