"""Test gradients, under a tape, of kernels that overwrite elements which earlier tasks read, by central differences."""

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
NUMBERS, real = support.NUMBERS, support.real


@pytest.fixture(autouse=True, params=support.BACKENDS)
def machine(request):
    support.start(request.param)


def against_differences(run, *fields):
    """Assert that the gradient of a weighted sum of the final contents agrees with differences for each field."""
    start = [f.to_numpy() for f in fields]
    loss = sg.field(sg.f64, (), needs_grad=True)
    weights = [real(*np.cos(np.arange(8) + k), grad=False) for k in range(len(fields))]
    pairs = tuple(zip(weights, fields))

    @sg.kernel
    def collect():
        for i in range(8):
            for k in sg.static(range(len(pairs))):
                loss[None] += pairs[k][0][i] * pairs[k][1][i]

    def value(moved, element, step):
        loss.fill(0.0)
        for k, field in enumerate(fields):
            field.from_numpy(start[k] + step * (np.arange(8) == element) * (k == moved))
        run()
        collect()
        return loss[None]

    found = [[(value(k, e, 1e-6) - value(k, e, -1e-6)) / 2e-6 for e in range(8)] for k in range(len(fields))]
    value(0, 0, 0.0)
    loss.fill(0.0)
    for field, content in zip(fields, start):
        field.from_numpy(content)
    with sg.ad.Tape(loss):
        run()
        collect()
    for field, want in zip(fields, found):
        np.testing.assert_allclose(field.grad.to_numpy(), want, rtol=1e-6, atol=1e-8)


def test_copy_made_from_an_array_that_its_own_task_does_not_read():
    """Task 2 needs x as it was, which task 1 made from y: a copy of y is needed too, though task 2 reads none."""
    x, y = real(*NUMBERS), real(*NUMBERS[::-1])

    @sg.kernel
    def run():
        for i in range(8):
            x[i] = sg.sin(x[i]) * x[i] + y[i]
        for i in range(8):
            y[i] = x[i] * x[i]

    against_differences(run, x, y)


def test_copies_made_of_copies():
    """z from y, y from x, x from w, and all of them overwritten behind it."""
    w, x, y, z = (real(*NUMBERS[k:], *NUMBERS[:k]) for k in range(4))

    @sg.kernel
    def run():
        for i in range(8):
            x[i] = w[i] * x[i] + 0.1
        for i in range(8):
            y[i] = sg.sin(x[i]) * y[i]
        for i in range(8):
            x[i] = y[i] * x[i]
            w[i] = x[i] * w[i]
        for i in range(8):
            z[i] = z[i] * y[i] * x[i]
        for i in range(8):
            y[i] = z[i] * z[i]
            x[i] = z[i] * w[(i + 3) % 8]

    against_differences(run, w, x, y, z)
