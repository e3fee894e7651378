"""The indices of `ndrange` are locals of the loop's body, which may assign them; those of other loops are fixed."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.errors import KernelSyntaxError

pytestmark = pytest.mark.usefixtures("arch")


def numbers(*shape: int) -> sg.Field:
    """Return an f64 field with a gradient that holds 1, 2, ... in row-major order."""
    made = sg.field(sg.f64, shape, needs_grad=True)
    made.from_numpy(np.arange(1.0, np.prod(shape) + 1).reshape(shape))
    return made


def gradient(kernel, loss: sg.Field, x: sg.Field) -> list[float]:
    """Return the loss and the gradient of a kernel by its only parameter."""
    with sg.ad.Tape(loss):
        kernel()
    return [loss[None], *x.grad.to_numpy().ravel()]


def test_an_index_that_is_cast_to_its_own_type() -> None:
    inputs, rows, n = numbers(3, 2), sg.Vector.field(2, sg.f64, shape=(4, 2), needs_grad=True), sg.field(sg.i32, ())
    n[None] = 4

    @sg.kernel
    def k():
        for b in sg.ndrange(2):
            b = sg.cast(b, sg.i32)
            for r in range(n[None]):
                if r == 0:
                    rows[r, b] = sg.Vector([inputs[0, b], inputs[1, b] * inputs[2, b]])
                elif r == 1:
                    rows[r, b] = sg.Vector([inputs[1, b], inputs[1, b]])
                else:
                    rows[r, b] = sg.Vector([1.0, 2.0])

    k()
    rows.grad.fill(1.0)
    k.grad()
    a = inputs.to_numpy()
    np.testing.assert_array_equal(inputs.grad.to_numpy(), [[1, 1], a[2] + 2, a[1]])


def test_an_index_that_some_iterations_change() -> None:
    x, loss = numbers(5), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def parallel():
        for i in sg.ndrange(5):
            if x[i] > 2.5:
                i //= 2
            loss[None] += x[i] ** 2

    @sg.kernel
    def serial():
        for _ in range(1):
            for i, j in sg.ndrange(5, 2):
                if x[i] > 2.5:
                    i = i // 2
                j += i
                if j == i:
                    loss[None] += x[j] ** 2

    visited = np.bincount([0, 1, 1, 1, 2], minlength=5)
    a = x.to_numpy()
    for kernel in (parallel, serial):
        assert gradient(kernel, loss, x) == [visited @ a**2, *(2 * visited * a)]


def test_iterations_that_meet_at_one_element() -> None:
    x, y = numbers(4), sg.field(sg.f64, 4, needs_grad=True)

    @sg.kernel
    def k():
        for i in sg.ndrange(4):
            taken = x[i] * x[i]
            i = i % 2
            y[i] += taken

    k()
    y.grad.from_numpy(np.array([1.0, 10.0, 100.0, 1000.0]))
    k.grad()
    assert y.to_numpy().tolist() == [1 + 9, 4 + 16, 0, 0]
    assert x.grad.to_numpy().tolist() == [2, 40, 6, 80]


def test_vectors_of_indices_and_a_box_made_outside() -> None:
    x, loss, box = numbers(3, 2), sg.field(sg.f64, (), needs_grad=True), sg.ndrange(2, 2)

    @sg.kernel
    def grouped():
        for I in sg.grouped(sg.ndrange(2, 2)):
            I[0] += 1
            loss[None] += 3.0 * x[I]

    @sg.kernel
    def outside():
        for i, j in box:
            i, j = i + 1, 1 - j
            loss[None] += 3.0 * x[i, j]

    for kernel in (grouped, outside):
        assert gradient(kernel, loss, x) == [3 * (3 + 4 + 5 + 6), 0, 0, 3, 3, 3, 3]


def test_the_type_of_the_index_stays() -> None:
    y = sg.field(sg.f64, 4)

    @sg.kernel
    def k():
        for i in sg.ndrange(4):
            at = i
            i = i * 0.5
            y[at] = i

    with pytest.warns(sg.KernelWarning, match="its fraction is lost"):
        k()
    assert y.to_numpy().tolist() == [0, 0, 1, 1]


def test_other_indices_are_fixed() -> None:
    x = numbers(3)

    @sg.kernel
    def of_a_range():
        for i in range(3):
            i = 0
            x[i] = 1.0

    @sg.kernel
    def of_a_field():
        for i in x:
            i += 1

    @sg.kernel
    def unrolled():
        for i in sg.static(sg.ndrange(3)):
            i += 1

    for kernel in (of_a_range, of_a_field, unrolled):
        with pytest.raises(KernelSyntaxError, match="cannot be assigned"):
            kernel()
