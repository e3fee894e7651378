"""Adstacks: slots, adjoints, tops by lane, capacities, growth, and the bytes they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Sizes
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.reference.storage import HeapCounter

Launch = Callable[..., Any]
Each = Callable[[str, str], str]
ORDERS = ("vector", "forward", "reverse")

REVERSE_OF_PRODUCTS = """
    %1: i32 = const 0  %2: i32 = load n[%0]  adstack_alloca s: f32 {declared}  local v: f32  %3: f32 = load x[%0]
    set v, %3
    for %4: i32 in %1 .. %2 {{ %5: f32 = get v  adstack_push s, %5  %6: f32 = mul %5, %5  set v, %6 }}
    local g: f32  %7: f32 = const 1.0  set g, %7
    for %8: i32 in %1 .. %2 descending {{ %9: f32 = adstack_load_top s  %10: f32 = get g  %11: f32 = add %9, %9
      %12: f32 = mul %10, %11  set g, %12  adstack_pop s }}
    %13: f32 = get g  store x.grad[%0], %13"""
"""d/dx of x^(2^n), with as many pushes as a lane has iterations."""


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    ("declared", "capacities"), [("capacity 4", {}), ("", {"s": 4}), ("", {}), ("capacity 4 of v", {"s": 1})]
)
def test_gradient_of_a_loop(launch: Launch, each: Each, order: str, declared: str, capacities: dict[str, int]) -> None:
    """A capacity in the kernel counts more than one of the launch; without any the stack grows."""
    n = np.array([0, 1, 2, 4, 3, 1], np.int32)
    x = np.linspace(0.9, 1.1, 6).astype(np.float32)
    grad = np.zeros(6, np.float32)
    text = each("x: f32[1] grad, n: i32[1]", REVERSE_OF_PRODUCTS.format(declared=declared))
    report = launch(text, n=n, x=x, **{"x.grad": grad}, _sizes=Sizes(capacities), _order=order)
    exact = 2.0**n * x.astype(np.float64) ** (2.0**n - 1)
    assert np.allclose(grad, exact, rtol=1e-6)
    assert report.deepest == {"s": 4}


def test_slots_have_adjoints(launch: Launch, each: Each, order: str) -> None:
    """Odd lanes push once more; adjoints stay with their slot, and a new slot starts at zero."""
    x = np.zeros((6, 4), np.float32)
    text = """
        %1: i32 = const 1 %2: i32 = bit_and %0, %1 %3: u1 = cast %2
        %4: i32 = const 0 %5: i32 = const 2 %6: i32 = const 3
        adstack_alloca s: f32 capacity 2 adjoint
        %7: f32 = cast %0  adstack_push s, %7  %8: f32 = const 0.5  adstack_acc_adj s, %8
        if %3 { %9: f32 = const 9.0  adstack_push s, %9  %10: f32 = adstack_load_top_adj s  store x[%0, %4], %10
          adstack_acc_adj s, %8  adstack_acc_adj s, %8  %11: f32 = adstack_load_top_adj s  store x[%0, %1], %11
          %12: f32 = adstack_load_top s  store x[%0, %2], %12  adstack_pop s  adstack_push s, %8
          %13: f32 = adstack_load_top_adj s  %14: f32 = add %12, %13  store x[%0, %1], %14  adstack_pop s }
        adstack_acc_adj s, %8
        %15: f32 = adstack_load_top s  store x[%0, %5], %15
        %16: f32 = adstack_load_top_adj s  store x[%0, %6], %16"""
    launch(each("x: f32[2]", text), x=x, _order=order)
    lane = np.arange(6)
    assert x[:, 2].tolist() == lane.tolist()
    assert x[:, 3].tolist() == [1.0] * 6
    assert x[1::2, 1].tolist() == [9.0] * 3
    assert not x[:, 0].any()


def test_alloca_empties_the_stack(launch: Launch, each: Each, order: str) -> None:
    """Each round of the outer loop starts anew, though nothing is popped; capacity 3 suffices."""
    x, n = np.zeros(5, np.int32), np.arange(5, dtype=np.int32) % 4
    report = launch(
        each(
            "x: i32[1], n: i32[1]",
            """%1: i32 = const 0 %2: i32 = load n[%0] %3: i32 = const 4
        for %4: i32 in %1 .. %3 { adstack_alloca s: i32 capacity 3
          for %5: i32 in %1 .. %2 { %6: i32 = add %5, %4  adstack_push s, %6 }
          %7: u1 = cmp_gt %2, %1  if %7 { %8: i32 = adstack_load_top s  store x[%0], %8 } }""",
        ),
        x=x,
        n=n,
        _order=order,
    )
    assert x.tolist() == [0, 3, 4, 5, 0]
    assert report.deepest == {"s": 3}


def test_iterations_have_stacks_of_their_own(launch: Launch, each: Each, order: str) -> None:
    x = np.zeros(4, np.int32)
    text = """adstack_alloca s: i32 capacity 1  adstack_push s, %0
        %1: i32 = adstack_load_top s  store x[%0], %1"""
    launch(each("x: i32[1]", text), x=x, _order=order)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["u1", "i8", "u64", "f16", "f64"])
def test_types_of_slots(launch: Launch, each: Each, order: str, dtype: str) -> None:
    x = np.zeros(3, np.float64)
    text = f"""adstack_alloca s: {dtype} capacity 2  %1: {dtype} = cast %0  adstack_push s, %1
        %2: {dtype} = const {"true" if dtype == "u1" else 1}  adstack_push s, %2  adstack_pop s
        %3: {dtype} = adstack_load_top s  %4: f64 = cast %3  store x[%0], %4"""
    launch(each("x: f64[1]", text), x=x, _order=order)
    assert x.tolist() == ([0, 1, 1] if dtype == "u1" else [0, 1, 2])


def test_overflow_writes_nothing_and_names_variable_and_capacity(launch: Launch, each: Each, order: str) -> None:
    text = each("x: f32[1] grad, n: i32[1]", REVERSE_OF_PRODUCTS.format(declared="of velocity"))
    n, x, grad = np.array([1, 2, 4], np.int32), np.ones(3, np.float32), np.full(3, 7, np.float32)
    heap = HeapCounter()
    with pytest.raises(AdstackOverflow) as caught:
        launch(text, n=n, x=x, **{"x.grad": grad}, _sizes=Sizes({"s": 2}), _order=order, _heap=heap)
    message = str(caught.value)
    assert "adstack `s` (history of `velocity`) holds 2 of 2 slots" in message
    assert "iteration (2)" in message
    assert heap.current == {"real": 0, "integer": 0, "flag": 0}
    assert grad[2] == 7


def test_growth_stops_at_the_capacity(launch: Launch, each: Each) -> None:
    """1000 lanes, 5 slots of f32 with adjoints, 5 of u8, none of u1: growth in doublings would take 8."""
    heap = HeapCounter()
    text = """%1: i32 = const 0 %2: i32 = const 5
        adstack_alloca s: f32 capacity 5 adjoint  adstack_alloca t: u8 capacity 5
        for %3: i32 in %1 .. %2 { %4: f32 = cast %3  adstack_push s, %4  %5: u8 = cast %3  adstack_push t, %5 }"""
    launch(each("x: f32[1]", text), x=np.zeros(1000, np.float32), _heap=heap)
    assert heap.report() == {
        "real": {"current": 0, "peak": 1000 * 5 * 4 * 2},
        "integer": {"current": 0, "peak": 1000 * 5},
        "flag": {"current": 0, "peak": 0},
    }


def test_deep_stacks_take_narrow_chunks(launch: Launch, each: Each, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 lanes of 16 slots would be 6400 bytes at once; 63 lanes fit."""
    monkeypatch.setattr("stackgrad.reference.launch.CHUNK_BYTES", 4096)
    heap, x = HeapCounter(), np.zeros(100, np.int32)
    text = """%1: i32 = const 0  %2: i32 = const 16  adstack_alloca s: i32 capacity 16
        for %3: i32 in %1 .. %2 { adstack_push s, %0 }  %4: i32 = adstack_load_top s  store x[%0], %4"""
    launch(each("x: i32[1]", text), x=x, _heap=heap)
    assert x.tolist() == list(range(100))
    assert heap.peak["integer"] == 63 * 16 * 4
