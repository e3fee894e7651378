"""Test index arithmetic that misleads a comparison of elements: integers that overflow, casts that change a value."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
judge, real, refused = support.judge, support.real, support.refused


@pytest.fixture(autouse=True)
def machine():
    support.setup()


def test_narrow_unsigned_sums_wrap():
    """x[v + 200] and x[v - 56] are one element in u8, though 256 apart as whole numbers."""
    x, y = real(np.linspace(0.1, 1.0, 256)), real(0.0)

    @sg.kernel
    def run(v: sg.u8):
        for i in y:
            t = x[v + sg.cast(200, sg.u8)]
            x[v - sg.cast(56, sg.u8)] = t * 0.5
            y[i] = t * t

    for v in (0, 56, 255):
        with pytest.raises(sg.NotDifferentiable, match=rf"x\[{(v + 200) % 256}\] .*overwrites"):
            run.grad(v)


def test_a_cast_that_does_not_keep_a_negative_number():
    """u8(-1) is 255, the element of -1 + 256."""
    x, y = real(np.linspace(0.1, 1.0, 256)), real(0.0)

    @sg.kernel
    def run(v: sg.i8):
        for i in y:
            t = x[sg.cast(v, sg.u8)]
            x[sg.cast(v, sg.i32) + 256] = t * 0.5
            y[i] = t * t

    with pytest.raises(sg.NotDifferentiable, match=r"x\[254\] .*overwrites"):
        run.grad(-2)


def test_a_cast_that_keeps_the_number():
    """x[v + 3] and x[v + 4] differ, in 32 and in 64 bits."""
    x, y = real(np.linspace(0.1, 1.0, 16)), real(0.0)

    @sg.kernel
    def run(v: sg.i32):
        for i in y:
            t = x[sg.cast(v, sg.i64) + 3]
            x[v + 4] = t * 0.5
            y[i] = t * t

    judge(run, 7)


def test_factors_that_vanish_in_32_bits():
    """i · 2^16 · 2^16 is 0 for every i: all iterations add to one element."""
    x, y = real(1.0, 2.0, 3.0, 4.0), real(0.0, 0.0, 0.0, 0.0)

    @sg.kernel
    def run():
        for i in x:
            j = i * 65536
            y[j * 65536 + 3] += x[i] * x[i]

    judge(run)


def test_blocks_whose_size_is_an_argument():
    """x[0:m], x[m:2m], x[2m:3m]: i + m and i + 2m are beyond every i < m, as m > 0 where the loop runs."""
    x = real(np.linspace(0.2, 0.9, 9))

    @sg.kernel
    def run(m: sg.i32):
        for i in range(m):
            x[i + m] = x[i] * x[i]
        for i in range(m):
            x[i + 2 * m] = x[i + m] * x[i]

    judge(run, 3)


def test_blocks_that_overlap_by_one():
    """x[m - 1] is read and written."""
    x = real(np.linspace(0.2, 0.9, 9))

    @sg.kernel
    def ascending(m: sg.i32):
        for i in range(m):
            x[i + m - 1] = x[i] * x[i]

    @sg.kernel
    def descending(m: sg.i32):
        for _ in range(1):
            for j in range(m, 0, -1):
                x[m + j - 1] = x[j] * x[j]

    with pytest.raises(sg.NotDifferentiable, match=r"iteration 4 .* reads x\[4\], which iteration 0 writes"):
        ascending.grad(5)
    with pytest.raises(sg.NotDifferentiable, match=r"value of x\[4\] .*overwrites"):
        descending.grad(4)


def test_triangular_ranges():
    """Indices below i, which is below m, and a row that begins at m."""
    x, y = real(np.linspace(0.2, 0.9, 9)), real([0.0] * 4)

    @sg.kernel
    def run(m: sg.i32):
        for i in range(m):
            for j in range(i):
                for k in range(j, i, 2):
                    y[i] += x[j] * x[k]
            x[m + i] = y[i]

    judge(run, 4)


def test_last_element_by_shape():
    """The last element is none of those before it."""
    x, y = real(np.linspace(0.2, 0.9, 5)), real([0.5] * 5)

    @sg.kernel
    def run():
        for i in range(x.shape[0] - 1):
            y[x.shape[0] - 1] += x[i] * x[i]
            y[i] = x[i] * 3.0
        for i in range(x.shape[0] - 1):
            x[x.shape[0] - 1] += y[i] * x[i]

    judge(run)


@pytest.mark.parametrize("t", [0, 1, -1])
def test_double_buffers(t):
    """Row t % 2 is read, the other one written, however the other one is spelled."""
    rng = np.random.default_rng(0)
    s, u = (real(rng.uniform(0.3, 0.9, (2, 6))) for _ in range(2))

    @sg.kernel
    def run(t: sg.i32):
        for i in range(1, 5):
            s[(t + 1) % 2, i] = sg.sin(s[t % 2, i + 1]) * s[t % 2, i - 1]
        for i in range(1, 5):
            u[1 - t % 2, i] = sg.sin(u[t & 1, i + 1]) * u[t % 2, i - 1]

    judge(run, t)


def test_buffers_that_may_be_one():
    """(t + 3) % 3 is t % 3."""
    s = real(np.random.default_rng(0).uniform(0.3, 0.9, (3, 6)))

    @sg.kernel
    def run(t: sg.i32):
        for i in range(1, 5):
            s[(t + 3) % 3, i] = sg.sin(s[t % 3, i + 1]) * s[t % 3, i - 1]

    refused(run, "'s'")


def test_long_chains_of_index_arithmetic():
    """A sum of 600 loaded numbers: longer than the interpreter's stack is deep; also under a tape."""
    x, y, c = real(0.3, 0.4, 0.5), real([0.0] * 3), support.ints(1, 0, 2)
    loss = sg.field(sg.f64, shape=(), needs_grad=True)

    @sg.kernel
    def run():
        for i in x:
            k = 0
            for j in sg.static(range(600)):
                k = k + c[j % 3]
            y[k - k + i] = x[i] * 2.0
            loss[None] += x[k % 3] * x[i]

    with sg.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), [1.5, 0.3, 0.3], rtol=1e-14)
