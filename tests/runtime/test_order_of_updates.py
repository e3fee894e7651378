"""Gradients under a tape where iterations of a parallel loop exchange values: what atomics return carries a gradient,
what they leave depends on the order, or extremes are overwritten later. The loop is serial then, or an array apart
keeps the final value; closed forms are those of the order that the forward result shows.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from returned_support import MACHINES, SIZES, close, field, integers, start, values, weigher

pytestmark = pytest.mark.parametrize("machine", MACHINES)


class Running:
    """old = atomic_add(total, x[i]); y[i] = old * x[i]"""

    def __init__(self, count: int, fp=sg.f64, first: float = 0.75) -> None:
        self.data, self.first, self.weights = values(count), first, np.arange(1.0, count + 1)
        self.x, self.y = field(self.data, fp), field(np.full(count, 5.0), fp)
        self.total, self.loss = field(first, fp), field(0.0, fp)
        x, y, total, loss = self.x, self.y, self.total, self.loss

        @sg.kernel
        def run():
            for i in x:
                old = sg.atomic_add(total[None], x[i])
                y[i] = old * x[i]

        @sg.kernel
        def add_total():
            for _ in range(1):
                loss[None] += 3.0 * total[None]

        self.run, self.add_total = run, add_total
        self.weigh = weigher(y, field(self.weights, fp, grad=False), loss)

    def pulled_back(self, old: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Of x and of the total before; old: what each iteration got. total: the adjoint of the total after."""
        got = self.weights * self.data
        before = np.subtract.outer(old, old) > 0  # [i, k]: k ran before i
        return self.weights * old + before.T @ got + total, got.sum() + total

    def old(self) -> np.ndarray:
        return self.y.to_numpy().astype(np.float64) / self.data


@pytest.mark.rotating
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
@pytest.mark.parametrize("count", SIZES)
def test_an_old_value_with_a_gradient(machine, count, fp):
    start(machine, fp)
    r = Running(count, fp)
    with sg.ad.Tape(r.loss):
        r.run()
        r.weigh()
        r.add_total()
    x, total = r.pulled_back(r.old(), 3.0)
    close(r.x, x, fp)
    close(r.total, total, fp)
    close(r.y, np.zeros(count), fp)


def test_two_launches_that_go_on_from_each_other(machine):
    start(machine)
    r = Running(9)
    with sg.ad.Tape(r.loss):
        r.run()
        first = r.old()
        r.weigh()
        r.run()
        r.weigh()
        r.add_total()
    later, total = r.pulled_back(r.old(), 3.0)
    earlier, total = r.pulled_back(first, total)
    close(r.x, earlier + later)
    close(r.total, total)


def test_without_a_tape_the_loop_stays_parallel_and_by_hand_it_is_refused(machine):
    start(machine)
    r = Running(9)
    r.run()
    with pytest.raises(sg.NotDifferentiable, match=r"depends on the order of iterations[\s\S]*under sg\.ad\.Tape"):
        r.run.grad()


def test_random_numbers_in_a_loop_that_would_be_serial_are_refused(machine):
    start(machine)
    x, y, total, loss = field(values(4)), field(np.zeros(4)), field(0.0), field(0.0)

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.atomic_add(total[None], x[i]) * sg.random()

    refused = pytest.raises(sg.NotDifferentiable, match="serially, where its random numbers would be others")
    with refused as caught, sg.ad.Tape(loss):
        run()
    assert "test_order_of_updates.py" in str(caught.value)
    assert not y.to_numpy().any()


