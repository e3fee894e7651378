"""What launches cost, as `stats()` tells: bounds that the host can resolve cost no counting kernel and no wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import gradient, gradients, memory_of, near
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan import host_code as h
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.queue import Queue

COUNT = 100


@pytest.fixture
def queue(vulkan: VulkanBackend) -> Iterator[Queue]:
    """Of the device that the runtime launches on."""
    sg.init(arch=sg.vulkan)
    yield vulkan.opened.queue
    sg.reset()


@sg.kernel
def constant(x: sg.types.ndarray(), y: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(5):
            v = sg.sin(v)
        y[i] = v


@sg.kernel
def given(x: sg.types.ndarray(), y: sg.types.ndarray(), steps: sg.i32) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(steps):
            v = sg.sin(v)
        y[i] = v


@sg.kernel
def by_extent(x: sg.types.ndarray(), y: sg.types.ndarray(), n: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(n.shape[0]):
            v = sg.sin(v)
        y[i] = v


@sg.kernel
def by_element(x: sg.types.ndarray(), y: sg.types.ndarray(), n: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(n[2]):
            v = sg.sin(v)
        y[i] = v


@sg.kernel
def by_iteration(x: sg.types.ndarray(), y: sg.types.ndarray(), n: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(n[i % 5]):
            v = sg.sin(v)
        y[i] = v


def slopes(x: np.ndarray, steps: int) -> np.ndarray:
    """What the first of some launches of the gradient gives: it takes the adjoint of y."""
    slope = np.ones_like(x)
    for _ in range(steps):
        slope, x = slope * np.cos(x), np.sin(x)
    return slope


def cost(kernel: Any) -> tuple[int, int, int]:
    found = kernel.stats()
    return found.countings, found.waits, found.readbacks


def arrays() -> tuple[Any, Any]:
    x, y = (sg.ndarray(sg.f64, (COUNT,), needs_grad=True) for _ in range(2))
    x.from_numpy(np.linspace(-1, 1, COUNT))
    y.grad.fill(1.0)
    return x, y


def sized(*content: int) -> Any:
    made = sg.ndarray(sg.i32, (len(content),))
    made.from_numpy(np.array(content, np.int32))
    return made


@pytest.mark.parametrize(
    ("kernel", "more"), [(constant, lambda: ()), (given, lambda: (5,)), (by_extent, lambda: (sized(0, 0, 0, 0, 0),))]
)
def test_bounds_that_no_memory_decides(queue: Queue, kernel: Any, more: Callable[[], tuple[Any, ...]]) -> None:
    """No counting, no wait, not even at the first launch; and the host waits for none of the launches."""
    x, y = arrays()
    rest = more()
    before = memory_of(x=x, y=y)
    sg.sync()
    waits = queue.counters.waits
    for _ in range(6):
        kernel.grad(x, y, *rest)
    assert cost(kernel) == (0, 0, 0) and kernel.stats().grad_launches == 6
    assert queue.counters.waits == waits and queue.is_pending
    known = gradient(kernel.ir(), before | {"n": np.zeros(5, np.int32)}, {"steps": 5})
    near(known, "x.grad", x.grad.to_numpy(), slopes(x.to_numpy(), 5))


def test_a_bound_in_an_element_is_looked_at_when_it_has_changed(queue: Queue) -> None:
    """Without a kernel. The host waits only where launches that may write are in flight."""
    x, y = arrays()
    n = sized(0, 0, 5)
    before = memory_of(x=x, y=y, n=n)
    sg.sync()
    for _ in range(6):
        by_element.grad(x, y, n)
    assert cost(by_element) == (0, 0, 0) and by_element.stats().evaluations == 1
    n[2] = 7
    y.grad.fill(1.0)
    waits = queue.counters.waits
    for _ in range(6):
        by_element.grad(x, y, n)
    assert cost(by_element) == (0, 0, 0) and by_element.stats().evaluations == 2
    assert queue.counters.waits == waits
    known = gradients(by_element.ir(), before, [{}, {"y.grad": np.ones(COUNT), "n": n.to_numpy()}])
    near(known, "x.grad", x.grad.to_numpy(), slopes(x.to_numpy(), 5) + slopes(x.to_numpy(), 7))


def test_bounds_that_differ_by_iteration_are_counted_once(queue: Queue) -> None:
    x, y = arrays()
    n = sized(1, 4, 2, 0, 3)
    for _ in range(6):
        by_iteration.grad(x, y, n)
    countings, waits, _ = cost(by_iteration)
    assert countings == 1 and waits <= 2
    sg.sync()
    waits = queue.counters.waits
    for _ in range(6):
        by_iteration.grad(x, y, n)
    assert cost(by_iteration)[0] == 1 and queue.counters.waits == waits


def test_no_shader_computes_bounds_that_the_host_computes(vulkan: VulkanBackend) -> None:
    """A launch of one loop is one dispatch."""
    from stackgrad.backends.base import Options
    from stackgrad.compiler.ir.parser import parse_kernel

    text = """kernel k(x: f32[1], n: i32[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = {} }} parallel %2: i32 in %0 .. %1 {{
        %3: f32 = load x[%2] store x[%2], %3 }} }}"""
    for bound, debug, names in (
        ("shape x, 0", False, ["task_0"]),
        ("load n[%0]", False, ["bounds_0", "task_0"]),
        ("shape x, 0", True, ["bounds_0", "task_0"]),
    ):
        kernel = parse_kernel(text.format(bound))
        entries = generate(kernel, Options(debug=debug), vulkan.features).entries
        assert [name for name, _ in h.needed_entries(kernel, entries, Options(debug=debug))] == names
