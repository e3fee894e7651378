"""Test that a short task of branching code is generated twice: with all index checks, and with fewer of them.

The second version leaves out checks that are unnecessary for the extents and arguments of most launches.
"""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen import launch_conditions
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import StackgradError
from stackgrad.compiler.ir.parser import parse_kernel

GATHER = """kernel gather(x: f64[1] grad, y: f64[1] grad, at: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = load at[%2]
    %4: f64 = load x[%3]
    store y[%2], %4
  }
}"""
"""`at` may be shorter than `y`, which a launch decides; what it holds may lead anywhere, which no launch decides."""
GRADIENT = prepare_reverse(parse_kernel(GATHER)).kernel


def comparisons(options: Options) -> int:
    """Return the number of index checks in the code of the gradient."""
    return CpuBackend().ir_text(GRADIENT, options, optimize=False).count("icmp uge i64")


def test_the_second_loop_compares_only_what_no_launch_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = comparisons(Options(lanes=0))
    monkeypatch.setattr(launch_conditions, "BRIEF", 0)
    once = comparisons(Options(lanes=0))
    assert once >= 2 and twice == once + 1
    assert comparisons(Options(lanes=0, bounds=False)) == 0


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("astray", [False, True])
def test_both_loops_give_the_gradient_or_the_error(size: int, short: int, astray: bool) -> None:
    """Two launches in a row: with `at` as long as `y`, then with one that may be shorter; indices may be astray."""
    made = CpuBackend().compile(GRADIENT, Options(lanes=0))
    rng = np.random.default_rng(size)
    for missing in (0, short):
        at = rng.integers(0, 4, max(0, size - missing)).astype(np.int32)
        if astray and at.size:
            at[-1] = 4
        weights = rng.integers(1, 9, size).astype(np.float64)
        arrays = {"x": np.zeros(4), "x.grad": np.zeros(4), "y": np.zeros(size), "y.grad": weights.copy(), "at": at}
        if (missing and size) or (astray and at.size):
            with pytest.raises(StackgradError, match="outside"):
                made.run(arrays, {}, Sizes(), Draws())
        else:
            made.run(arrays, {}, Sizes(), Draws())
            assert (arrays["x.grad"] == np.bincount(at, weights, 4)).all() and not arrays["y.grad"].any()
