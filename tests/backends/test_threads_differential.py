"""Test every task on four threads, even if it is small: memory against the reference, and conflicting updates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen import sharing
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.cpu.pool import pool
from stackgrad.backends.llvm import task_threads
from stackgrad.compiler.ir.ops import atomic_fits
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS, Scalar
from stackgrad.reference.launch import run as interpret

CODE = {"branching": Options(threads=4, lanes=0), "lanes": Options(threads=4, lanes=8)}
SIZE = 3000
LAUNCHES = 20


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the backend use several threads for each task, with the smallest possible chunks."""
    monkeypatch.setattr(sharing, "WORTH", math.inf)
    for name, value in (("ENOUGH", 0), ("SHARE", 1), ("CHUNK", 1), ("CHUNKS", 300)):
        monkeypatch.setattr(task_threads, name, value)


@pytest.fixture(params=list(CODE))
def options(request: pytest.FixtureRequest) -> Options:
    return CODE[request.param]


RECURRENCE = """kernel k(x: f32[2], y: f32[2], at: i32[1], r: f64[2], y.grad: f32[2], steps: i32) {
  temp $most: i32
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 %2: i32 = shape x, 1 }
  parallel %3: i32, %4: i32 in %0 .. %1, %0 .. %2 {
    adstack_alloca s: f32 adjoint
    %5: f32 = load x[%3, %4]
    %6: i32 = const 0
    %7: i32 = load at[%3]
    %8: i32 = add %7, %4
    %9: i32 = arg steps
    %10: i32 = mod %8, %9
    adstack_push s, %5
    for %11: i32 in %6 .. %10 {
      %12: f32 = adstack_load_top s
      %13: f32 = mul %12, %12
      %14: f32 = const 0.5
      %15: f32 = sub %13, %14
      adstack_push s, %15
    }
    %16: f32 = adstack_load_top s
    store y[%3, %4], %16
    %17: f32 = const 1.0
    adstack_acc_adj s, %17
    for %18: i32 in %6 .. %10 descending {
      %19: f32 = adstack_load_top_adj s
      adstack_pop s
      %20: f32 = adstack_load_top s
      %21: f32 = mul %19, %20
      adstack_acc_adj s, %21
    }
    %22: f32 = adstack_load_top_adj s
    %23: f32 = atomic add y.grad[%3, %4], %22
    %24: f64 = random
    %25: f64 = random
    %26: f64 = add %24, %25
    store r[%3, %4], %26
    %27: i32 = atomic max $most[], %10
  }
  serial {
    %30: i32 = const 0
    %31: i32 = load $most[]
    store at[%30], %31
  }
}"""


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 7), (60, 50)])
def test_stacks_draws_and_own_elements_are_as_on_the_reference(options: Options, shape: tuple[int, int]) -> None:
    kernel = parse_kernel(RECURRENCE)
    executable = CpuBackend().compile(kernel, options)
    rng = np.random.default_rng(3)
    ours = {
        "x": rng.uniform(-1, 1, shape).astype(np.float32),
        "y": np.zeros(shape, np.float32),
        "at": rng.integers(0, 30, max(shape[0], 1)).astype(np.int32),
        "r": np.zeros(shape),
        "y.grad": rng.uniform(-1, 1, shape).astype(np.float32),
    }
    theirs = {name: array.copy() for name, array in ours.items()}
    draws, jobs = Draws(seed=3, launch=9), pool().jobs
    deepest = interpret(kernel, theirs, {"steps": 17}, draws=draws).deepest
    executable.run(ours, {"steps": 17}, Sizes(dict(deepest)), draws)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)
    assert pool().jobs > jobs or math.prod(shape) < 64


def _updates(op: str, t: Scalar, expected: str = "") -> str:
    return f"""kernel k(x: {t}[1], y: {t}[1], old: {t}[1], bins: i32) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {t} = load y[%2]
        %4: i32 = arg bins
        %5: i32 = mod %2, %4
        %6: {t} = atomic {op} x[%5], %3{expected}
        store old[%2], %6
      }}
    }}"""


def _runs(text: str, options: Options, x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield contents and old values after launches in quick succession, so that worker threads are awake."""
    executable = CpuBackend().compile(parse_kernel(text), options)
    for _ in range(LAUNCHES):
        content, old = x.copy(), np.zeros_like(y)
        executable.run({"x": content, "y": y, "old": old}, {"bins": len(x)}, Sizes(), Draws())
        yield content, old


@pytest.mark.rotating
@pytest.mark.parametrize("t", [t for t in SCALARS.values() if atomic_fits("add", t)], ids=str)
@pytest.mark.parametrize("bins", [1, 3])
def test_sums_are_exact_and_each_old_value_comes_once(options: Options, t: Scalar, bins: int) -> None:
    size = 120 * bins
    x, y = np.zeros(bins, t.dtype), np.ones(size, t.dtype)
    for content, old in _runs(_updates("add", t), options, x, y):
        assert content.tolist() == [120] * bins
        for k in range(bins):
            assert sorted(old[k::bins].tolist()) == list(range(120))


@pytest.mark.rotating
@pytest.mark.parametrize("op", ["min", "max", "bit_and", "bit_or", "bit_xor"])
def test_updates_that_commute(options: Options, op: str) -> None:
    combine = {
        "min": np.minimum,
        "max": np.maximum,
        "bit_and": np.bitwise_and,
        "bit_or": np.bitwise_or,
        "bit_xor": np.bitwise_xor,
    }[op]
    for t in (t for t in SCALARS.values() if atomic_fits(op, t) and not t.is_bool):
        rng = np.random.default_rng(5)
        y = rng.integers(0, 100, SIZE).astype(t.dtype)
        x = np.full(4, 50, t.dtype)
        right = [combine.reduce(y[k::4], initial=x[k]) for k in range(4)]
        for content, _ in _runs(_updates(op, t), options, x, y):
            assert content.tolist() == [v.item() for v in right], t


def test_products_of_f16(options: Options) -> None:
    """Powers of two, whose products are exact in any order, by compare-and-swap."""
    t = SCALARS["f16"]
    y = np.tile(np.array([2.0, 0.5], np.float16), 500)
    x = np.ones(1, np.float16)
    assert all(content[0] == 1.0 for content, _ in _runs(_updates("mul", t), options, x, y))


def test_exchanges_lose_nothing(options: Options) -> None:
    x, y = np.array([-1], np.int32), np.arange(SIZE, dtype=np.int32)
    for content, old in _runs(_updates("exchange", SCALARS["i32"]), options, x, y):
        assert sorted([*old, *content]) == list(range(-1, SIZE))


def test_one_iteration_wins_a_compare_and_swap(options: Options) -> None:
    """All expect 0; none brings it."""
    text = _updates("cas", SCALARS["i32"], " expected %9").replace("%4: i32 = arg", "%9: i32 = const 0 %4: i32 = arg")
    x, y = np.zeros(1, np.int32), np.arange(1, SIZE + 1, dtype=np.int32)
    for content, old in _runs(text, options, x, y):
        assert (old == 0).sum() == 1 and content[0] == y[int(np.flatnonzero(old == 0)[0])]
