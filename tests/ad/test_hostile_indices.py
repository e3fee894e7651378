"""Index arithmetic that misleads a comparison of elements: numbers that wrap, casts that do not keep a value."""
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

    refused(run, "'x'", "overwrite")


def test_a_cast_that_does_not_keep_a_negative_number():
    """u8(-1) is 255, the element of -1 + 256."""
    x, y = real(np.linspace(0.1, 1.0, 256)), real(0.0)

    @sg.kernel
    def run(v: sg.i8):
        for i in y:
            t = x[sg.cast(v, sg.u8)]
            x[sg.cast(v, sg.i32) + 256] = t * 0.5
            y[i] = t * t

    refused(run, "'x'", "overwrite")


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
