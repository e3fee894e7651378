"""Help the tests of dependences and marks: assert refusals by hand and under a tape, and compare gradients."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
hostile = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hostile)
ints, judge, real = hostile.ints, hostile.judge, hostile.real
NUMBERS = (0.3, -0.7, 0.9, 0.4, -0.2, 0.8, 0.5, -0.6)
BACKENDS = ("reference", "cpu")


def start(backend):
    """Start the runtime in double precision."""
    sg.init(arch=getattr(sg, backend), default_fp=sg.f64)


def refused(kernel, *fragments, args=()):
    """Assert that the gradient is refused by hand and under a tape, and that no adjoint is written."""
    kernel.ir() if not args else None
    fields = [] if args else [f for f in kernel.cache().last.captured.values() if getattr(f, "needs_grad", False)]
    loss = sg.field(sg.f64, (), needs_grad=True)
    for field in fields:
        field.grad.fill(3.0)
    with pytest.raises(sg.NotDifferentiable) as by_hand:
        kernel.grad(*args)
    assert all((f.grad.to_numpy() == 3.0).all() for f in fields)
    with pytest.raises(sg.NotDifferentiable) as taped, sg.ad.Tape(loss):
        kernel(*args)
    for caught in (by_hand, taped):
        message = str(caught.value)
        assert "/tests/ad/test_" in message and "^" in message and "cure: " in message, message
        for fragment in fragments:
            assert fragment in message, message


def taped(kernel, x, y):
    """Return the gradient of sum(y * weights) with respect to x, by a tape and by central differences."""
    weights = np.linspace(1.0, 2.0, y.shape[0])
    start = x.to_numpy(), y.to_numpy()

    def run(content):
        x.from_numpy(content)
        if y is not x:
            y.from_numpy(start[1])
        kernel()
        return float(weights @ y.to_numpy())

    step, found = 1e-6, []
    for k in range(x.shape[0]):
        moved = [start[0].copy(), start[0].copy()]
        moved[0][k] += step
        moved[1][k] -= step
        found.append((run(moved[0]) - run(moved[1])) / (2 * step))
    x.from_numpy(start[0])
    if y is not x:
        y.from_numpy(start[1])
    out = real(*[0.0] * y.shape[0])

    @sg.kernel
    def collect():
        for i in y:
            out[i] = y[i]

    with sg.ad.Tape(out, seed=weights):
        kernel()
        collect()
    np.testing.assert_allclose(x.grad.to_numpy(), found, rtol=1e-6, atol=1e-8)
