"""Test which values carry a derivative, and which operations end one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, judge, real, refused = support.ints, support.judge, support.real, support.refused


@pytest.fixture(autouse=True)
def machine():
    support.setup()


def test_a_field_without_gradient_ends_the_derivative():
    """t has none, so what goes through it counts as constant; so do sums and extremes made in it."""
    x, y, t, m = real(0.5, 0.6), real(0.0, 0.0), real(0.1, 0.2, grad=False), real(0.3, grad=False)

    @sg.kernel
    def run():
        for i in x:
            t[i] = x[i] * x[i]
            t[i] += x[i]
        for i in x:
            sg.atomic_max(m[0], x[i] * t[i])
        for i in x:
            y[i] = t[i] * x[i] + m[0] * x[i]

    judge(run)


def test_own_elements_without_gradient_end_the_derivative():
    """Stored and read back in one iteration, t[i] is a constant all the same; integers may be kept in locals."""
    x, y, t, k = real(0.5, 0.6), real(0.0, 0.0), real(0.1, 0.2, grad=False), ints(0, 0)

    @sg.kernel
    def run():
        for i in x:
            t[i] = x[i] * 2.0
            if t[i] > 1.1:
                y[i] = x[i] * t[i]
            else:
                y[i] = sg.sin(x[i]) + t[i]
            k[i] = 1
            for _ in range(3):
                k[i] += k[i]
                y[i] += x[i] * k[i]

    judge(run)


def test_history_of_an_element_without_gradient_is_refused():
    """t[i] is overwritten in every round, and each of its contents is a factor."""
    x, y, t = real(0.5, 0.6), real(0.0, 0.0), real(0.1, 0.2, grad=False)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(3):
                t[i] = v * 2.0
                v = v * t[i]
            y[i] = v

    refused(run, "value of t[0] read here in iteration 0", "overwrites later (line ")
