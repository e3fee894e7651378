"""Test that a launch reports the adstack bytes that the backend holds: of rows in use, not of all iterations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Sizes
from stackgrad.backends.heap import PAGE
from stackgrad.backends.host.jit import host_target
from stackgrad.backends.llvm.masked.generate import LANES as MOST
from stackgrad.backends.llvm.masked.generate import WITHOUT_MASKS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import WIDTH, most_lanes

SIZE, TRIPS = 5000, 40
LANES = MOST if host_target().vector_masks else WITHOUT_MASKS


@pytest.fixture(params=["cpu", "reference"])
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch=request.param, default_fp=sg.f64, cpu_max_num_threads=1)
    yield request.param
    sg.reset()


def recurrence(size: int, gate: int) -> sg.Kernel:
    """Launch a gradient whose iterations below `gate` save TRIPS doubles each, and return the kernel."""
    x, y = (sg.field(sg.f64, size, needs_grad=True) for _ in range(2))
    trips = sg.field(sg.i32, ())
    trips[None] = TRIPS

    @sg.kernel
    def wave() -> None:
        for i in range(size):
            v = x[i]
            if i < gate:
                for _ in range(trips[None]):
                    v = sg.sin(v)
            y[i] = v

    wave()
    y.grad.fill(1)
    wave.grad()
    return wave


@pytest.mark.parametrize(("gate", "passing"), [(SIZE, SIZE), (7, 7), (0, 0)])
def test_bytes_are_those_of_rows_in_flight(arch: str, gate: int, passing: int) -> None:
    kernel = recurrence(SIZE, gate)
    (use,) = [u for u in sg.adstack_report().tasks if u.slab == "real"]
    rows = {"cpu": LANES if passing else 0, "reference": passing}[arch]
    assert (use.passing, use.rows, use.stride) == (passing, rows, 8 * TRIPS if passing else 0)
    assert use.bytes == kernel.stats().bytes["real"] == rows * 8 * TRIPS


def test_bytes_agree_with_what_the_backend_holds(arch: str) -> None:
    kernel = recurrence(SIZE, SIZE)
    need, peak = kernel.stats().bytes["real"], sg.adstack_report().slabs["real"]["peak"]
    assert need <= peak < need + PAGE


def test_tasks_share_a_slab(arch: str) -> None:
    """One runs after the other: the need is that of the larger one, on any backend."""
    x, y, z = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(3))
    trips = sg.field(sg.i32, 2)
    trips.from_numpy(np.array([9, 4], np.int32))

    @sg.kernel
    def two() -> None:
        for i in range(3):
            v = x[i]
            for _ in range(trips[0]):
                v = sg.sin(v)
            y[i] = v
        for i in range(3):
            w = x[i]
            for _ in range(trips[1]):
                w = sg.cos(w)
            z[i] = w

    two.grad()
    uses = [u.bytes for u in sg.adstack_report().tasks if u.slab == "real"]
    assert len(uses) == 2 and len(set(uses)) == 2
    assert two.stats().bytes["real"] == max(uses)
    assert sg.adstack_report().slabs["real"]["peak"] < max(uses) + PAGE


def test_the_report_says_how_many_iterations_share_the_rows() -> None:
    sg.init(arch=sg.cpu, cpu_max_num_threads=1)
    recurrence(SIZE, SIZE)
    assert f"rows {LANES} for {SIZE} iterations" in str(sg.adstack_report())
    sg.reset()


def test_lanes_of_the_reference() -> None:
    bounds = "  bounds {\n    %0: i32 = const 0\n    %1: i32 = arg n\n  } "
    parallel = parse_kernel(f"kernel k(n: i32) {{\n{bounds}parallel %2: i32 in %0 .. %1 {{\n  }}\n}}\n").tasks[0]
    assert most_lanes(parallel, Sizes()) == WIDTH
    serial = parse_kernel("kernel k() {\n  serial {\n  }\n}\n").tasks[0]
    assert most_lanes(serial, Sizes()) == 1
