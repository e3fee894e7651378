"""Positions within local vectors and views that are outside: an error on every executor, forward, backward, tangent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import Lowering, prepare_forward, prepare_reverse, prepare_tangent
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.walk import renumber, walk_kernel
from stackgrad.harness.testing.executors import backend_by_name, present_backends
from stackgrad.harness.testing.outcome import Arrays

SIZE = 70
EXECUTORS = ("reference", "cpu", "cpu-masked", "vulkan", "cuda-emulated", "metal-emulated")


def short(x: Any, y: Any, at: Any) -> sg.Kernel:
    """A vector of few entries is scalars, of which selects choose."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            v = sg.Vector([x[i], 2.0, x[i] * x[i]])
            v[at[i] + shift] += x[i]
            y[i] = v[0] + v[1] * v[2]

    return k


def matrix(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Another entry lies where the column is outside."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            m = sg.Matrix([[x[i], 2.0, 3.0], [4.0, x[i] * x[i], 6.0]])
            y[i] = m[0, at[i] + shift] * x[i]

    return k


def long(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Many entries are an array of the IR."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            v = sg.Vector([x[i] * j for j in range(12)])
            v[at[i] + 9 + shift] = 3.0 * x[i]
            y[i] = v[at[i] + 9 + shift] * v[1]

    return k


def in_a_loop(x: Any, y: Any, at: Any) -> sg.Kernel:
    """The last trip leads outside."""

    @sg.kernel
    def k(more: int):
        for i in y:
            v, s = sg.Vector([x[i], x[i] * x[i], 1.0]), 0.0
            for j in range(3 + more):
                s += v[j] * x[i]
            y[i] = s

    return k


def of_a_table(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Numbers known when the kernel is traced."""
    table = [1.0, 2.0, 4.0]

    @sg.kernel
    def k(shift: int):
        for i in y:
            y[i] = x[i] * table[at[i] + shift]

    return k


def of_a_view(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Inside the array in any case."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            v = sg.BufferView(x, 2, 3)
            y[i] = v[at[i] + shift] * v[0]

    return k


def of_a_moving_view(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Its size differs between iterations."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            v = sg.BufferView(x, at[i], at[i] + 1)
            y[i] = v[at[i] + shift - 2] * v[0]

    return k


def stored_through(x: Any, y: Any, at: Any) -> sg.Kernel:
    @sg.kernel
    def k(shift: int):
        for i in range(8):
            v = sg.BufferView(y, 4, 16)
            v[i * 2 + 14 * (shift - 2)] = x[i] * x[i]

    return k


def part_of_a_view(x: Any, y: Any, at: Any) -> sg.Kernel:
    """The part has the element, its view does not have the part."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            v = sg.BufferView(x, 2, 6)
            y[i] = v.subview(at[i] + shift, 2)[1] * x[i]

    return k


ENTRIES, VIEW = "which has 3 entries", "is outside the view `v`, which has"
KERNELS: dict[str, tuple[Callable[..., sg.Kernel], int, dict[int, str]]] = {
    "short": (short, 0, {1: f"index 3 is outside `v`, {ENTRIES}", -3: "index -[123] is outside `v`"}),
    "matrix": (matrix, 0, {1: f"index 3 is outside axis 1 of `m`, {ENTRIES}", -3: "index -[123] is outside axis 1 of"}),
    "long": (long, 0, {1: "index 12 is outside `v`, which has 12 entries", -12: "index -[123] is outside `v`"}),
    "in_a_loop": (in_a_loop, 0, {1: f"index 3 is outside `v`, {ENTRIES}"}),
    "of_a_table": (of_a_table, 0, {1: f"index 3 is outside `table`, {ENTRIES}", -1: "index -1 is outside `table`"}),
    "of_a_view": (of_a_view, 0, {1: f"index 3 {VIEW} 3 elements", -1: f"index -1 {VIEW} 3 elements"}),
    "of_a_moving_view": (of_a_moving_view, 2, {3: rf"index ([123]) {VIEW} \1 elements"}),
    "stored_through": (stored_through, 2, {3: f"index (16|18|2.) {VIEW} 16 elements"}),
    "part_of_a_view": (
        part_of_a_view,
        0,
        {
            4: "the view `.*` is not inside `v`: it begins at [56],",
            -3: "the view `.*` is not inside `v`: it begins at -[123],",
        },
    ),
}
"""Kernels, each with an argument that is right, and with others and what they lead to."""


def with_tangents(kernel: Kernel) -> Lowering:
    return prepare_tangent(kernel, [p.name for p in kernel.params if getattr(p.type, "grad", False)])


DIRECTIONS: dict[str, Callable[[Kernel], Lowering]] = {
    "forward": prepare_forward,
    "gradient": prepare_reverse,
    "tangent": with_tangents,
}


def traced(name: str) -> Kernel:
    sg.init(arch=sg.reference, default_fp=sg.f32)
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
    return KERNELS[name][0](x, y, sg.field(sg.i32, SIZE)).ir()


def memory(kernel: Kernel) -> Arrays:
    """Arrays of every name that a kernel may have: indices from 0 to 2, and numbers around 1."""
    found: Arrays = {}
    for p in kernel.params:
        if isinstance(p.type, sg.compiler.ir.types.ArrayType):
            whole = np.arange(SIZE) % 3
            found[p.name] = (whole if p.type.dtype.is_int else 0.5 + whole / 4).astype(p.type.dtype.dtype)
    return found


def launcher(executor: str, lowered: Lowering, **options: Any) -> Launcher:
    missing = present_backends([executor])[1] if executor != "reference" else {}
    if missing:
        pytest.skip(missing[executor])
    return Launcher(lowered, backend_by_name(executor), Options(precise=True, **options))


@pytest.mark.rotating
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_is_an_error_everywhere(executor: str, name: str, direction: str) -> None:
    """The same in release builds of all backends, and the next launch is right."""
    _, right, wrong = KERNELS[name]
    lowered = DIRECTIONS[direction](traced(name))
    launch = launcher(executor, lowered)
    shift = next(p.name for p in lowered.kernel.params if not hasattr(p.type, "ndim"))
    expected = memory(lowered.kernel)
    launcher("reference", lowered).run(expected, {shift: right}, Draws())
    for _ in range(2):
        found = memory(lowered.kernel)
        launch.run(found, {shift: right}, Draws())
        for array, content in expected.items():
            np.testing.assert_array_equal(found[array], content)  # all numbers are sums of few powers of two
        for argument, words in wrong.items():
            with pytest.raises(sg.OutOfBounds, match=rf"test_positions\.py:\d+:\d+: {words}"):
                launch.run(memory(lowered.kernel), {shift: argument}, Draws())


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_as_they_are_without_checks(name: str) -> None:
    """To the last bit, and without comparisons nothing is left of them."""
    right, checked = KERNELS[name][1], traced(name)
    sg.init(arch=sg.reference, default_fp=sg.f32, bounds="off")
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
    bare = KERNELS[name][0](x, y, sg.field(sg.i32, SIZE)).ir()
    assert not any(isinstance(s, n.Within) for s in walk_kernel(bare))
    found = []
    for kernel in (checked, bare):
        lowered = prepare_reverse(kernel)
        shift = next(p.name for p in kernel.params if not hasattr(p.type, "ndim"))
        arrays = memory(lowered.kernel)
        launcher("cpu", lowered, deterministic=True).run(arrays, {shift: right}, Draws())
        found.append(arrays)
    for array in found[0]:
        np.testing.assert_array_equal(found[0][array], found[1][array])


def proved(**options: Any) -> Kernel:
    sg.init(arch=sg.reference, default_fp=sg.f32, **options)
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k(q: int):
        for i in y:
            v, s = sg.Vector([x[i], x[i] * x[i], 1.0]), 0.0
            for j in range(3):
                s += v[j] * v[2 - j]
            if q >= 0 and q < 3:
                s += v[q]
            part = sg.BufferView(x, 2, 4)
            for j in range(part.size):
                s += part[j] * part[(j + 1) % 4]
            y[i] = s + v[i % 3]

    return k.ir()


@pytest.mark.parametrize("prepare", [prepare_forward, prepare_reverse])
def test_what_is_proved_costs_nothing(prepare: Callable[[Kernel], Lowering]) -> None:
    """Loops, branches and constants prove: the kernel is the one without checks, but for names made of numbers."""
    checked, bare = (prepare(proved(bounds=bounds)).kernel for bounds in ("checked", "off"))
    texts = [re.sub(r"(t0[.][a-z.]+)\d+", r"\1", print_kernel(renumber(kernel))) for kernel in (checked, bare)]
    assert any(isinstance(s, n.Within) for s in walk_kernel(proved()))
    assert texts[0] == texts[1]
