# ruff: noqa: SIM108, PLR1730 - forms that programs of the dialect use
"""Outermost loops that carry a local along, from iteration to iteration."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.filterwarnings("ignore:.*its iterations run one after another")


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


def field(values, **options):
    made = sg.field(sg.f64, len(values), **options)
    made.from_numpy(np.array(values, np.float64))
    return made


def test_flags_and_last_values() -> None:
    x = field([1.0, 5.0, 2.0])

    @sg.kernel
    def k() -> sg.types.vector(3, sg.f64):
        found, last, best = 0, 0.0, -1
        for i in x:
            if x[i] < 2.0:
                continue
            found = 1
            last = x[i]
            if best < 0:
                best = i
        return sg.Vector([float(found), last, float(best)])

    assert k().to_numpy().tolist() == [1.0, 2.0, 1.0]


def test_entries_of_a_vector_in_a_loop_over_a_box() -> None:
    y = sg.field(sg.f64, 3)

    @sg.kernel
    def k(n: sg.i32):
        v = sg.Vector([0.0, 1.0, 2.0])
        for i, j in sg.ndrange(n, (1, 3)):
            if i == j:
                continue
            for _ in range(2):
                v[i] = v[i] * 2.0 + j
        for i in y:
            y[i] = v[i]

    k(3)
    v = [0.0, 1.0, 2.0]
    for i in range(3):
        for j in range(1, 3):
            if i != j:
                v[i] = (v[i] * 2 + j) * 2 + j
    assert y.to_numpy().tolist() == v


def test_the_gradient_of_a_recurrence() -> None:
    x, loss = field([0.3, 0.7, 1.1], needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        a = 1.0
        for i in range(3):
            a = sg.sin(a) * x[i]
        loss[None] = a * a

    with sg.ad.Tape(loss):
        k()

    def value(x):
        a = 1.0
        for v in x:
            a = np.sin(a) * v
        return a * a

    numbers, step = np.array([0.3, 0.7, 1.1]), 1e-6
    expected = [(value(numbers + step * e) - value(numbers - step * e)) / (2 * step) for e in np.eye(3)]
    assert loss[None] == pytest.approx(value(numbers)) and np.allclose(x.grad.to_numpy(), expected, rtol=1e-8)


def test_a_running_sum_that_is_read_is_no_reduction() -> None:
    x, y = field([1.0, 2.0, 3.0]), sg.field(sg.f64, 3)

    @sg.kernel
    def k():
        total = 0.0
        for i in x:
            total += x[i]
            y[i] = total

    with pytest.warns(sg.KernelWarning, match="the loop stores to `total`, which is declared outside it"):
        k()
    assert y.to_numpy().tolist() == [1, 3, 6]
