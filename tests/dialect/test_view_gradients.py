"""Gradients through views: into the adjoint of the array, in both modes, by hand and under tapes, against closed forms
and against every oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")

REALS = pytest.mark.parametrize("dtype", [sg.f32, sg.f64], ids=str)


def array_of(content: Any, dtype: Any = sg.f64) -> Any:
    """An ndarray with a gradient."""
    made = sg.ndarray(dtype, len(content), needs_grad=True)
    made.from_numpy(np.asarray(content, dtype.dtype))
    return made


@sg.kernel
def products(a: sg.BufferView, b: sg.BufferView, y: sg.types.ndarray()):
    """y[i] += a[i]² b[i]"""
    for i in range(a.size):
        y[i] += a[i] * a[i] * b[i]


def closed(x: np.ndarray, y_grad: np.ndarray, a: int, b: int, n: int) -> np.ndarray:
    """Its gradient where both views are of x."""
    found = np.zeros_like(x)
    found[a : a + n] += 2 * x[a : a + n] * x[b : b + n] * y_grad[:n]
    found[b : b + n] += x[a : a + n] ** 2 * y_grad[:n]
    return found


@REALS
@pytest.mark.parametrize("n", [0, 1, 2, 3, 500])
def test_gradient_against_the_closed_form(dtype: Any, n: int) -> None:
    """Views of one array that are apart, that overlap, that are the same; one compilation serves them all."""
    rng = np.random.default_rng(n)
    content, seed = rng.normal(size=2 * n + 3), rng.normal(size=n + 1)
    before = len(products.programs)
    for first, second in ((0, n + 2), (n + 2, 1), (1, 2), (2, 2)):
        x, y = array_of(content, dtype), array_of(np.zeros(n + 1), dtype)
        y.grad.from_numpy(seed.astype(dtype.dtype))
        products(x[first : first + n], sg.BufferView(x, second, n), y)
        products.grad(x[first : first + n], sg.BufferView(x, second, n), y)
        expected = closed(content.astype(dtype.dtype), seed.astype(dtype.dtype), first, second, n)
        np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-5 if dtype is sg.f32 else 1e-13, atol=1e-6)
    assert len(products.programs) - before == 1


def test_two_launches_in_a_row_with_other_offsets() -> None:
    """Each gradient lands in its own part, also when the call is a remembered one."""
    content = np.arange(1.0, 9.0)
    x, y = array_of(content), array_of(np.zeros(2))
    expected = np.zeros(8)
    for first, second in ((0, 2), (4, 6), (4, 1), (0, 2)):
        y.grad.fill(1.0)
        products.grad(x[first : first + 2], x[second : second + 2], y)
        expected += closed(content, np.ones(2), first, second, 2)
        np.testing.assert_allclose(x.grad.to_numpy(), expected)


def test_a_view_of_an_array_without_gradient_is_a_constant() -> None:
    x, c, y = array_of([2.0, 3.0]), sg.ndarray(sg.f64, 4), array_of([0.0, 0.0])
    c.from_numpy(np.arange(4.0))

    @sg.kernel
    def k(v: sg.BufferView, w: sg.BufferView):
        for i in v:
            y[i] += v[i] * w[i]

    y.grad.fill(1.0)
    k.grad(x[0:2], c[2:4])
    assert x.grad.to_numpy().tolist() == [2, 3]
    memory = np.array([5.0, 7.0])
    y.grad.fill(1.0)
    k.grad(x[0:2], sg.BufferView(memory, 0, 2))
    assert x.grad.to_numpy().tolist() == [7, 10] and memory.tolist() == [5, 7]


@sg.func
def prefix(v: sg.BufferView, n):
    """Π sin(v[j]) of the first n elements."""
    made = 1.0
    for j in range(n):
        made *= sg.sin(v[j])
    return made


@sg.kernel
def pyramid(x: sg.BufferView, y: sg.BufferView, n: sg.i32):
    for i in range(y.size):
        part = x[i : i + n]
        y[i] = prefix(part, part.size) * part.subview(n - 1, 1)[0] + x[0]


def test_through_functions_and_views_made_in_loops() -> None:
    content = np.linspace(0.3, 1.4, 8)
    x, y = array_of(content), array_of(np.zeros(5))
    seed = np.array([1.0, -2.0, 0.5])
    y[1:4].grad.arr.from_numpy(np.array([9.0, *seed, 9.0]))
    pyramid(x[1:], y[1:4], 4)
    pyramid.grad(x[1:], y[1:4], 4)
    expected = np.zeros(8)
    for i, bar in enumerate(seed):
        part = content[1 + i : 5 + i]
        value = np.prod(np.sin(part))
        expected[1 + i : 5 + i] += bar * value * part[-1] / np.tan(part)
        expected[4 + i] += bar * value
        expected[1] += bar
        np.testing.assert_allclose(y.to_numpy()[1 + i], value * part[-1] + content[1], rtol=1e-14)
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-13)
    assert y.grad.to_numpy().tolist() == [9, 0, 0, 0, 9], "the adjoint of what is overwritten is consumed, no more"


def test_forward_mode() -> None:
    content, direction = np.arange(1.0, 7.0), np.array([1.0, 0.5, -1.0, 2.0, 0.0, 3.0])
    x, y = array_of(content), array_of(np.zeros(2))
    with sg.ad.FwdMode(y, x, direction):
        products(x[1:3], x[3:5], y)
    a, b, da, db = content[1:3], content[3:5], direction[1:3], direction[3:5]
    np.testing.assert_allclose(y.dual.to_numpy(), 2 * a * b * da + a * a * db)


def test_second_derivatives() -> None:
    content, v = np.arange(1.0, 7.0), np.array([1.0, 0.5, -1.0, 2.0, 0.0, 3.0])
    x, y, loss = array_of(content), array_of(np.zeros(3)), array_of([0.0])

    def run() -> None:
        y.fill(0.0)
        products(x[0:3], x[2:5], y)
        total(y[:], loss)

    found = sg.ad.hvp(loss, x, run, v)
    hessian = np.zeros((6, 6))
    for a, b in ((0, 2), (1, 3), (2, 4)):
        hessian[a, a] += 2 * content[b]
        hessian[a, b] += 2 * content[a]
        hessian[b, a] += 2 * content[a]
    np.testing.assert_allclose(found, hessian @ v, rtol=1e-13)


def test_in_debug_mode(arch: str) -> None:
    """Views are compared in a launch and in its gradient, which neither changes."""
    gradients = []
    for debug in (True, False):
        sg.init(arch=arch, default_fp=sg.f64, debug=debug)
        x, y = array_of(np.linspace(0.3, 1.4, 8)), array_of(np.zeros(5))
        y.grad.fill(1.0)
        pyramid(x[1:], y[1:4], 4)
        pyramid.grad(x[1:], y[1:4], 4)
        gradients.append(x.grad.to_numpy())
    assert gradients[0][1:7].all()
    np.testing.assert_allclose(*gradients, rtol=1e-14)
    sg.init(arch=arch, default_fp=sg.f64, debug=True)
    x, y = array_of(np.linspace(0.3, 1.4, 8)), array_of(np.zeros(5))
    for launch in (pyramid, pyramid.grad):
        with pytest.raises(sg.OutOfBounds, match="the view `.*` is not inside `x`: it begins at 2"):
            launch(x[1:], y[1:4], 6)


def test_whether_views_overlap_is_looked_at_before_the_gradient() -> None:
    """Two views of one array that are apart have their gradient by hand; two that meet are refused, nothing written."""
    x = array_of([1.0, 2.0, 3.0, 4.0])
    x.grad.fill(1.0)
    advance.grad(x[0:2], x[2:4])
    assert x.grad.to_numpy().tolist() == [4, 7, 0, 0]
    told = r"(?s)reads .*\[1\], which iteration .* writes.*cure: make the loop serial"
    with pytest.raises(sg.NotDifferentiable, match=told):
        advance.grad(x[0:3], x[1:4])
    assert x.grad.to_numpy().tolist() == [4, 7, 0, 0]
    x, y = array_of([1.0, 2.0, 3.0]), array_of(np.ones(3))
    y.grad.fill(1.0)
    advance.grad(x[1:], y[:2])
    assert x.grad.to_numpy().tolist() == [0, 6, 9] and y.grad.to_numpy().tolist() == [0, 0, 1]


@sg.kernel
def advance(now: sg.BufferView, later: sg.BufferView):
    for i in now:
        later[i] = 1.5 * now[i] ** 2


@sg.kernel
def total(v: sg.BufferView, loss: sg.types.ndarray()):
    for i in v:
        loss[0] += v[i]


@pytest.mark.parametrize("n", [1, 3, 200])
def test_a_tape_over_rows_of_one_buffer(n: int) -> None:
    """Row t + 1 from row t, all in one buffer. Boxes are exact: of each launch the row it reads alone is kept."""
    steps, start = 4, np.linspace(0.5, 1.1, n)
    x, loss = array_of(np.concatenate([start, np.zeros(n * steps)])), array_of([0.0])
    for _ in range(2):
        with sg.ad.Tape(loss) as tape:
            for t in range(steps):
                advance(x[t * n : (t + 1) * n], x[(t + 1) * n : (t + 2) * n])
            total(x[steps * n :], loss)
        row, slope = start, np.ones(n)
        for _ in range(steps):
            row, slope = 1.5 * row**2, slope * 3 * row
        np.testing.assert_allclose(loss[0], row.sum(), rtol=1e-13)
        np.testing.assert_allclose(x.grad.to_numpy()[:n], slope, rtol=1e-13)
        assert tape.used_bytes <= 8 * n * steps


def test_a_tape_keeps_the_part_that_is_written_and_read_alone() -> None:
    x, y, loss = array_of([2.0, 3.0, 4.0, 5.0]), array_of(np.zeros(4)), array_of([0.0])

    @sg.kernel
    def scale(v: sg.BufferView, by: sg.f64):
        for i in v:
            v[i] *= by

    @sg.kernel
    def square(v: sg.BufferView, w: sg.BufferView):
        for i in v:
            w[i] = v[i] ** 2

    with sg.ad.Tape(loss) as tape:
        square(x[1:3], y[1:3])
        scale(x[0:1], 10.0)  # not what a gradient reads
        assert tape.used_bytes == 0
        scale(x[2:4], 10.0)  # one element of two that a gradient reads
        square(x[2:3], y[0:1])
        total(y[:], loss)
    assert tape.used_bytes <= 2 * 8
    np.testing.assert_allclose(x.grad.to_numpy(), [0, 6, 8 + 2 * 40 * 10, 0])
    assert x.to_numpy().tolist() == [20, 3, 40, 50]


@pytest.mark.expensive
@REALS
def test_every_oracle_agrees(gradcheck: Any, dtype: Any) -> None:
    """Both lowerings, every backend, JAX, dual numbers and the Taylor remainder, over the source kernel of views."""
    rng = np.random.default_rng(3)
    x, y = array_of(rng.uniform(0.2, 1.2, 9), dtype), array_of(np.zeros(6), dtype)
    assert gradcheck(pyramid, x[1:], y[1:5], 3)
    assert gradcheck(products, x[2:6], x[4:8], y)


def test_every_executor_agrees_on_integers(differential: Any) -> None:
    x = sg.ndarray(sg.i32, 8)
    x.from_numpy(np.arange(8, dtype=np.int32))

    @sg.kernel
    def k(v: sg.BufferView[sg.i32], w: sg.BufferView[sg.i32], n: sg.i32):
        for i in v:
            part = v[i:]
            for j in part:
                w[0] += part[j] * n
            sg.atomic_xor(w[w.size - 1], v[i])

    assert differential(k, x[2:6], x[6:8], 3)
