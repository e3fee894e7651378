"""Test tasks over boxes that access elements at their own indices: if shapes match, iteration numbers are addresses."""

from __future__ import annotations

import re

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.own_index import own_arrays
from stackgrad.backends.cuda.ptx import ir_text
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel


def kernel(body: str) -> Kernel:
    head = "%0: i32 = shape x, 0 %1: i32 = shape x, 1 %2: i32 = const 0"
    text = f"parallel %4: i32, %5: i32 in %2 .. %0, %2 .. %1 {{ %6: f32 = load x[%4, %5] {body} }}"
    return parse_kernel(f"kernel k(x: f32[2], y: f32[2], n: i32[2]) {{ bounds {{ {head} }} {text} }}")


@pytest.mark.parametrize(
    ("body", "arrays"),
    [
        ("store y[%4, %5], %6", {"x", "y"}),
        ("%7: f32 = atomic add y[%4, %5], %6", {"x", "y"}),
        ("%7: i32 = const 1 store y[%7, %7], %6", {"x"}),
        ("store y[%5, %4], %6", set()),
        ("%7: i32 = add %4, %5 store y[%4, %7], %6", set()),
        ("store n[%4, %5], %4", set()),
        ("store y[%4, %4], %6", set()),
        ("for %7: i32 in %2 .. %0 { store y[%4, %5], %6 }", set()),
    ],
)
def test_which_arrays(body: str, arrays: set[str]) -> None:
    assert own_arrays(kernel(body).tasks[0]) == arrays


def test_nothing_is_divided_where_shapes_fit() -> None:
    """But where an error names an index; that of the first axis is all that is compared."""
    text = ir_text(kernel("store y[%4, %5], %6"), options=Options(bounds=False))
    parts = re.split(r"^(linear|other)\.\d+:", text, flags=re.M)
    assert parts[1] == "linear" and parts[3] == "other"
    assert not re.search(r"\b[us](div|rem)\b", parts[2]) and "udiv" in parts[4]
    assert "linear" not in ir_text(kernel("store y[%4, %5], %6"), options=Options(debug=True))


@pytest.mark.parametrize("widths", [(5, 5), (5, 7), (7, 5)])
def test_results(widths: tuple[int, int]) -> None:
    """Whether the other array is as wide as the box, wider, or so narrow that the box is smaller than the first."""
    width, other = widths
    inside = min(width, other)
    values = np.arange(40 * width, dtype=np.float32).reshape(8, 5, width)
    with runtime():
        x, y = sg.field(sg.f32, (8, 5, width), needs_grad=True), sg.field(sg.f32, (8, 5, other), needs_grad=True)
        loss = sg.field(sg.f32, (), needs_grad=True)
        x.from_numpy(values)

        @sg.kernel
        def whole():
            for i, j, k in sg.ndrange(8, 5, inside):
                y[i, j, k] = x[i, j, k] * 2.0
                loss[None] += x[i, j, k]

        @sg.kernel
        def part():
            for i, j, k in sg.ndrange((1, 8), 5, inside):
                y[i, j, k] += x[i, j, k]

        whole()
        part()
        wanted = np.zeros((8, 5, other), np.float32)
        wanted[..., :inside] = 2.0 * values[..., :inside]
        wanted[1:, :, :inside] += values[1:, :, :inside]
        assert np.array_equal(y.to_numpy(), wanted)
        assert loss[None] == values[..., :inside].sum()  # of small whole numbers
        y.grad.fill(1.0)
        loss.grad[None] = 0.5
        whole.grad()
        wanted = np.zeros((8, 5, width), np.float32)
        wanted[..., :inside] = 2.5
        assert np.array_equal(x.grad.to_numpy(), wanted)
