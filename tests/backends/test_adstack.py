"""Test adstacks on the CPU: contents, overflow, capacities, slabs, and the heap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Sizes
from stackgrad.backends.heap import PAGE, Heap
from stackgrad.compiler.errors import AdstackOverflow, DeviceError, Span
from stackgrad.compiler.ir.nodes import StackPush
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.walk import walk_kernel

CHAIN = """kernel chain(n: i32, x: {t}[1], out: {t}[2]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    adstack_alloca s: {t}{capacity} adjoint of v
    %10: i32 = const 0
    %11: i32 = arg n
    %12: i32 = const 1
    %13: {t} = load x[%2]
    for %14: i32 in %10 .. %11 {{
      %15: {t} = cast %14
      %16: {t} = add %13, %15
      adstack_push s, %16
      adstack_acc_adj s, %15
      adstack_acc_adj s, %15
    }}
    for %20: i32 in %10 .. %11 descending {{
      %21: {t} = adstack_load_top s
      %22: {t} = adstack_load_top_adj s
      store out[%2, %10], %21
      %23: {t} = atomic add out[%2, %12], %22
      adstack_pop s
    }}
  }}
}}"""
"""Pushes x, x+1, ..., x+n-1 with adjoints 0, 2, ..., 2n-2; out = (bottom of the stack, sum of the adjoints)."""

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "u64": np.uint64}


def chain(bench: Any, n: int, t: str = "f32", capacity: str = "", **more: Any) -> np.ndarray:
    x = np.arange(5).astype(DTYPES[t])
    arrays = {"x": x, "out": np.zeros((5, 2), DTYPES[t])}
    return bench.run(CHAIN.format(t=t, capacity=capacity), arrays, {"n": n}, **more)["out"]


@pytest.mark.parametrize("t", DTYPES)
def test_contents(shared: Any, t: str) -> None:
    """Last in, first out, in every iteration anew; the second launch finds what the first did."""
    want = np.stack([np.arange(5), np.full(5, 9 * 8)], 1)
    for _ in range(2):
        np.testing.assert_array_equal(chain(shared, 9, t, " capacity 9"), want)


def test_capacity_of_sizes_wins(bench: Any) -> None:
    text_says_two = chain(bench, 6, capacity=" capacity 2", capacities={"s": 6})
    np.testing.assert_array_equal(text_says_two[:, 1], 30)
    with pytest.raises(AdstackOverflow, match=r"it holds 5 values and the loop of the push made it 6"):
        chain(bench, 6, capacity=" capacity 99", capacities={"s": 5})


def test_overflow_names_everything_and_leaves_the_backend_usable(bench: Any) -> None:
    for debug, reached in ((False, "the loop of the push made it 8"), (True, "a push made it 4")):
        with pytest.raises(AdstackOverflow) as caught:
            chain(bench, 8, capacities={"s": 3}, debug=debug)
        parts = "adstack s", "the history of v", "holds 3", reached, "capacities: s 3", "kernel chain", "task 0"
        for part in parts:
            assert part in str(caught.value)
        np.testing.assert_array_equal(chain(bench, 8, capacities={"s": 8}, debug=debug)[:, 1], 56)


def test_overflow_points_at_the_source_line(bench: Any) -> None:
    """Locations are rebound on kernels; messages use those of the kernel that was compiled."""
    kernel = parse_kernel(CHAIN.format(t="f32", capacity=""))
    push = next(s for s in walk_kernel(kernel) if isinstance(s, StackPush))
    object.__setattr__(push, "loc", 1)
    object.__setattr__(kernel, "locations", (None, Span("model.py", 12, 4, 9, "    v = v + i")))
    with pytest.raises(AdstackOverflow, match=r"model.py:12:5(.|\n)*\^\^\^\^\^"):
        bench.run(kernel, {"x": np.zeros(1, np.float32), "out": np.zeros((1, 2), np.float32)}, {"n": 4}, {"s": 2})


def test_a_push_at_capacity_writes_nothing(bench: Any) -> None:
    """Two stacks lie side by side in one row; the overflowing one must not touch its neighbor."""
    text = """kernel k(out: i32[1]) {
      serial {
        adstack_alloca a: i32
        adstack_alloca b: i32
        %0: i32 = const 7
        %1: i32 = const 1
        %2: i32 = const 0
        adstack_push b, %0
        %3: i32 = adstack_load_top b
        store out[%2], %3
        adstack_push a, %1
        adstack_push a, %1
        adstack_push a, %1
        store out[%1], %1
      }
    }"""
    out = np.zeros(2, np.int32)
    for depth in (1, 2):
        with pytest.raises(AdstackOverflow, match=f"adstack a overflowed: it holds {depth}"):
            bench.run(text, {"out": out}, capacities={"a": depth, "b": 1})
        assert out.tolist() == [7, 0], "the launch ends at the push"
    bench.run(text, {"out": out}, capacities={"a": 3, "b": 1})
    assert out.tolist() == [7, 1]


def test_empty_stacks_read_zero(shared: Any) -> None:
    """Below the bottom: reads give 0, accumulation and pop change nothing, and a later push starts at the bottom."""
    text = """kernel k(out: f64[1], b: u1[1]) {
      serial {
        adstack_alloca s: f64 adjoint
        adstack_alloca p: u1
        %0: f64 = const 3.0
        %10: i32 = const 0
        %11: i32 = const 1
        %12: i32 = const 2
        %13: i32 = const 3
        adstack_push s, %0
        adstack_acc_adj s, %0
        adstack_pop s
        adstack_pop s
        adstack_acc_adj s, %0
        %1: f64 = adstack_load_top s
        %2: f64 = adstack_load_top_adj s
        %3: u1 = adstack_load_top p
        store out[%10], %1
        store out[%11], %2
        store b[%10], %3
        adstack_push s, %0
        %4: f64 = adstack_load_top s
        %5: f64 = adstack_load_top_adj s
        store out[%12], %4
        store out[%13], %5
      }
    }"""
    for capacities, rows in (({"s": 1, "p": 0}, {}), ({"s": 1, "p": 1}, {(0, "flag"): 0})):
        out, b = np.full(4, 9.0), np.ones(1, bool)
        shared.run(text, {"out": out, "b": b}, capacities=capacities, rows=rows)
        assert out.tolist() == [0, 0, 3, 0]
        assert not b[0]


def test_alloca_in_a_loop_empties_the_stack(shared: Any) -> None:
    text = """kernel k(n: i32[1]) {
      serial {
        %0: i32 = const 0
        %1: i32 = const 5
        for %2: i32 in %0 .. %1 {
          adstack_alloca s: i32 capacity 1
          %3: i32 = adstack_load_top s
          %4: i32 = atomic add n[%0], %3
          adstack_push s, %1
        }
      }
    }"""
    assert shared.run(text, {"n": np.zeros(1, np.int32)})["n"][0] == 0


MIXED = """kernel mixed(n: i32) {
  serial {
    adstack_alloca a: f64 adjoint
    adstack_alloca b: f16
    adstack_alloca c: i32
    adstack_alloca d: u1
    %0: i32 = const 0
    %1: i32 = arg n
    %2: f64 = const 1.0
    %3: f16 = const 1.0
    %4: u1 = const true
    for %5: i32 in %0 .. %1 {
      adstack_push a, %2
      adstack_push b, %3
      adstack_push c, %5
      adstack_push d, %4
    }
  }
}"""


def pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def test_slabs_are_apart_and_exact(bench: Any) -> None:
    """Each slab holds its own stacks, to the page: 16 and 2 bytes a slot of reals, 4 of integers, 1 of flags."""
    n = 10_000
    bench.run(MIXED, scalars={"n": n}, capacities=dict.fromkeys("abcd", n))
    current = {slab: row["current"] for slab, row in bench.backend.heap_report().items()}
    assert current == {"real": pages(18 * n), "integer": pages(4 * n), "flag": pages(n)}


def test_rows_of_zero_take_no_memory(bench: Any) -> None:
    rows = {(0, slab): 0 for slab in ("real", "integer", "flag")}
    bench.run(MIXED, scalars={"n": 0}, capacities=dict.fromkeys("abcd", 1000), rows=rows)
    assert all(row == {"current": 0, "peak": 0} for row in bench.backend.heap_report().values())
    with pytest.raises(AdstackOverflow, match="adstack a overflowed: it holds 0 values"):
        bench.run(MIXED, scalars={"n": 1}, capacities=dict.fromkeys("abcd", 1000), rows=rows)


def test_growth_is_shared_amortized_and_given_back(bench: Any) -> None:
    """A creeping need allocates O(log) times; a smaller kernel fits what is there; reset frees all."""
    epochs = set()
    for n in range(1000, 20_000, 500):
        bench.run(MIXED, scalars={"n": n}, capacities=dict.fromkeys("abcd", n))
        epochs.add(bench.backend.heap.epoch)
    report = bench.backend.heap_report()
    assert len(epochs) <= 16
    assert 18 * 19_500 <= report["real"]["current"] <= 1.5 * pages(18 * 19_500) + PAGE
    assert chain(bench, 3, capacities={"s": 3})[0, 1] == 6
    assert bench.backend.heap_report() == report
    bench.backend.reset()
    assert all(row == {"current": 0, "peak": 0} for row in bench.backend.heap_report().values())
    assert chain(bench, 3, capacities={"s": 3})[0, 1] == 6


def test_kernels_without_adstacks_allocate_nothing(bench: Any) -> None:
    bench.run("kernel k() { serial { } }")
    assert all(row["peak"] == 0 for row in bench.backend.heap_report().values())


def test_what_cannot_be_had_is_refused_before_anything_runs(bench: Any) -> None:
    out = np.full((5, 2), 4.0, np.float32)
    huge = 1 << 60
    for capacity in (huge, 1 << 70):
        with pytest.raises(DeviceError) as caught:
            arrays = {"x": np.zeros(5, np.float32), "out": out}
            bench.run(CHAIN.format(t="f32", capacity=""), arrays, {"n": 1}, {"s": capacity})
        for part in (str(capacity * 8), "kernel chain", "history of v", "nothing was run"):
            assert part in str(caught.value)
    assert (out == 4.0).all()
    np.testing.assert_array_equal(chain(bench, 4, capacities={"s": 4})[:, 1], 12)


def test_a_refusal_leaves_the_heap_as_it_was() -> None:
    heap = Heap(limit=10 * PAGE)
    assert heap.reserve({"real": 2 * PAGE, "flag": 1})
    before = heap.report(), heap.epoch
    with pytest.raises(DeviceError, match="the heap is limited to 40960 bytes"):
        heap.reserve({"real": 3 * PAGE, "integer": 9 * PAGE})
    assert (heap.report(), heap.epoch) == before
    heap.reserve({"real": 9 * PAGE})
    assert heap.report()["real"]["current"] == 9 * PAGE, "an ample slab would not fit, so the need is met exactly"


def test_a_stack_of_which_nothing_is_known_holds_nothing(bench: Any) -> None:
    assert not chain(bench, 0).any()
    with pytest.raises(AdstackOverflow, match="it holds 0 values and the loop of the push made it 1"):
        chain(bench, 1)


def test_tasks_have_rows_of_their_own(shared: Any) -> None:
    """Two tasks use the same memory one after another, with different layouts."""
    text = """kernel k(out: f32[1]) {
      serial {
        adstack_alloca a: f32 capacity 1
        adstack_alloca b: f32 capacity 3
        %0: f32 = const 1.0
        adstack_push a, %0
        adstack_push b, %0
      }
      bounds { %10: i32 = const 0 %11: i32 = const 4 } parallel %12: i32 in %10 .. %11 {
        adstack_alloca c: f32 adjoint
        %13: f32 = cast %12
        adstack_push c, %13
        adstack_push c, %13
        adstack_acc_adj c, %13
        %14: f32 = adstack_load_top_adj c
        store out[%12], %14
      }
    }"""
    got = shared.run(text, {"out": np.zeros(4, np.float32)}, capacities={"c": 2})["out"]
    assert got.tolist() == [0, 1, 2, 3]


def test_sizes_may_change_between_launches(bench: Any) -> None:
    """The same executable, with mappings that are changed in place by the caller."""
    executable = bench.compile(CHAIN.format(t="f32", capacity=""))
    capacities: dict[str, int] = {}
    for n in (3, 7, 2, 5):
        capacities["s"] = n
        arrays = {"x": np.zeros(5, np.float32), "out": np.zeros((5, 2), np.float32)}
        executable.run(arrays, {"n": n}, Sizes(capacities), Draws())
        assert arrays["out"][0, 1] == n * (n - 1)
        with pytest.raises(AdstackOverflow):
            executable.run(arrays, {"n": n + 1}, Sizes(capacities), Draws())
