"""What carries a derivative and what ends one."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
judge, real = support.judge, support.real


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


def test_a_field_without_gradient_between_branches_and_loops():
    """The value in the field is still needed, as a factor."""
    x, y, t = real(0.5, 0.6), real(0.0, 0.0), real(0.1, 0.2, grad=False)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            t[i] = 0.5
            for _ in range(3):
                t[i] = v * 2.0
                if t[i] > 1.1:
                    v = v * t[i]
                else:
                    v = sg.sin(v) + t[i]
            y[i] = v * t[i]

    judge(run)
