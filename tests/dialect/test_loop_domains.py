# ruff: noqa: B007, SIM113 - loops that only count; kernels have no `enumerate`
"""What loops run over beside ranges: 0-d fields, boxes in another order of axes, and names of objects in loops."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def filled(shape: tuple[int, ...], needs_grad: bool = False) -> sg.Field:
    """An f64 field of the numbers 1, 2, ..."""
    made = sg.field(sg.f64, shape, needs_grad=needs_grad)
    made.from_numpy(np.arange(1.0, np.prod(shape) + 1).reshape(shape))
    return made


# ---- 0-d fields and orders of axes ----------------------------------------------------------------------------------


def test_grouped_field_without_axes_runs_once() -> None:
    x, y = filled((), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for I in sg.grouped(x):
            y[I] += x[I] * x[I]

    @sg.kernel
    def inside():
        for i in range(3):
            for I in sg.grouped(x):
                y[I] += x[I] * x[I]

    x[None] = 3.0
    for kernel, times in ((k, 1), (inside, 3)):
        y[None], x.grad[None], y.grad[None] = 1.0, 0.0, 1.0
        kernel()
        kernel.grad()
        assert (y[None], x.grad[None]) == (1 + 9 * times, 6 * times)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_axes_give_the_order_of_nested_loops(axes) -> None:
    order = sg.field(sg.i32, (2, 3, 4))
    axes = tuple(axes)

    @sg.kernel
    def k():
        for _ in range(1):
            count = 0
            for i, j, l in sg.ndrange(2, (1, 3), 4, axes=sg.static(axes)):
                order[i, j, l] = count
                count += 1

    k()
    expected = np.zeros((2, 3, 4), int)
    sizes = ((0, 2), (1, 3), (0, 4))
    numbers = np.arange(16).reshape([sizes[a][1] - sizes[a][0] for a in axes])
    expected[:, 1:, :] = np.transpose(numbers, np.argsort(axes))
    np.testing.assert_array_equal(order.to_numpy(), expected)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_axes_outside_of_kernels_and_of_a_box_made_there(axes) -> None:
    def walk(out, box):
        for i, j in sg.static(box):
            out[0] = 10 * out[0] + i + 3 * j

    boxes = [sg.ndrange(2, (1, 3), axes=order) for order in (axes, axes[::-1])]
    expected = [[0], [0]]
    for found, box in zip(expected, boxes):
        walk(found, box)
    points = [(i, j) for i in range(2) for j in (1, 2)]
    ordered = sorted(points, key=lambda p: tuple(p[a] for a in axes))
    assert list(boxes[0]) == ordered and [tuple(I) for I in sg.grouped(boxes[0])] == ordered
    out, held = sg.field(sg.i32, 1), {"box": boxes[0]}

    @sg.kernel
    def k():
        out[0] = 0
        for _ in range(1):
            for i, j in held["box"]:
                out[0] = 10 * out[0] + i + 3 * j

    for held["box"], (found,) in zip(boxes, expected):
        k()
        assert out[0] == found
    assert expected[0] != expected[1]


def test_axes_outside_of_kernels_that_are_no_order() -> None:
    with pytest.raises(sg.KernelTypeError, match="is no order of 2 axes.*\n.*cure: write the numbers 0 to 1"):
        sg.ndrange(2, 3, axes=(0, 0))


def test_axes_of_a_parallel_loop_change_no_result() -> None:
    x, y = filled((3, 4), needs_grad=True), sg.field(sg.f64, (3, 4), needs_grad=True)

    @sg.kernel
    def k():
        for I in sg.grouped(sg.ndrange(3, 4, axes=(1, 0))):
            y[I] = x[I] * (I[0] + 10 * I[1])

    y.grad.fill(1)
    k()
    k.grad()
    weights = np.arange(3)[:, None] + 10.0 * np.arange(4)
    np.testing.assert_array_equal(y.to_numpy(), x.to_numpy() * weights)
    np.testing.assert_array_equal(x.grad.to_numpy(), weights)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("axes=(0, 0)", "is no order of 2 axes"),
        ("axes=(0, 1, 2)", "is no order of 2 axes"),
        ("axes=1", "is no order of 2 axes"),
        ("axes=(True, 0)", "is no order of 2 axes"),
        ("axis=(1, 0)", "`ndrange` has no keyword `axis`"),
    ],
)
def test_mistakes_in_orders_of_axes(text: str, reason: str) -> None:
    y = sg.field(sg.f64, (2, 3))
    space = {"sg": sg, "y": y}
    source = f"@sg.kernel\ndef k():\n    for i, j in sg.ndrange(2, 3, {text}):\n        y[i, j] = 1\n"
    import linecache

    linecache.cache["<axes>"] = (len(source), None, source.splitlines(keepends=True), "<axes>")
    exec(compile(source, "<axes>", "exec"), space)
    with pytest.raises(sg.StackgradError, match=reason):
        space["k"]()


# ---- names of objects -----------------------------------------------------------------------------------------------


@sg.data_oriented
class Part:
    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.x = filled((3,), needs_grad=True)


@sg.data_oriented
class Whole:
    def __init__(self) -> None:
        self.parts = (Part(2.0), Part(3.0))
        self.y = sg.field(sg.f64, 3, needs_grad=True)

    @sg.kernel
    def run(self):
        first = self.parts[0]
        for i in range(3):
            second = self.parts[1]
            self.y[i] = first.scale * first.x[i] + second.scale * second.x[i]


def test_local_names_of_objects() -> None:
    whole = Whole()
    whole.y.grad.fill(1)
    whole.run()
    whole.run.grad()
    assert whole.y.to_numpy().tolist() == [5, 10, 15]
    assert whole.parts[0].x.grad.to_numpy().tolist() == [2, 2, 2]
    whole.parts[1].scale = 10.0
    whole.run()
    assert whole.y.to_numpy().tolist() == [12, 24, 36], "what a kernel reads of an object is looked at again"
