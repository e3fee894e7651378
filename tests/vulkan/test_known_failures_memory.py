"""What compilers of differentiable kernels are known to get wrong on Vulkan, one test each: bounds in memory, gradients
of ndarrays, overflows.

Gradients are compared with closed forms or with the same recurrence in NumPy, never with another backend of ours alone.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from known_support import Recorded, fields, recorded

Whole: Any = sg.types.ndarray(sg.i32, 1)
Real: Any = sg.types.ndarray(sg.f64, 1)
__all__ = ["recorded"]


# ---- bounds ---------------------------------------------------------------------------------------------------


def test_bounds_read_from_arrays_and_fields(recorded: Recorded) -> None:
    """Of a loop over iterations, and of two loops inside: a field of numbers, an ndarray and a NumPy array."""
    n = 140
    x, y = fields(n, n)
    most, outer = sg.field(sg.i32, shape=()), sg.field(sg.i32, shape=n)
    inner = sg.ndarray(sg.i32, (4,))

    @sg.kernel
    def nested(last: Whole, times: Whole) -> None:
        for i in range(most[None], last[0]):
            v = x[i]
            for j in range(outer[i]):
                for _ in range(times[j]):
                    v = 0.75 * sg.sin(v) + 0.125
            y[i] = v

    at, rounds, within = np.linspace(-2, 2, n), np.arange(n) % 5, np.array([2, 0, 1, 3])
    x.from_numpy(at)
    outer.from_numpy(rounds.astype(np.int32))
    inner.from_numpy(within.astype(np.int32))
    most[None] = 3
    y.grad.fill(1.0)
    last = np.array([n - 2], np.int32)
    nested(last, inner)
    nested.grad(last, inner)
    runs_at_all = (np.arange(n) >= 3) & (np.arange(n) < n - 2)
    value, slope = at.copy(), np.ones(n)
    total = np.array([within[:k].sum() for k in range(5)])[rounds]
    for step in range(6):
        runs = step < total
        slope = np.where(runs, slope * 0.75 * np.cos(value), slope)
        value = np.where(runs, 0.75 * np.sin(value) + 0.125, value)
    recorded.near("y", np.where(runs_at_all, value, 0))
    recorded.near("x.grad", np.where(runs_at_all, slope, 0))


def test_bounds_that_change_between_launches(recorded: Recorded) -> None:
    """Stacks are sized for what the bounds are at each launch, not for what they were at the first."""
    x, y = fields(70, 70)
    trips = sg.field(sg.i32, shape=())

    @sg.kernel
    def powers() -> None:
        for i in x:
            v = x[i]
            for _ in range(trips[None]):
                v = v * x[i]
            y[i] = v

    at = np.linspace(0.5, 1.4, 70)
    x.from_numpy(at)
    for count in (2, 9, 1, 40):
        trips[None] = count
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        powers()
        powers.grad()
        recorded.near("x.grad", (count + 1) * at**count)


# ---- gradients of ndarrays ------------------------------------------------------------------------------------


def test_gradients_of_ndarrays_whatever_is_done_to_their_content(recorded: Recorded) -> None:
    """One array is only read, one only written, one read and written; none of their gradients is lost on the way."""
    n = 300
    source, both, target = (sg.ndarray(sg.f64, (n,), needs_grad=True) for _ in range(3))

    @sg.kernel
    def chain(a: Real, b: Real, c: Real) -> None:
        for i in range(n):
            b[i] += a[i] * a[i]
            c[i] = 5.0 * a[n - 1 - i]

    at = np.linspace(-1, 2, n)
    source.from_numpy(at)
    both.from_numpy(np.full(n, 7.0))
    left, right = np.linspace(1, 2, n), np.linspace(-3, 3, n)
    both.grad.from_numpy(left)
    target.grad.from_numpy(right)
    source.grad.from_numpy(np.full(n, 0.5))
    chain(source, both, target)
    chain.grad(source, both, target)
    recorded.near("b", 7 + at * at)
    recorded.near("a.grad", 0.5 + 2 * at * left + 5.0 * right[::-1])
    recorded.near("b.grad", left)
    assert not target.grad.to_numpy().any(), "what was stored over has no adjoint left"


# ---- overflows ------------------------------------------------------------------------------------------------

DEEP = """kernel deep(x: f64[1], n: i32[1]) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f64 capacity 2 of history
    adstack_alloca t: i32 capacity 9 of index
    %3: f64 = load x[%2]
    %4: i32 = load n[%2]
    %5: i32 = const 0
    for %6: i32 in %5 .. %4 { adstack_push t, %6 adstack_push s, %3 }
    for %7: i32 in %5 .. %4 { %8: f64 = adstack_load_top s %9: i32 = adstack_load_top t %10: f64 = cast %9
      %11: f64 = add %8, %10 store x[%2], %11  adstack_pop s adstack_pop t }
  }
}"""


def test_a_caught_overflow_is_followed_by_a_right_launch(recorded: Recorded) -> None:
    """Of the same kernel and of another one, three times over; the message says which stack."""
    deep = sg.kernel_from_text(DEEP)
    x, y = fields(100, 100)

    @sg.kernel
    def square() -> None:
        for i in x:
            y[i] = x[i] * x[i]

    for _ in range(3):
        with pytest.raises(sg.AdstackOverflow, match="adstack s, the history of history, overflowed: it holds 2 "):
            deep(x=np.ones(100), n=np.full(100, 3, np.int32))
            sg.sync()
        at = np.linspace(0, 1, 100)
        deep(x=at, n=np.arange(100, dtype=np.int32) % 3)
        sg.sync()
        np.testing.assert_array_equal(at, np.linspace(0, 1, 100))
        x.from_numpy(np.linspace(1, 2, 100))
        y.grad.fill(1.0)
        x.grad.fill(0.0)
        square()
        square.grad()
        recorded.near("x.grad", 2 * np.linspace(1, 2, 100))


UNCAUGHT = """
import sys
import numpy as np
import stackgrad as sg
sg.init(arch=sg.vulkan)
x = sg.field(sg.f64, shape=100)  # alive at exit, as the kernel and the device are
deep = sg.kernel_from_text(sys.argv[1])
x.fill(1.0)
deep(x=np.ones(100), n=np.full(100, 1, np.int32))
print("one is right", flush=True)
deep(x=np.ones(100), n=np.full(100, 3, np.int32))
sg.sync()
print("never")
"""


@pytest.mark.expensive
def test_a_process_exits_after_an_overflow_that_nobody_catches(recorded: Recorded) -> None:
    """With the message, status 1, and neither a hang nor a signal while the device is closed."""
    done = subprocess.run([sys.executable, "-c", UNCAUGHT, DEEP], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n") == ["one is right", ""]
    assert done.returncode == 1, f"status {done.returncode}: {done.stderr}"
    assert "AdstackOverflow" in done.stderr and "the history of history" in done.stderr
