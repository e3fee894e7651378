"""Deterministic launches: sums in one order, one thread where another order would show, no lists."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import forward, memory_of, near
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.emit import ModuleState
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.cuda.ptx import ptx
from stackgrad.backends.host.jit import host_target
from stackgrad.compiler.ir.parser import parse_kernel

SCATTER = """kernel scatter(n: i32, t: i32[1], x: f32[1], l: f32[1], c: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    %4: i32 = load t[%2]
    %5: f32 = atomic add l[%4], %3
    %6: i32 = atomic add c[%4], %4
  }
}"""


def test_sums_are_added_up_in_one_order() -> None:
    with runtime(deterministic=True) as (_, driver):
        x, out, most = sg.field(sg.f64, (40, 250)), sg.field(sg.f64, ()), sg.field(sg.f64, ())
        values = np.random.default_rng(3).normal(size=(40, 250))
        x.from_numpy(values)
        out[None], most[None] = 1.0, 0.25

        @sg.kernel
        def reduce():
            for i, j in x:
                out[None] += x[i, j]
                sg.atomic_max(most[None], x[i, j])

        before = memory_of(x=x, out=out, most=most)
        reduce()
        assert [name for name, _, _ in driver.launches] == ["reduce_task_0", "reduce_finish_0"]
        near(forward(reduce.ir(), before), "out", out.to_numpy(), 1.0 + values.sum())
        assert most[None] == values.max()


def test_a_sum_over_nothing_changes_nothing() -> None:
    with runtime(deterministic=True):
        n, out = sg.field(sg.i32, ()), sg.field(sg.f32, 1)
        out.from_numpy(np.array([-0.0], np.float32))

        @sg.kernel
        def reduce():
            for i in range(n[None]):
                out[0] += 1.0 + 0.0 * i

        reduce()
        assert np.signbit(out[0])
        n[None] = 7
        reduce()
        assert out[0] == 7.0


def test_one_thread_where_another_order_would_show() -> None:
    """Of updates whose elements depend on data: real sums take turns, integer sums need not."""
    kernel = parse_kernel(SCATTER)
    integers = parse_kernel(SCATTER.replace("%5: f32 = atomic add l[%4], %3", ""))
    for one, alone in ((kernel, True), (integers, False)):
        text = ptx(one, options=Options(deterministic=True))
        assert ("nctaid" in text) is not alone
    assert "nctaid" in ptx(kernel)


def test_the_result_of_one_thread_is_right() -> None:
    with runtime(deterministic=True):
        x, to, out = sg.field(sg.f32, 300), sg.field(sg.i32, 300), sg.field(sg.f32, 5)
        x.fill(0.5)
        to.from_numpy((np.arange(300) * 7 % 5).astype(np.int32))

        @sg.kernel
        def scatter():
            for i in x:
                out[to[i]] += x[i]

        scatter()
        assert out.to_numpy().tolist() == [30.0] * 5


def test_no_lists() -> None:
    """Their order is that in which threads come."""
    gated = parse_kernel(
        """kernel gated(n: i32, x: f32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
        %3: f32 = load x[%2]
        %4: u1 = cmp_gt %3, %3
        if %4 {
          adstack_alloca v: f32
          for %5: i32 in %0 .. %2 { adstack_push v, %3 }
          for %6: i32 in %0 .. %2 { %7: f32 = adstack_load_top v adstack_pop v store x[%2], %7 }
        }
      }
    }""".replace("%0 .. %2", "%2 .. %2")
    )
    kinds = [[e.kind for e in generate(gated, Options(deterministic=d)).entries] for d in (False, True)]
    assert kinds == [["zero", "select", "listed", "task"], ["task"]]


def test_threads_of_a_cpu_leave_such_tasks_to_one() -> None:
    kernel = parse_kernel(SCATTER)
    for deterministic in (False, True):
        state = ModuleState(kernel, Options(threads=64, deterministic=deterministic), host_target())
        assert state.sharing(0).pays is not deterministic


@pytest.mark.parametrize("device", ["emulated", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_twenty_runs_give_the_same_bits(device: str) -> None:
    """A loss and its gradient, and real sums into elements that depend on data."""
    n = 1 << (18 if device == "cuda" else 10)
    values = np.random.default_rng(6).normal(size=n).astype(np.float32)

    def runs() -> set[bytes]:
        x, w = sg.field(sg.f32, n), sg.field(sg.f32, (), needs_grad=True)
        loss, bins = sg.field(sg.f32, (), needs_grad=True), sg.field(sg.f32, 5)
        x.from_numpy(values)

        @sg.kernel
        def total():
            for i in x:
                loss[None] += sg.sin(w[None] * x[i])

        @sg.kernel
        def scatter():
            for i in range(1000):
                bins[i * i % 5] += x[i]

        found = set()
        for _ in range(20):
            for field in (loss, bins, w.grad):
                field.fill(0.0)
            w[None], loss.grad[None] = 0.7, 1.0
            total()
            total.grad()
            scatter()
            found.add(b"".join(f.to_numpy().tobytes() for f in (loss, bins, w.grad)))
        return found

    if device == "cuda":
        sg.init(arch=sg.cuda, deterministic=True)
        assert len(runs()) == 1
        sg.reset()
    else:
        with runtime(deterministic=True):
            assert len(runs()) == 1
