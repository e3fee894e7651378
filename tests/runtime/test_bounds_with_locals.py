"""Bounds of a parallel loop that declare locals of their own: a function with a loop, a choice between two numbers.

Whatever repeats bounds gives the copy locals of its own, since a local is declared once in a kernel: marks, records of
what atomics returned, copies of earlier tasks. `debug=True` verifies each kernel that the compiler makes. Numbers have
so few bits that no operation rounds, so gradients are equal to the closed form.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from returned_support import MACHINES, SIZES, field, integers, start, weigher

pytestmark = pytest.mark.parametrize("machine", MACHINES)


def short(count: int, seed: int = 0) -> np.ndarray:
    """Different numbers of at most seven bits."""
    return (np.random.default_rng(seed).permutation(count) + 1.0) / 64


@sg.func
def counted(n: sg.i32) -> sg.i32:
    """n, counted: a local in a loop."""
    found = 0
    for _ in range(n):
        found += 1
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
def test_marks(machine: str, fp: sg.DType, count: int, first: int) -> None:
    start(machine, fp, debug=True)
    data, weights = short(count), short(count, 1)
    x, w, p, loss = field(data, fp), field(weights, fp, False), integers(np.arange(count)[::-1]), field(0.0, fp)

    @sg.kernel
    def run(begin: sg.i32) -> None:
        for i in range(counted(begin) if p.shape[0] > 1 else begin, p.shape[0]):
            x[p[i]] = 3 * x[p[i]] * x[p[i]]

    with sg.ad.Tape(loss):
        run(first)
        weigher(x, w, loss)()
    passed = np.arange(count)[::-1] >= first
    np.testing.assert_array_equal(x.grad.to_numpy(), np.where(passed, 6 * data * weights, weights))


@pytest.mark.rotating
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
def test_what_two_atomics_of_a_loop_returned(machine: str, fp: sg.DType, count: int) -> None:
    """Both are recorded, so the bounds of one loop are counted for either."""
    start(machine, fp, debug=True)
    data, room = short(count), 2 * count + 1
    x, y, z, loss = field(data, fp), field(np.zeros(room), fp), field(np.zeros(room), fp), field(0.0, fp)
    up, down = integers(0), integers(room - 1)
    w = field(short(room, 1), fp, False)
    origin = [integers(np.full(room, -1)) for _ in range(2)]
    to_y, to_z = origin

    @sg.kernel
    def run(begin: sg.i32) -> None:
        for i in range(counted(begin), x.shape[0] if y.shape[0] else begin):
            k = sg.atomic_add(up[None], 1)
            y[k] = x[i] * x[i]
            to_y[k] = i
            m = sg.atomic_sub(down[None], 1)
            z[m] = 3 * x[i] * x[i]
            to_z[m] = i

    with sg.ad.Tape(loss):
        run(0)
        weigher(y, w, loss)()
        weigher(z, w, loss)()
    expected = np.zeros(count)
    for of, factor in zip(origin, (2, 6)):
        for k, i in enumerate(of.to_numpy()):
            if i >= 0:
                expected[i] += factor * data[i] * float(w[k])
    np.testing.assert_array_equal(x.grad.to_numpy(), expected)


@pytest.mark.parametrize("count", SIZES)
def test_earlier_tasks_that_are_made_again(machine: str, count: int) -> None:
    start(machine, sg.f64, debug=True)
    data, weights = short(count), short(count, 1)
    x, y, w, loss = field(data), field(np.zeros(count)), field(weights, None, False), field(0.0)

    @sg.kernel
    def run(begin: sg.i32) -> None:
        for i in range(counted(begin), x.shape[0]):
            y[i] = x[i] * x[i]
        for i in range(counted(begin), x.shape[0]):
            y[i] = y[i] * y[i]

    with sg.ad.Tape(loss):
        run(0)
        weigher(y, w, loss)()
    np.testing.assert_array_equal(x.grad.to_numpy(), 4 * data**3 * weights)
