"""Test deep branches on every backend: chains of `elif`, nested branches, early exits, with their gradients.

Drivers have tables of limited length for nested branches, and lavapipe ignores conditions beyond the end of its table.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing.executors import LaunchExecutor, plain_interpreter, present_backends, reference_executor

N = 24
BACKENDS = ("reference", "classic", "cpu", "cpu-masked", "vulkan", "cuda-emulated", "metal-emulated")


def chain(count: int) -> tuple[str, Callable[[float, int], tuple[float, float]]]:
    """Return the source of an iteration's body, a chain of `elif`, and a function for the expected y and slope."""
    lines = [f"{'elif' if j else 'if'} s == {j}:\n    w = v * {j + 1}.0" for j in range(count)]
    return "\n".join(
        [*lines, "else:\n    w = v * v"]
    ), lambda x, s: (x * (s + 1), float(s + 1)) if 0 <= s < count else (x * x, 2 * x)


def nest(count: int) -> tuple[str, Callable[[float, int], tuple[float, float]]]:
    """Return nested branches, each followed by a statement; see `chain`."""
    head = "\n".join(f"{' ' * j}if s >= {j}:\n{' ' * j} w += v * {j + 1}.0" for j in range(count))
    tail = "\n".join(f"{' ' * j} w += v" for j in reversed(range(count)))

    def expected(x: float, s: int) -> tuple[float, float]:
        passed = min(max(s + 1, 0), count)
        slope = passed * (passed + 1) / 2 + passed
        return x * slope, slope

    return f"{head}\n{tail}", expected


def exits(count: int) -> tuple[str, Callable[[float, int], tuple[float, float]]]:
    """Return a serial loop with early exits, each of which nests the statements after it; see `chain`."""
    lines = "\n".join(f"    if s == {j}:\n        continue\n    w += v" for j in range(count))

    def expected(x: float, s: int) -> tuple[float, float]:
        slope = 2.0 * (s if 0 <= s < count else count)
        return x * slope, slope

    return f"for r in range(2):\n{lines}", expected


SHAPES = {"elif": chain, "nest": nest, "exits": exits}
CASES = [
    ("elif", 25),
    ("elif", 26),
    ("elif", 100),
    ("elif", 300),
    ("nest", 20),
    ("nest", 47),
    ("nest", 48),
    ("nest", 49),
    ("nest", 70),
    ("nest", 90),
    ("exits", 40),
    ("exits", 100),
]


@cache
def made(shape: str, count: int) -> Kernel:
    """Return the traced kernel of a shape, such as `chain`."""
    body = SHAPES[shape](count)[0].replace("\n", "\n        ")
    lines = ["v = x[i]", "s = sel[i]", "w = 0.0", body, "y[i] = w"]
    text = "\n        ".join(["def k():\n    for i in x:", *lines, ""])
    file = f"<deep {shape} {count}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"sel": sg.field(sg.i32, N)}
    names |= {name: sg.field(sg.f32, N, needs_grad=True) for name in "xy"}
    exec(compile(text, file, "exec"), names)
    return sg.kernel(names["k"]).ir()


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[None]:
    sg.init(arch=sg.reference)
    yield
    sg.reset()


@cache
def executor(name: str) -> LaunchExecutor | str:
    """Return the executor with a name, or the reason why it cannot run here."""
    if name in ("reference", "classic"):
        return reference_executor() if name == "reference" else plain_interpreter()
    found, absent = present_backends([name])
    return found[0] if found else absent[name]


def selected(count: int) -> np.ndarray:
    """Return values that select branches: the first and last ones, none, and some in between."""
    some = [-1, 0, 1, 22, 23, 24, 25, 45, 46, 47, 48, 49, 50, 77, 78, 79, 80, count - 2, count - 1, count, count + 1]
    return np.resize(np.array(some, np.int32), N)


@pytest.mark.rotating
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("shape", "count"), CASES)
def test_values_and_gradients(shape: str, count: int, backend: str) -> None:
    found = executor(backend)
    if isinstance(found, str):
        pytest.skip(found)
    kernel, expected = made(shape, count), SHAPES[shape](count)[1]
    x, sel = (1 + np.arange(N) % 4 / 4).astype(np.float32), selected(count)  # of few bits: all results are exact
    before = {"x": x, "sel": sel, "y": np.zeros(N, np.float32)}
    after = found.forward(kernel, before, {}, Draws())
    wanted = np.array([expected(float(v), int(s)) for v, s in zip(x, sel)], np.float32)
    np.testing.assert_array_equal(after["y"], wanted[:, 0])
    seeds = {"x": np.zeros(N, np.float32), "y": np.ones(N, np.float32)}
    slopes = found.gradient(kernel, before, after, {}, Draws(), seeds)["x"]
    np.testing.assert_array_equal(slopes, wanted[:, 1])