@pytest.mark.parametrize("count", SIZES)
def test_the_last_of_an_exchange_takes_the_adjoint(machine, count):
    start(machine)
    data = values(count)
    x, total, loss = field(data), field(0.75), field(0.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_exchange(total[None], x[i] * x[i])
        for _ in range(1):
            loss[None] += 3.0 * total[None]

    with sg.ad.Tape(loss):
        run()
    last = np.abs(data**2 - total[None]) < 1e-12
    close(x, np.where(last, 6.0 * data, 0.0))
    close(total, 0.0 if count else 3.0)


def test_a_chain_of_exchanges(machine):
    """Each iteration hands its value to the next one; what the field holds at the end came last."""
    start(machine)
    count, data, first = 8, values(8), 0.3
    x, y, total, loss = field(data), field(np.zeros(8)), field(first), field(0.0)
    weights = np.arange(1.0, 9.0)

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.atomic_exchange(total[None], x[i] * x[i]) * x[i]

    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        run()
        weigh()
    got = y.to_numpy() / data
    expected = weights * got
    for i in range(count):
        giver = np.flatnonzero(np.abs(data**2 - got[i]) < 1e-9)
        expected[giver] += 2 * data[giver] * weights[i] * data[i]
    close(x, expected)
    close(total, (weights * data)[np.abs(got - first).argmin()])


def test_a_product_whose_old_value_is_used(machine):
    start(machine)
    data, weights = values(5), np.arange(1.0, 6.0)
    x, y, total, loss = field(data), field(np.zeros(5)), field(1.5), field(0.0)

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.atomic_mul(total[None], x[i])

    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        run()
        weigh()
    old = y.to_numpy()
    order = _order_of_products(old, data, 1.5)
    expected = np.zeros(5)
    for k, i in enumerate(order):
        expected[i] = sum(weights[j] * old[j] / data[i] for j in order[k + 1 :])
    close(x, expected)
    close(total, (weights * old).sum() / 1.5)


def _order_of_products(old: np.ndarray, data: np.ndarray, product: float) -> list[int]:
    """Who ran when: each found the product of those before."""
    left, found = set(range(len(data))), []
    while left:
        at = min(left, key=lambda i: abs(old[i] - product))
        assert abs(old[at] - product) < 1e-12
        found.append(at)
        left.remove(at)
        product *= data[at]
    return found


def test_compare_and_swap_between_iterations(machine):
    """The first to find 0 puts its value there."""
    start(machine)
    data = values(6)
    x, claimed, loss = field(data), field(np.zeros(3)), field(0.0)
    cell = integers([0, 2, 0, 2, 2, 0])

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_cas(claimed[cell[i]], 0.0, x[i] * x[i])

    weigh = weigher(claimed, field(np.array([2.0, 3.0, 5.0]), grad=False), loss)
    with sg.ad.Tape(loss):
        run()
        weigh()
    expected = np.zeros(6)
    for c, factor in ((0, 2.0), (2, 5.0)):
        won = np.abs(data**2 - claimed.to_numpy()[c]).argmin()
        expected[won] = factor * 2 * data[won]
    close(x, expected)
    close(claimed, np.array([0.0, 3.0, 0.0]))


@pytest.mark.rotating
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("initial", [0.1, 9.0])
def test_a_maximum_that_a_later_loop_overwrites(machine, count, fp, initial):
    start(machine, fp)
    data = values(count)
    x, y, total, loss = field(data, fp), field(np.zeros(1), fp), field(initial, fp), field(0.0, fp)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(total[None], x[i] * x[i])
        for _ in range(1):
            y[0] = total[None] * 2.0
            total[None] = 0.0

    weigh = weigher(y, field(np.full(1, 3.0), fp, grad=False), loss)
    with sg.ad.Tape(loss):
        run()
        weigh()
    won = (data == data.max(initial=0.0)) & (data**2 > initial)
    close(x, np.where(won, 12.0 * data, 0.0), fp)
    close(total, 0.0 if won.any() else 6.0, fp)


def test_extremes_of_cells_taken_in_turn(machine):
    """Minima and maxima of the same cells, read and reset between, in two launches of one tape."""
    start(machine)
    data = values(12).reshape(3, 4)
    x, low, y, loss = field(data), field(np.full(3, 9.0)), field(np.zeros((3, 2))), field(0.0)

    @sg.kernel
    def run(factor: sg.f64):
        for i, j in x:
            sg.atomic_min(low[i], x[i, j] * factor)
        for i in low:
            y[i, 0] += low[i] * low[i]
            low[i] = -9.0
        for i, j in x:
            sg.atomic_max(low[i], x[i, j] * factor)
        for i in low:
            y[i, 1] += low[i]
            low[i] = 9.0

    @sg.kernel
    def weigh():
        for i, k in y:
            loss[None] += y[i, k] * (i + 1.0) * (k + 2.0)

    with sg.ad.Tape(loss) as tape:
        run(1.0)
        run(-2.0)
        weigh()
    expected = np.zeros((3, 4))
    for i in range(3):
        a, b = data[i].argmin(), data[i].argmax()
        expected[i, a] += (i + 1) * 2 * 2 * data[i, a]
        expected[i, b] += (i + 1) * 3
        expected[i, b] += (i + 1) * 2 * 2 * (-2.0) * (-2.0 * data[i, b])
        expected[i, a] += (i + 1) * 3 * -2.0
    close(x, expected)
    assert tape.used_bytes >= 2 * 2 * 2 * 3 * 8


def test_equal_maxima_share_nothing_and_one_takes_all(machine):
    start(machine)
    x, y, total, loss = field([2.0, 5.0, 5.0, 1.0]), field(np.zeros(1)), field(0.0), field(0.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(total[None], x[i])
        for _ in range(1):
            y[0] = total[None]
            total[None] = 0.0

    weigh = weigher(y, field(np.ones(1), grad=False), loss)
    with sg.ad.Tape(loss):
        run()
        weigh()
    assert x.grad.to_numpy().tolist() in ([0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0])


def test_hessian_vector_products(machine):
    """Of an old value with a gradient, of slots and of an overwritten maximum, against closed forms."""
    start(machine)
    data, v = values(5), np.arange(1.0, 6.0)
    x, y, total, loss = field(data), field(np.zeros(6)), field(0.0), field(0.0)
    size, origin = integers(0), integers(np.zeros(5))
    batch = np.stack([v, -v, np.ones(5)])

    @sg.kernel
    def run():
        for i in x:
            loss[None] += sg.atomic_add(total[None], x[i]) * x[i]
        for i in x:
            slot = sg.atomic_add(size[None], 1)
            y[slot] = x[i] ** 3
            origin[slot] = i
        for i in x:
            sg.atomic_max(total[None], 10.0 * x[i] ** 2)
        for _ in range(1):
            y[5] = total[None] ** 2
            total[None] = 0.0
        for k in y:
            loss[None] += y[k] * (k + 1.0)

    def all_of_it():
        size.fill(0)
        total.fill(0.0)
        run()

    found = sg.ad.hvp(loss, x, all_of_it, batch)
    order, largest = origin.to_numpy(), data.argmax()
    hessian = 1.0 - np.eye(5)
    for slot, i in enumerate(order):
        hessian[i, i] += 6 * data[i] * (slot + 1)
    hessian[largest, largest] += 6 * 100 * 12 * data[largest] ** 2
    close(found, batch @ hessian)
