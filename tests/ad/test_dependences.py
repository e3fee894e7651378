"""Test kernels in which iterations a known distance apart touch one element: a gradient that would be wrong is refused.

Gradients of accepted kernels are compared with dual numbers on the kernel as written, which share no code with the
derivative rules.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("dependence_support", Path(__file__).with_name("dependence_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
judge, real, refused, taped = support.judge, support.real, support.refused, support.taped
NUMBERS = support.NUMBERS


@pytest.fixture(autouse=True, params=support.BACKENDS)
def machine(request):
    support.start(request.param)


def test_a_value_that_no_gradient_needs():
    """x[i] = 0.5 x[i - 1]: linear, so that nothing is read; the order decides all the same."""
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for i in range(1, 8):
            x[i] = 0.5 * x[i - 1]

    refused(run, "i - 1", "not independent")


def test_through_a_local_and_a_function():
    x = real(*NUMBERS)

    @sg.func
    def before(k):
        return k - 2

    @sg.kernel
    def run():
        for i in range(2, 8):
            k = before(i)
            t = x[k]
            x[i] = t * t

    refused(run, "i - 2")


def test_strides():
    """x[2 i] from x[2 i + 2]: one iteration apart; from x[2 i + 1], red and black, never."""
    x = real(*NUMBERS)

    @sg.kernel
    def near():
        for i in range(3):
            x[2 * i] = x[2 * i + 2] * 0.5

    @sg.kernel
    def red_black():
        for i in range(4):
            x[2 * i] = x[2 * i + 1] * x[2 * i + 1]

    @sg.kernel
    def two_strides():
        for i in range(2):
            x[2 * i] = x[4 * i + 1] * x[4 * i + 1]

    refused(near, "i + 1")
    judge(red_black)
    judge(two_strides)


def test_several_axes():
    x = real(np.linspace(0.2, 0.9, 16).reshape(4, 4))

    @sg.kernel
    def run():
        for i, j in sg.ndrange(3, (1, 4)):
            x[i, j] = x[i + 1, j - 1] * 0.25

    refused(run, "i + (1, -1)")


def test_struct_for():
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for i in x:
            if i > 2:
                x[i] = sg.sin(x[i - 3])

    refused(run, "i - 3")


def test_ndarrays():
    x = sg.ndarray(sg.f64, 8, needs_grad=True)
    x.from_numpy(np.array(NUMBERS))

    @sg.kernel
    def run(a: sg.types.ndarray(dtype=sg.f64, ndim=1)):
        for i in range(1, 8):
            a[i] = 0.5 * a[i - 1]

    refused(run, "i - 1", args=(x,))


def test_a_convolution_in_place_has_its_distance():
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for i in range(6):
            x[i] = 0.25 * x[i] + 0.5 * x[i + 1] + 0.25 * x[i + 2]

    refused(run, "i + 1", "i + 2")


def test_a_convolution_in_a_loop_is_found_by_marks():
    x, y, w = real(*NUMBERS), real(*[0.0] * 8), real(0.2, 0.3, 0.5)

    @sg.kernel
    def in_place():
        for i in range(6):
            for k in range(3):
                x[i] += w[k] * x[i + k]

    @sg.kernel
    def apart():
        for i in range(6):
            for k in range(3):
                y[i] += w[k] * x[i + k]

    refused(in_place, "which iteration", "not independent")
    judge(apart)


def test_an_atomic_and_a_load():
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for i in range(7):
            sg.atomic_add(x[i + 1], x[i] * 0.5)

    refused(run, "i - 1")


def test_two_stores_and_a_store_with_an_atomic():
    x, y, z = real(*NUMBERS), real(*[0.0] * 8), real(*[0.0] * 8)

    @sg.kernel
    def stores():
        for i in range(7):
            y[i] = x[i]
            y[i + 1] = x[i] * 2.0

    @sg.kernel
    def mixed():
        for i in range(7):
            z[i] = 0.0
            z[i + 1] += x[i]

    refused(stores, "writes the element of 'y'", "i - 1")
    refused(mixed, "writes the element of 'z'", "i - 1")


def test_in_a_serial_loop_it_is_differentiated():
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for _ in range(1):
            for i in range(1, 8):
                x[i] = sg.sin(x[i]) * x[i - 1]

    taped(run, x, x)
