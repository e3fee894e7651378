"""Test how many adstack rows a launch allocates: limited by the content, but at least as many as save time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from stackgrad.backends.base import Concurrency, Options, Sizes
from stackgrad.backends.codegen.layout import lay_out
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu import stacks
from stackgrad.backends.cpu.rows import FLOOR, LANES_WORTH, most_in_flight
from stackgrad.compiler.ir.parser import parse_kernel

BIG = 8 * FLOOR


@pytest.mark.parametrize(
    ("row", "content", "threads", "lanes", "want"),
    [
        (BIG, BIG + 8000, 2, 1, Concurrency(1)),  # one deep row among shallow ones
        (BIG, 2 * BIG, 2, 1, Concurrency(2)),  # all rows alike
        (BIG, 3 * BIG, 16, 1, Concurrency(3)),
        (BIG, 10 * BIG, 16, 1, Concurrency(11)),  # a tenth more than the content
        (BIG, 1000 * BIG, 16, 64, Concurrency(16, 64)),
        (BIG, 100 * BIG, 16, 64, Concurrency(16)),  # one block of lanes is worth 8 threads, not 16
        (BIG, 100 * BIG, 8, 64, Concurrency(1, 64)),
        (BIG, 50 * BIG, 8, 64, Concurrency(8)),  # lanes would take more than there is
        (64, 64, 8, 64, Concurrency(8, 64)),  # rows that stay in cache are free
        (0, 0, 8, 64, Concurrency(8, 64)),  # no iteration needs a row
        (BIG, None, 8, 64, Concurrency(8)),  # nothing counted: alike, lanes only in cache
        (64, None, 8, 64, Concurrency(8, 64)),
        (BIG, BIG, 1, 0, Concurrency(1)),
    ],
)
def test_policy(row: int, content: int | None, threads: int, lanes: int, want: Concurrency) -> None:
    assert most_in_flight(row, content, threads, lanes) == want


def test_lanes_that_are_asked_for_are_had_at_any_cost() -> None:
    assert most_in_flight(BIG, BIG, 2, 8, forced=True) == Concurrency(2, 8)
    assert most_in_flight(BIG, BIG, 2, 0, forced=True) == Concurrency(1)


def test_the_bound_holds_whatever_is_asked() -> None:
    """Rows take at most a tenth more than the content or what stays in cache; there is always one thread."""
    draw = random.Random(7)
    for _ in range(5000):
        row = draw.choice((1, 40, 4096, BIG)) * draw.randint(1, 9)
        content = row + draw.randint(0, 1000) * draw.randint(0, row)
        threads, lanes = draw.randint(1, 64), draw.choice((0, 1, 4, 64))
        found = most_in_flight(row, content, threads, lanes)
        assert 1 <= found.threads <= threads and found.lanes in (1, lanes)
        assert row * found.threads * found.lanes <= max(FLOOR, content + content // 10)
        wanted = min(threads, (content + content // 10) // row)
        assert found.threads * (LANES_WORTH if found.lanes > 1 else 1) >= wanted


def test_a_row_is_as_wide_as_its_own_slab_needs() -> None:
    """Pushes of one slab never widen another; tasks share slabs, so the larger need counts."""
    kernel = parse_kernel("""kernel k() {
      bounds { %0: i32 = const 0 %1: i32 = const 9 } parallel %2: i32 in %0 .. %1 {
        adstack_alloca a: f32
        adstack_alloca b: i64
        adstack_alloca c: f64 adjoint
        adstack_alloca d: u1
      }
      bounds { %10: i32 = const 0 %11: i32 = const 9 } parallel %12: i32 in %10 .. %11 {
        adstack_alloca e: f32
      }
    }""")
    layout = lay_out(kernel)
    sizes = Sizes({"a": 100, "b": 3, "c": 5, "d": 7, "e": 1000})
    found = stacks.plan(layout, sizes, {0: Concurrency(2), 1: Concurrency(1)})
    words = dict(found.words)
    strides = {key: words[at] for key, at in layout.strides.items()}
    assert strides == {(0, "real"): 512, (0, "integer"): 64, (0, "flag"): 64, (1, "real"): 4032}
    assert {s.alloca.stack: words[s.offset_at] for s in layout.stacks} == {"a": 0, "b": 0, "c": 400, "d": 0, "e": 0}
    assert found.needs == {"real": 4032, "integer": 128, "flag": 128}
    assert [words[layout.threads_at[t]] for t in (0, 1)] == [2, 1]


def test_threads_that_share_a_deep_row_are_counted_on_all_slabs_together() -> None:
    kernel = parse_kernel("""kernel k() {
      bounds { %0: i32 = const 0 %1: i32 = const 9 } parallel %2: i32 in %0 .. %1 {
        adstack_alloca a: f32
        adstack_alloca b: i32
      }
      serial { adstack_alloca c: f32 }
    }""")
    deep = FLOOR
    placement = stacks.place(kernel, lay_out(kernel), Options(threads=4), replace(CPU, vector_masks=True))
    alone = Sizes({"a": deep, "b": 0, "c": 9}, totals={"a": deep + 9, "b": 0, "c": 9})
    assert placement.flights(alone) == {0: Concurrency(1), 1: Concurrency(1)}
    beside = Sizes({"a": deep, "b": 1, "c": 9}, totals={"a": deep + 9, "b": 2 * deep, "c": 9})
    assert placement.flights(beside)[0] == Concurrency(3)
    gated = Sizes({"a": deep, "b": 0}, rows={(0, "real"): 0, (0, "integer"): 0})
    assert placement.flights(gated)[0] == Concurrency(4, 64), "no iteration needs a row: any number of threads may run"
