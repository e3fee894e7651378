"""Updates of one element by all iterations: kept by each thread and made once a block, and right for every type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import forward, gradient, memory_of, near
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.reductions import element_sums
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.cuda.driver_table import MOST
from stackgrad.backends.cuda.ptx import ptx
from stackgrad.compiler.ir.kernels import Task
from stackgrad.compiler.ir.parser import parse_kernel


def task(body: str, params: str = "n: i32, x: f32[1], l: f32[1], t: i32[1]") -> Task:
    bounds = "bounds { %0: i32 = const 0 %1: i32 = arg n }"
    return parse_kernel(f"kernel k({params}) {{ {bounds} parallel %2: i32 in %0 .. %1 {{ {body} }} }}").tasks[0]


LOAD = "%3: f32 = load x[%2] %4: i32 = const 0 %5: i32 = arg n "


@pytest.mark.parametrize(
    "body, found",
    [
        ("%6: f32 = atomic add l[%4], %3", 1),
        ("%6: f32 = atomic add l[%5], %3 %7: f32 = atomic add l[%4], %3", 2),
        ("%6: f32 = atomic add l[%5], %3 %7: f32 = atomic add l[%5], %3", 1),
        ("%6: f32 = atomic max l[%4], %3", 1),
        ("%6: f32 = atomic max l[%4], %3 %7: f32 = atomic add l[%4], %3", 0),
        ("%6: f32 = atomic max l[%4], %3 %7: f32 = atomic add l[%5], %3", 0),
        ("%6: f32 = atomic max l[%4], %3 %8: i32 = const 1 %7: f32 = atomic add l[%8], %3", 2),
        ("%6: f32 = atomic add l[%2], %3 %7: f32 = atomic add l[%4], %3", 1),
        ("%6: f32 = atomic add l[%2], %3", 0),
        ("%6: i32 = load t[%2] %7: f32 = atomic add l[%6], %3", 0),
        ("%6: f32 = atomic add l[%4], %3 store x[%2], %6", 0),
        ("%6: f32 = atomic add l[%4], %3 %7: f32 = load l[%2]", 0),
        ("%6: f32 = atomic mul l[%4], %3", 0),
    ],
)
def test_what_can_be_kept(body: str, found: int) -> None:
    """A fixed element, one operation, and nobody who asks for what was there."""
    assert len(element_sums(task(LOAD + body), Options())) == found


def test_a_debug_build_looks_at_every_index() -> None:
    assert element_sums(task(LOAD + "%6: f32 = atomic add l[%4], %3"), Options(debug=True)) == ()


@pytest.mark.parametrize("kind", [sg.f32, sg.f64, sg.i32, sg.i64, sg.u32])
def test_sums_and_extrema(kind: Any) -> None:
    with runtime():
        x, out = sg.field(kind, 1000), sg.field(kind, 3)
        values = np.random.default_rng(1).integers(1, 1000, 1000).astype(x.to_numpy().dtype)
        x.from_numpy(values)
        out.from_numpy(np.array([5, 900, 100], values.dtype))

        @sg.kernel
        def reduce():
            for i in x:
                out[0] += x[i]
                sg.atomic_min(out[1], x[i])
                sg.atomic_max(out[2], x[i])

        reduce()
        assert out.to_numpy().tolist() == [5 + values.sum(), min(900, values.min()), max(100, values.max())]


def test_elements_that_the_launch_names() -> None:
    with runtime():
        x, out = sg.field(sg.f32, (20, 30)), sg.field(sg.f32, (4, 5))
        x.fill(0.5)

        @sg.kernel
        def reduce(a: sg.i32, b: sg.i32):
            for i, j in x:
                out[a + 1, 2 * b - 3] += x[i, j] * 2.0

        reduce(2, 3)
        found = out.to_numpy()
        assert found[3, 3] == 600.0 and found.sum() == 600.0


def test_no_update_leaves_the_element_alone() -> None:
    """Neither the sign of a zero changes, nor is an element touched that is not there."""
    with runtime():
        x, out = sg.field(sg.f32, 100), sg.field(sg.f32, 2)
        out.from_numpy(np.array([-0.0, 1.0], np.float32))

        @sg.kernel
        def reduce(where: sg.i32):
            for i in x:
                if x[i] > 1.0:
                    out[where] += x[i]

        reduce(0)
        reduce(1_000_000)
        assert np.signbit(out.to_numpy()[0]) and out.to_numpy()[1] == 1.0


def test_nan_and_infinity_come_through() -> None:
    with runtime():
        x, out = sg.field(sg.f32, 64), sg.field(sg.f32, 2)
        x.from_numpy(np.where(np.arange(64) == 17, np.nan, np.inf).astype(np.float32))

        @sg.kernel
        def reduce():
            for i in x:
                out[0] += x[i]
                sg.atomic_max(out[1], x[i])

        reduce()
        assert np.isnan(out.to_numpy()).all()


def test_gradients_of_losses_and_of_shared_weights() -> None:
    """The loss is a sum forward; the weight's adjoint is one backward; x's own is a plain update."""
    with runtime():
        x, w = sg.field(sg.f64, 500, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
        loss = sg.field(sg.f64, (), needs_grad=True)
        values = np.random.default_rng(2).normal(size=500)
        x.from_numpy(values)
        w[None] = 0.7

        @sg.kernel
        def total():
            for i in x:
                loss[None] += sg.sin(w[None] * x[i])

        loss.grad[None] = 1.0
        before = memory_of(x=x, w=w, loss=loss)
        total()
        total.grad()
        near(forward(total.ir(), before), "loss", loss.to_numpy(), np.sin(0.7 * values).sum())
        known = gradient(total.ir(), before)
        near(known, "x.grad", x.grad.to_numpy(), 0.7 * np.cos(0.7 * values))
        near(known, "w.grad", w.grad.to_numpy(), (values * np.cos(0.7 * values)).sum())


SQUARES = """kernel loss(n: i32, x: f32[1], l: f32[0]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    %4: f32 = mul %3, %3
    %5: f32 = atomic add l[], %4
  }
}"""


def test_loads_of_a_short_task_are_under_way_together() -> None:
    """Four in a group; one atomic, behind the loops; sums of warps by shuffles."""
    text = ptx(parse_kernel(SQUARES), options=Options(precise=False, bounds=False))
    body = text[text.index(".entry loss_task_0") : text.index("\n}", text.index(".entry loss_task_0"))]
    groups = re.findall(r"(?:ld\.global\.nc\.b32[^@]*?fma[^@]*?){4}@", body)
    assert len(groups) == 1
    assert text.count("atom.global.add.f32") + text.count("red.global.add.f32") == 1
    assert text.count("shfl.sync.down") >= 5 and text.count("bar.sync") == 2
    assert generate(parse_kernel(SQUARES), Options()).layout.state_size == 0


def test_loads_of_updates_come_before_stores() -> None:
    """A gradient that adds to each element: what four iterations read is on its way before the first of them writes."""
    text = ptx(parse_kernel(SQUARES.replace("atomic add l[]", "atomic add y[%2]").replace("l: f32[0]", "y: f32[1]")))
    body = text[text.index(".entry loss_task_0") :]
    accesses = re.findall(r"ld\.global\.nc|ld\.global\.b32|st\.global|\bbra\b", body)
    group = "".join({"ld.global.nc": "n", "ld.global.b32": "l", "st.global": "s", "bra": "|"}[a] for a in accesses)
    assert re.search(r"\|[nl]{8}ssss\|", group), group


@pytest.mark.parametrize("few", [1, 3])
def test_iterations_in_groups_are_right(few: int) -> None:
    """With so few threads that each has many iterations: reads before writes, own elements, shared ones."""
    with runtime() as (backend, _):
        backend.device.table[MOST] = few
        x, y, hits = sg.field(sg.f32, 103), sg.field(sg.f32, 103), sg.field(sg.i32, 7)
        values = np.random.default_rng(5).normal(size=103).astype(np.float32)
        x.from_numpy(values)
        y.from_numpy(values)

        @sg.kernel
        def step():
            for i in x:
                old = x[i]
                x[i] = old * 2.0 + y[i]
                y[i] += old
                hits[i % 7] += 1

        step()
        assert np.array_equal(x.to_numpy(), values * 2 + values)
        assert np.array_equal(y.to_numpy(), values + values)
        assert hits.to_numpy().tolist() == [len(range(k, 103, 7)) for k in range(7)]
