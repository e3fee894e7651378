"""Test which tasks have masked code: those whose gain in arithmetic exceeds the cost of scattered memory accesses.

Also test which updates are atomic if code that may run on several threads runs on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen import sharing
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu.backend import CpuBackend, CpuExecutable
from stackgrad.backends.llvm import task_threads
from stackgrad.backends.llvm.masked import eligible, lanes_by_task
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

ROWS = """kernel rows(a: f32[2] grad, y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape a, 0 } parallel %2: i32 in %0 .. %1 {
    local s: f32
    %4: i32 = const 0
    %5: i32 = shape a, 1
    for %6: i32 in %4 .. %5 {
      %7: f32 = load a[%2, %6]
      WORK
      %8: f32 = get s
      %9: f32 = add %8, %7
      set s, %9
    }
    %10: f32 = get s
    store y[%2], %10
  }
}"""
COLUMNS = ROWS.replace("a[%2, %6]", "a[%6, %2]")
GATHER = """kernel gather(x: f32[1] grad, y: f32[1] grad, at: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = load at[%2]
    %4: f32 = load x[%3]
    store y[%2], %4
  }
}"""
COPY = """kernel copy(x: f32[1] grad, y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    store y[%2], %3
  }
}"""
COLUMN = (
    COPY.replace("x: f32[1]", "x: f32[2]")
    .replace("load x[%2]", "load x[%2, %9]")
    .replace("    %3", "    %9: i32 = const 0\n    %3")
)
PLANES = """kernel planes(x: f32[2] grad, y: f32[2] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape y, 0
    %2: i32 = const 3
  } parallel %3: i32, %4: i32 in %0 .. %1, %0 .. %2 {
    %5: f32 = load x[%3, %4]
    store y[%3, %4], %5
  }
}"""
SEARCH = """kernel search(x: f32[1], u: f32[1], v: f32[1], y: f32[1], cell: i32[1], first: i32[1], size: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    local s: f32
    %3: i32 = const -13
    %4: i32 = const 14
    %5: i32 = load cell[%2]
    %6: f32 = load x[%2]
    for %7: i32 in %3 .. %4 {
      %8: i32 = add %5, %7
      %9: i32 = load first[%8]
      %10: i32 = load size[%8]
      %11: i32 = add %9, %10
      for %12: i32 in BEGIN .. %11 {
        %13: f32 = load x[%12]
        %14: f32 = sub %13, %6
        %40: f32 = mul %14, %14
        %41: f32 = load u[%12]
        %42: f32 = mul %41, %41
        %43: f32 = load v[%12]
        %44: f32 = mul %43, %43
        %45: f32 = add %40, %42
        %15: f32 = add %45, %44
        %16: f32 = const 0.5
        %17: u1 = cmp_lt %15, %16
        if %17 { %18: f32 = const 0.25 %19: u1 = cmp_lt %15, %18 WORK }
      }
    }
    %30: f32 = get s
    store y[%2], %30
  }
}"""
FOUND = "%20: f32 = sqrt %15 %21: f32 = get s %22: f32 = add %21, %20 set s, %22"
SEARCHES = {
    "what is found twice": (SEARCH.replace("BEGIN", "%9").replace("WORK", f"if %19 {{ {FOUND} }}"), False),
    "from one place on": (SEARCH.replace("BEGIN", "%0").replace("WORK", f"if %19 {{ {FOUND} }}"), True),
}
"""Sums over the neighbors of an iteration, in cells around its own; and the same with loops that all begin at 0."""

SINES = " ".join(f"%{k}: f32 = sin %{k - 1 if k > 20 else 7}" for k in range(20, 28))


def with_work(text: str, work: str = "") -> str:
    return text.replace("WORK", work).replace("add %8, %7", "add %8, %27" if work else "add %8, %7")


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_run_one_by_one(name: str) -> None:
    """Lanes of a search wait for each other, load from places of their own, and do what only some of them find."""
    text, pays = SEARCHES[name]
    kernel = prepare_forward(parse_kernel(text)).kernel
    assert eligible(kernel, 0, replace(CPU, vector_masks=True)) is pays


@pytest.mark.parametrize("has_masks", [False, True])
@pytest.mark.parametrize(
    ("text", "forward", "gradient"),
    [
        (with_work(ROWS), False, False),
        (with_work(ROWS, SINES), True, True),
        (with_work(COLUMNS), True, True),
        (GATHER, None, False),
        (COLUMN, None, None),
        (COPY, True, True),
        (PLANES, False, False),
    ],
    ids=["rows", "rows-of-sines", "columns", "gather", "column", "copy", "planes"],
)
def test_tasks_that_walk_rows_or_update_one_by_one_have_no_lanes(
    text: str, forward: bool | None, gradient: bool | None, has_masks: bool
) -> None:
    """Without registers for masks, elements anywhere are no faster to load for many lanes than for one (None)."""
    kernel, target = parse_kernel(text), replace(CPU, vector_masks=has_masks)
    for made, wanted in ((prepare_forward(kernel).kernel, forward), (prepare_reverse(kernel).kernel, gradient)):
        pays = has_masks if wanted is None else wanted
        assert eligible(made, 0, target) == pays and eligible(made, 0)
        assert bool(lanes_by_task(made, Options(), target)) == pays
        assert lanes_by_task(made, Options(lanes=8), target) == {0: 8}


@pytest.mark.parametrize("lanes", [None, 0, 8])
def test_results_are_the_same(lanes: int | None) -> None:
    """Whole numbers, so that no sum is rounded."""
    a = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
    arrays = {"a": a, "y": np.zeros(64, np.float32)}
    execute(prepare_forward(parse_kernel(with_work(ROWS))).kernel, arrays, Options(lanes=lanes))
    assert (arrays["y"] == a.sum(1)).all()
    arrays |= {"a.grad": np.ones_like(a), "y.grad": np.arange(64, dtype=np.float32)}
    execute(prepare_reverse(parse_kernel(with_work(ROWS))).kernel, arrays, Options(lanes=lanes))
    assert (arrays["a.grad"] == 1 + np.arange(64)[:, None]).all() and not arrays["y.grad"].any()


def execute(kernel: Kernel, arrays: Mapping[str, np.ndarray], options: Options) -> CpuExecutable:
    made = CpuBackend().compile(kernel, options)
    made.run(arrays, {}, Sizes(), Draws())
    return made


# ---- one thread and several ------------------------------------------------------------------------------------

HISTOGRAM = """kernel histogram(at: i32[1], n: i32[1], last: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape at, 0 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = load at[%2]
    %4: i32 = const 1
    %5: i32 = atomic add n[%3], %4
    %6: i32 = load last[%3]
    %7: i32 = atomic cas last[%3], %4 expected %6
  }
}"""


def test_code_for_several_threads_has_both_kinds_of_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "WORTH", float("inf"))
    options = (Options(threads=k, lanes=0, bounds=False) for k in (4, 1))  # an error record takes a cmpxchg
    several, alone = (CpuBackend().ir_text(parse_kernel(HISTOGRAM), k, optimize=False) for k in options)
    assert "atomicrmw" in several and "cmpxchg" in several and "alone" in several
    assert "atomicrmw" not in alone and "cmpxchg" not in alone


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("pooled", [False, True])
def test_no_update_is_lost(lanes: int, pooled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small loops on one thread between large ones on several; the word that tells which is zero after each."""
    monkeypatch.setattr(sharing, "WORTH", float("inf"))
    if pooled:
        for name, value in (("ENOUGH", 0), ("SHARE", 1), ("CHUNK", 1)):
            monkeypatch.setattr(task_threads, name, value)
    kernel, random = parse_kernel(HISTOGRAM), np.random.default_rng(5)
    made = CpuBackend().compile(kernel, Options(threads=4, lanes=lanes))
    for size in (100_000, 10, 50_000, 300):
        at = random.integers(0, 7, size).astype(np.int32)
        arrays = {"at": at, "n": np.zeros(7, np.int32), "last": np.zeros(7, np.int32)}
        made.run(arrays, {}, Sizes(), Draws())
        assert (arrays["n"] == np.bincount(at, minlength=7)).all()
        assert made._idle[-1].word(made.layout.shared_at) == 0
