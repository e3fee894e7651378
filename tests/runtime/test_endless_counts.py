"""Gradients of loops that are longer than any memory: refused with numbers, soon, whatever finds how long they are."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue.trip_counts import by_iteration
from recorded_support import leaves
from stackgrad import DeviceError
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.host_memory import memory_of_machine
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.sizing.counting_kernel import count_within
from stackgrad.harness.testing.emulated_cuda.backend import emulated_cuda

MANY = 10**11
"""Steps of a loop."""

WHILE = """
kernel run(x: f64[1] grad, y: f64[1] grad, n: {kind}) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    local v: f64 %3: f64 = load x[%2] set v, %3
    local k: {kind} %4: {kind} = arg n
    while {{ %10: {kind} = get k %11: u1 = cmp_lt %10, %4 }} test %11 {{
      %12: f64 = get v %13: f64 = sin %12 set v, %13
      %14: {kind} = get k %15: {kind} = const 1 %16: {kind} = add %14, %15 set k, %16
    }}
    %70: f64 = get v store y[%2], %70
  }}
}}"""


@pytest.fixture(params=["reference", "cpu", "vulkan"])
def arch(request: pytest.FixtureRequest) -> str:
    """An executor, started."""
    if request.param == "vulkan" and not registry.probe_all()["vulkan"].available:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    return request.param


def test_a_bound_that_is_an_argument(arch: str) -> None:
    x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
    x.fill(0.5)

    @sg.kernel
    def k(n: sg.i64):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = v * v
            y[i] = v

    y.grad.fill(1.0)
    with pytest.raises(DeviceError, match=f"one iteration need {8 * MANY} bytes, and .*; nothing was run") as got:
        k.grad(MANY)
    assert f"{MANY} slots of 8 bytes" in str(got.value) and "for _ in range(n):" in str(got.value)
    k.grad(2)
    assert x.grad.to_numpy().tolist() == [0.5] * 3
    stats = k.stats()
    assert stats.countings == 0


@pytest.mark.parametrize("arch", ["reference", "cpu"], indirect=True)
def test_a_bound_that_is_an_element(arch: str) -> None:
    x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
    n = sg.field(sg.i64, 3)
    n[1] = MANY

    k = by_iteration(x, y, n)

    with pytest.raises(DeviceError, match=f"{8 * MANY} bytes"):
        k.grad()
    assert k.stats().countings == 0


@pytest.mark.rotating
@pytest.mark.parametrize("kind", ["i64", "i32"])
@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_a_while_is_counted_up_to_what_memory_holds(kind: str, limit: int) -> None:
    """By a heap of a limit, and by the memory of this machine."""
    backend = registry.get("cpu")
    launcher = Launcher(prepare_reverse(parse_kernel(WHILE.format(kind=kind))), backend, Options())
    arrays = {name: np.full(5, 0.5) for name in ("x", "y", "x.grad", "y.grad")}
    before = backend.heap.limit
    backend.heap.limit = limit or None
    try:
        room = limit or memory_of_machine()[0]
        many = MANY if kind == "i64" else min(2**31 - 1, room // 4)
        if 8 * many <= room:
            return
        ends = many > 2**28  # a shorter one is counted to its end
        said = r"(?s)need \d+ bytes %s.*the history of v" % ("or more" if ends else "of real slots")
        with pytest.raises(DeviceError, match=said):
            launcher.run(arrays, {"n": many})
        (use,) = launcher.usage()
        assert use.stacks[0].capacity == (room // 8 + 1 if ends else many)
        launcher.run(arrays, {"n": 3})
        (use,) = launcher.usage()
        assert use.stacks[0].capacity == 3
    finally:
        backend.heap.limit = before


@pytest.mark.parametrize("name", ["reference", "cpu", "vulkan", "cuda-emulated"])
def test_a_count_that_ends_leaves_nothing_behind(name: str) -> None:
    """The room of a counting kernel is given by hand: iterations that go beyond it end there, the others count all."""
    if name == "vulkan" and not registry.probe_all()["vulkan"].available:
        pytest.skip("no Vulkan device")
    backend = emulated_cuda() if name == "cuda-emulated" else registry.get(name)
    lowered = prepare_reverse(parse_kernel(WHILE.format(kind="i64")))
    assert lowered.counting is not None
    counting = count_within(lowered.kernel, lowered.counting)
    executable = backend.compile(counting, Options())
    for steps, room, depth in ((9, 72, 9), (9, 71, 9), (9, 70, 9), (90, 80, 11), (0, 0, 0)):
        depths, rows, totals = np.zeros(1, np.int64), np.zeros(3, np.int64), np.zeros(1, np.int64)
        arrays = {
            "$depths": depths,
            "$rows": rows,
            "$totals": totals,
            "$room": np.array([room]),
            **{key: np.full(1, 0.5) for key in ("x", "y", "x.grad", "y.grad")},
        }
        arrays = {key: array for key, array in arrays.items() if key in counting.array_types()}
        executable.run(arrays, {"n": steps}, Sizes(), Draws())
        assert depths.tolist() == [depth]


def shrunk(value: float) -> tuple[float, float]:
    """The value that halving sines leave below 0.2, and its slope."""
    slope = 1.0
    while value > 0.2:
        slope *= 0.5 * np.cos(value)
        value = 0.5 * np.sin(value)
    return value, slope


@pytest.mark.rotating
@pytest.mark.parametrize("ends", [0, 1])
def test_a_kernel_that_returns_early(arch: str, ends: int) -> None:
    """What ends a count is a return; it has nothing to do with the kernel's own, which ran in the tasks before."""
    x, y, loss = (sg.field(sg.f64, shape, needs_grad=True) for shape in (3, 3, ()))
    start, flag = sg.field(sg.f64, (), needs_grad=True), sg.field(sg.i32, ())
    x.from_numpy(np.array([0.1, 0.5, 1.4]))
    start[None], flag[None] = 1.3, ends

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            while v > 0.2:
                v = 0.5 * sg.sin(v)
            y[i] = v
        w = start[None]
        while w > 0.2:
            w = 0.5 * sg.sin(w)
        loss[None] += w
        if flag[None] > 0:
            return
        for i in y:
            loss[None] += y[i] * 3.0

    y.grad.fill(1.0)
    loss.grad.fill(1.0)
    k()
    exact = [shrunk(value)[1] * (1.0 if ends else 4.0) for value in (0.1, 0.5, 1.4)]
    leaves(k.grad, {"x.grad": exact, "start.grad": shrunk(1.3)[1]})
