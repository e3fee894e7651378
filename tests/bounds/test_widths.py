"""Test that a task of one iteration has the same error bounds as each iteration of a larger task."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import machine as machines
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.harness.testing.bounds.places import BOUNDED
from stackgrad.reference.machine import Machine
from table_rows import each_row

HEAD = """kernel k(x: f32[1], y: f32[1], c: i32[1]) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    %4: i32 = load c[%2]
    %5: f32 = const 0.5
    %20: i32 = const 0
    %21: i32 = const 2
    local kept: f32
"""

OLD = [
    "%6: f32 = atomic add y[%2], %3",
    "%6: f32 = atomic add y[%4], %3",
    "%6: f32 = atomic exchange y[%2], %3",
    "%6: f32 = atomic mul y[%2], %3",
    "%6: f32 = atomic max y[%4], %3",
    "%6: f32 = atomic min y[%2], %3",
    "%60: f32 = atomic add y[%4], %3\n%6: f32 = atomic add y[%4], %5",
    "%6: f32 = load y[%4]",
    "%60: f32 = atomic add y[%4], %3\n%6: f32 = load y[%4]",
    "store y[%4], %3\n%6: f32 = atomic add y[%4], %3",
    "%6: f32 = sin %3",
]
"""Where a value %6 comes from that is inexact."""

INTO = [
    "%7: f32 = atomic add y[%4], %6",
    "store y[%4], %6",
    "%7: f32 = atomic max y[%4], %6",
    "%7: f32 = atomic exchange y[%4], %6",
    "set kept, %6\n%7: f32 = get kept\nstore y[%4], %7",
    "%8: u1 = cmp_lt %20, %21\nif %8 {\nset kept, %6\n}\n%7: f32 = get kept\nstore y[%4], %7",
    "local_array a: f32[3]\nset_element a[%21], %6\n%7: f32 = get_element a[%21]\nstore y[%4], %7",
    "adstack_alloca s: f32 adjoint\nadstack_push s, %6\nadstack_push s, %5\nadstack_pop s\n"
    "%7: f32 = adstack_load_top s\nstore y[%4], %7",
    "adstack_alloca s: f32 adjoint\nadstack_push s, %5\nadstack_acc_adj s, %6\nadstack_acc_adj s, %6\n"
    "%7: f32 = adstack_load_top_adj s\nstore y[%4], %7",
    "for %9: i32 in %20 .. %21 {\n%10: f32 = get kept\n%11: f32 = add %10, %6\nset kept, %11\n}\n"
    "%7: f32 = get kept\nstore y[%4], %7",
    "%8: u1 = cmp_lt %6, %5\n%7: f32 = select %8, %6, %5\nstore y[%4], %7",
    "%7: i32 = cast %6\n%8: f32 = cast %7\nstore y[%4], %8",
    "%7: i32 = bit_cast %6\n%8: f32 = bit_cast %7\n%9: f32 = mul %8, %6\nstore y[%4], %9",
]
"""Where it goes."""


def bounds_of(body, lanes, precise):
    """Return the error bounds of y after `body` ran for these lanes only."""
    x = np.array([0.3, 1.7, -0.6], np.float32)[lanes]
    arrays = {"x": x, "y": np.array([0.25, -0.75, 2.0], np.float32)[lanes], "c": np.arange(x.size, dtype=np.int32)}
    errors = {"x": np.array([1e-3, 0.0, 1e-5])[lanes], "y": np.array([0.0, 1e-4, 1e-2])[lanes]}
    found = run_bounded(parse_kernel(HEAD + body + "\n  }\n}"), arrays, {}, errors=errors, precise=precise)
    assert found.poisoned is None
    return found.errors["y"]


@pytest.mark.expensive
@each_row("precise", [True, False])
@each_row("into", INTO)
@each_row("old", OLD)
def test_one_iteration_is_like_any_other(old, into, precise):
    body = f"{old}\n{into}"
    wide = bounds_of(body, [0, 1, 2], precise)
    alone = [bounds_of(body, [lane], precise)[0] for lane in range(3)]
    assert wide == pytest.approx(alone, rel=1e-6, nan_ok=False)
    assert (wide > 0).any() or "cast" in into or "select" in into


@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("old", OLD)
def test_errors_of_one_lane_have_no_axis(old, into, monkeypatch):
    """The invariant behind it, at every value."""
    shapes = []

    def watched(self, block, frame):
        frame = Machine.burn(self, block) or frame
        for stmt in block:
            frame = frame and BOUNDED[type(stmt)](self, stmt, frame)
            result = getattr(stmt, "result", None)
            if frame is not None and result is not None:
                shapes.append((stmt, np.shape(frame.values[~result.id]), np.shape(frame.values[result.id])))
        return frame

    monkeypatch.setattr(machines.BoundedMachine, "run", watched)
    bounds_of(f"{old}\n{into}", [0], precise=False)
    assert len(shapes) >= 8
    assert [s for s in shapes if s[1:] != ((), ())] == []
