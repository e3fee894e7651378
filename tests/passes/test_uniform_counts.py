"""Test counting kernels whose iterations all count the same: they run one iteration, and find the same depths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.sizing import counting_kernel
from stackgrad.harness.tools.model import render_ir
from stackgrad.harness.tools.strategies import sample

LOOP = """kernel run(x: f64[1] grad, y: f64[1] grad, n: i32[1], first: i32, m: i32) {{
  bounds {{ %0: i32 = arg first  %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    local v: f64  %3: f64 = load x[%2]  set v, %3
    %4: i32 = const 0  %5: i32 = {bound}
    for %6: i32 in %4 .. %5 {{ %7: f64 = get v  %8: f64 = sin %7  set v, %8 }}
    %9: f64 = get v  store y[%2], %9
  }}
}}"""
BOUNDS = {
    "an argument": ("arg m", True),
    "a shape": ("shape n, 0", True),
    "one element": ("load n[%4]", True),
    "an element each": ("load n[%2]", False),
}


def measured(kernel: Any, arrays: Any, scalars: Any) -> Sizes:
    """What the counting kernel finds on the reference."""
    launcher = Launcher(prepare_reverse(kernel, check=True), registry.get("reference"), Options())
    launcher.measure(arrays, scalars)
    return launcher._last


def iterations_of(kernel: Any, n: int, first: int) -> int:
    """Return the number of iterations that the counting kernel runs, computed from its bounds."""
    counting = prepare_reverse(kernel).counting
    assert counting is not None
    return min(1, n - first) if len(counting.tasks[0].bounds) > 2 else n - first


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("n", "first"), [(0, 0), (1, 0), (7, 0), (7, 3), (7, 7), (7, 9)])
def test_depths_and_rows(bound: str, n: int, first: int) -> None:
    text, uniform = BOUNDS[bound]
    kernel = parse_kernel(LOOP.format(bound=text))
    arrays = {name: np.zeros(n) for name in ("x", "y", "x.grad", "y.grad")}
    arrays["n"] = np.arange(7, dtype=np.int32)[::-1].copy()
    sizes = measured(kernel, arrays, {"first": first, "m": 4})
    points = range(first, n)
    depth = {
        "an argument": [4] * len(points),
        "a shape": [7] * len(points),
        "one element": [6] * len(points),
        "an element each": [6 - i for i in points],
    }[bound]
    assert list(sizes.capacities.values()) == [max(depth, default=0)]
    assert sizes.rows[0, "real"] == sum(d > 0 for d in depth)
    assert list(sizes.totals.values()) == [sum(depth)]
    assert (iterations_of(kernel, 7, 0) == 1) is uniform


@pytest.mark.expensive
def test_random_programs_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without: equal sizes; a fair part of the programs has a uniform task."""
    collapsed = 0
    for seed in range(80):
        program = sample(seed)
        kernel = render_ir(program)
        arrays = program.arrays()
        arrays |= {f"{name}.grad": np.zeros_like(a) for name, a in arrays.items() if a.dtype.kind == "f"}
        try:
            with monkeypatch.context() as patch:
                patch.setattr(counting_kernel, "collapse_uniform", lambda kernel, *_: kernel)
                plain = prepare_reverse(kernel)
            made = prepare_reverse(kernel)
        except NotDifferentiable:
            continue
        if made.counting is None or made.counting == plain.counting:
            continue
        collapsed += 1
        verify(made.counting, "adjoint")
        found = []
        for lowered in (plain, made):
            launcher = Launcher(lowered, registry.get("reference"), Options())
            launcher.measure({k: a.copy() for k, a in arrays.items()}, program.scalars())
            found.append(launcher._last)
        assert found[0] == found[1], seed
    assert collapsed >= 5
