"""A load ahead of a gate ends the launch where its index is outside, although the gate is closed and nobody uses it.

Code that first lists the iterations that pass the gate must not lose such a load.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.codegen.gates import selection
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.llvm.masked.function import lower_exits_of
from stackgrad.compiler.driver import Lowering, prepare_forward, prepare_reverse
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.executors import backend_by_name, present_backends

SIZE = 70
EXECUTORS = ("reference", "cpu", "cpu-masked", "vulkan", "cuda-emulated", "metal-emulated")
HEAD = "kernel k(x: f32[1] grad, at: i32[1], c: i32[1], y: f32[1] grad, m: i32)"
AHEAD = "%4: f32 = load x[%3] set v, %4"
"""The load, and the local that holds its value."""
BODY = """ {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape c, 0 }} parallel %2: i32 in %0 .. %1 {{
    local v: f32
    %30: i32 = const 0
    %3: i32 = load at[%2]
    {ahead}
    %5: i32 = load c[%2]
    %6: u1 = cmp_gt %5, %30
    if %6 {{
      %7: i32 = arg m
      for %8: i32 in %30 .. %7 {{ %9: f32 = get v %10: f32 = sin %9 %11: f32 = mul %10, %9 set v, %11 }}
      {inside}
      %12: f32 = get v
      store y[%2], %12
    }}
    {behind}
    if %6 {{ %20: f32 = const 2.0 store y[%2], %20 }}
  }}
}}"""


def text(place: str) -> str:
    """A kernel whose load stands ahead of its gate, inside, or between the gate's two ifs."""
    between = AHEAD.replace("%4", "%19")
    return HEAD + BODY.format(
        ahead=AHEAD if place == "ahead" else "",
        inside=between if place == "inside" else "",
        behind=between if place == "behind" else "",
    )


def launch(executor: str, made: Lowering, at: np.ndarray) -> None:
    """Launch on arrays whose gate is closed in iteration 7 and open in every fourth one."""
    closed = np.arange(SIZE) % 4 == 0
    real = {
        name: np.full(SIZE, value, np.float32) for name, value in (("x", 0.5), ("y", 0.0), ("x.grad", 0), ("y.grad", 1))
    }
    arrays = real | {"at": at, "c": closed.astype(np.int32)}
    memory = {name: arrays[name] for name in made.kernel.array_types() if name in arrays}
    Launcher(made, backend_by_name(executor), Options()).run(memory, {"m": 3}, Draws())


@pytest.mark.rotating
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_closed_gate_hides_no_index(executor: str, direction: str) -> None:
    """The reference executes the load in every iteration; the others must end alike."""
    missing = present_backends([executor])[1] if executor != "reference" else {}
    if missing:
        pytest.skip(missing[executor])
    kernel = parse_kernel(text("ahead"))
    made = (prepare_forward if direction == "forward" else prepare_reverse)(kernel)
    at = np.arange(SIZE, dtype=np.int32)
    launch(executor, made, at)
    for astray in (SIZE, -1, 1 << 20):
        at[7] = astray
        with pytest.raises(sg.OutOfBounds, match=f"index {astray} "):
            launch(executor, made, at)


def test_what_a_scan_runs() -> None:
    """It runs a load that may be outside, and no load whose index is proved or that stands behind the gate."""
    for place, loads in (("ahead", ["at", "x", "c"]), ("inside", ["at", "c"])):
        scan = selection(lower_exits_of(parse_kernel(text(place)), 0), linear=True)
        assert scan is not None and scan.gate is not None
        assert [s.array for s in scan.deciding if isinstance(s, n.Load)] == loads
    proved = text("ahead").replace(
        "%4: f32 = load x[%3] set v, %4", "%41: i32 = load c[%2] %4: f32 = cast %41 set v, %4"
    )
    scan = selection(lower_exits_of(parse_kernel(proved), 0), linear=True)
    assert scan is not None and [s.array for s in scan.deciding if isinstance(s, n.Load)] == ["at", "c"]
    scan = selection(lower_exits_of(parse_kernel(text("behind")), 0), linear=True)
    assert scan is None or scan.gate is None
