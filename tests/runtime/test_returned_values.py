"""Gradients under a tape of kernels that use what atomics returned between the iterations of a parallel loop.

The expected gradient is made for the order which the forward result shows, so each test holds for any order.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from returned_support import MACHINES, SIZES, close, field, integers, start, values, weigher
from stackgrad.runtime.usage_errors import TapeError

pytestmark = pytest.mark.parametrize("machine", MACHINES)


class Slots:
    """y[slot] = x[i]^2 for those x above a threshold; the slot is handed out by a counter for each of `cells`."""

    def __init__(self, count: int, fp=sg.f64, cells: int = 1, first: int = 0) -> None:
        self.data, self.cells, self.first, self.room = values(count), cells, first, first + 2 * count + 1
        self.x, self.y = field(self.data, fp), field(np.full((cells, self.room), 7.0), fp)
        self.cell_of = integers(np.arange(count) % cells)
        self.counts, self.origin = integers(np.full(cells, first)), integers(np.full((cells, self.room), -1))
        self.loss = field(0.0, fp)
        self.weights = np.random.default_rng(1).uniform(0.5, 2.0, (cells, self.room)).astype(np.float32)
        w = field(self.weights, fp, grad=False)
        x, y, cell_of, counts, origin, loss = self.x, self.y, self.cell_of, self.counts, self.origin, self.loss

        @sg.kernel
        def fill():
            for i in x:
                if x[i] > 0.61:
                    c = cell_of[i]
                    slot = sg.atomic_add(counts[c], 1)
                    y[c, slot] = x[i] * x[i]
                    origin[c, slot] = i

        @sg.kernel
        def weigh():
            for c, k in y:
                loss[None] += w[c, k] * y[c, k]

        self.fill, self.weigh = fill, weigh

    def expected(self) -> np.ndarray:
        """Of x, read off the slots that the launches handed out."""
        found = np.zeros(len(self.data))
        for (c, k), i in np.ndenumerate(self.origin.to_numpy()):
            if i >= 0:
                found[i] += 2 * self.data[i] * float(self.weights[c, k])
        return found


@pytest.mark.rotating
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
@pytest.mark.parametrize("count", SIZES)
def test_slots_that_a_counter_hands_out(machine, count, fp):
    start(machine, fp)
    s = Slots(count, fp)
    with sg.ad.Tape(s.loss):
        s.fill()
        s.weigh()
    assert s.counts.to_numpy()[0] == (s.data > 0.61).sum()
    close(s.x, s.expected(), fp)


def test_slots_of_several_counters_that_do_not_begin_at_zero(machine):
    start(machine)
    s = Slots(30, cells=4, first=3)
    with sg.ad.Tape(s.loss):
        s.fill()
        s.weigh()
    close(s.x, s.expected())
    untouched = np.where(s.origin.to_numpy() < 0, s.weights, 0.0)
    close(s.y, untouched)


def test_two_launches_in_one_tape_have_records_of_their_own(machine):
    start(machine)
    s = Slots(24, cells=2)
    with sg.ad.Tape(s.loss):
        s.fill()
        s.fill()
        s.weigh()
    assert s.counts.to_numpy().sum() == 2 * (s.data > 0.61).sum()
    close(s.x, s.expected())


def test_one_launch_under_two_tapes(machine):
    start(machine)
    s = Slots(24)
    with sg.ad.Tape(s.loss):
        s.fill()
        with sg.ad.Tape(s.loss):
            s.fill()
            s.weigh()
        inner = s.x.grad.to_numpy()
    both = s.expected()
    slots = s.origin.to_numpy()[0]
    second = np.zeros(24)
    chosen = int((s.data > 0.61).sum())
    for k in range(chosen, 2 * chosen):
        second[slots[k]] = 2 * s.data[slots[k]] * float(s.weights[0, k])
    close(inner, second)
    close(s.x, both)


def test_tapes_one_after_the_other_and_again(machine):
    start(machine)
    s = Slots(24)
    tape = sg.ad.Tape(s.loss, retain=True)
    with tape:
        s.fill()
        s.weigh()
    first = s.expected()
    close(s.x, first)
    tape.grad(seed=2.0)
    close(s.x, 2 * first)
    s.origin.fill(-1)
    s.y.fill(7.0)
    with sg.ad.Tape(s.loss):
        s.fill()
        s.weigh()
    close(s.x, s.expected())


def test_a_replay_records_anew(machine):
    start(machine)
    s = Slots(24)
    with sg.ad.Tape(s.loss) as tape:
        s.fill()
        s.weigh()
    s.origin.fill(-1)
    s.counts.fill(0)
    tape.replay()
    close(s.x, s.expected())


def test_the_record_counts_against_the_budget(machine):
    start(machine)
    s = Slots(24)
    with sg.ad.Tape(s.loss) as tape:
        s.fill()
        s.weigh()
    assert tape.used_bytes == 24 * 4
    with pytest.raises(TapeError, match="over its budget"), sg.ad.Tape(s.loss, budget_bytes=24 * 4 - 1):
        s.fill()
    assert s.counts.to_numpy()[0] == (s.data > 0.61).sum(), "refused before it ran"


def test_a_kernel_that_does_not_need_the_slot_keeps_no_record(machine):
    """The slot decides no index of what has a gradient; the old content of x does count."""
    start(machine)
    x, log, count, loss = field(values(6)), integers(np.zeros(6)), integers(0), field(0.0)

    @sg.kernel
    def step():
        for i in x:
            log[sg.atomic_add(count[None], 1)] = i
            x[i] = sg.exp(x[i])

    weigh = weigher(x, field(np.ones(6), grad=False), loss)
    with sg.ad.Tape(loss) as tape:
        step()
        weigh()
    assert tape.used_bytes == 6 * 8
    close(x, np.exp(values(6)))


def test_particle_lists_that_are_built_used_and_cleared(machine):
    """The list is overwritten, so the gradient builds it again: from the record, not in an order of its own."""
    start(machine)
    count, data = 20, values(20)
    x, y = field(data), field(np.zeros(count))
    members, size, loss = integers(np.zeros(count)), integers(0), field(0.0)
    weights = np.arange(1.0, count + 1)

    @sg.kernel
    def step():
        for i in x:
            members[sg.atomic_add(size[None], 1)] = i
        for k in y:
            if k < size[None]:
                y[k] += x[members[k]] ** 2
        for k in members:
            members[k] = 0
        for _ in range(1):
            size[None] = 0

    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        step()
        weigh()
    expected = np.zeros(count)
    for k, square in enumerate(y.to_numpy()):
        expected[np.abs(data**2 - square).argmin()] = 2 * np.sqrt(square) * weights[k]
    close(x, expected)


def test_linked_lists_by_exchange(machine):
    """after[i] = exchange(head[c], i), then each cell's list is walked."""
    start(machine)
    count, cells, data = 15, 4, values(15)
    x, y, loss = field(data), field(np.zeros(cells)), field(0.0)
    cell_of, head, after = integers(np.arange(count) % 3), integers(np.full(cells, -1)), integers(np.full(count, -1))

    @sg.kernel
    def walk():
        for i in x:
            after[i] = sg.atomic_exchange(head[cell_of[i]], i)
        for c in y:
            at = head[c]
            v = 0.0
            while at >= 0:
                v = 0.5 * v + x[at] * x[at]
                at = after[at]
            y[c] = v

    weigh = weigher(y, field(np.arange(1.0, cells + 1), grad=False), loss)
    with sg.ad.Tape(loss):
        walk()
        weigh()
    expected, following = np.zeros(count), after.to_numpy()
    for c, first in enumerate(head.to_numpy()):
        chain = []
        while first >= 0:
            chain.append(first)
            first = following[first]
        for k, i in enumerate(chain):
            expected[i] = (c + 1) * 0.5 ** (len(chain) - 1 - k) * 2 * data[i]
    close(x, expected)


def test_in_a_serial_loop_of_each_iteration(machine):
    """A counter that an iteration asks several times: the loop becomes serial, forward too."""
    start(machine)
    count, data = 7, values(7)
    x, y, loss, size = field(data), field(np.zeros(40)), field(0.0), integers(1)
    origin = integers(np.full(40, -1))
    weights = np.arange(1.0, 41.0)

    @sg.kernel
    def emit():
        for i in x:
            for j in range(i % 4):
                slot = sg.atomic_add(size[None], 1)
                y[slot] = x[i] * x[i] * (j + 1)
                origin[slot] = 10 * i + j + 1

    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        emit()
        weigh()
    expected = np.zeros(count)
    for k, at in enumerate(origin.to_numpy()):
        if at >= 0:
            expected[at // 10] += 2 * data[at // 10] * (at % 10) * weights[k]
    close(x, expected)


def test_slots_of_a_loop_over_two_axes_with_a_begin(machine):
    start(machine)
    data = values(30).reshape(5, 6)
    x, y, loss, size = field(data), field(np.zeros(31)), field(0.0), integers(0)
    origin, weights = integers(np.full(31, -1)), np.arange(1.0, 32.0)

    @sg.kernel
    def fill(first: sg.i32, last: sg.i32):
        for i, j in sg.ndrange((first, last), (2, 6)):
            slot = sg.atomic_add(size[None], 1)
            y[slot] = x[i, j] ** 3
            origin[slot] = 6 * i + j

    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        fill(1, 4)
        fill(3, 2)
        fill(4, 5)
        weigh()
    expected = np.zeros(30)
    for k, at in enumerate(origin.to_numpy()):
        if at >= 0:
            expected[at] = 3 * data.reshape(-1)[at] ** 2 * weights[k]
    close(x, expected.reshape(5, 6))


def test_a_constant_launch_ends_the_adjoints_of_the_slots_it_fills(machine):
    start(machine)
    data = values(6)
    x, y, loss, size, origin = field(data), field(np.zeros(6)), field(0.0), integers(1), integers(np.full(6, -1))

    @sg.kernel
    def double():
        for i in x:
            y[i] = 2.0 * x[i]

    @sg.kernel
    def fill():
        for i in x:
            if i % 2 == 0:
                slot = sg.atomic_add(size[None], 1)
                y[slot] = x[i] * x[i]
                origin[slot] = i

    weights = np.arange(1.0, 7.0)
    weigh = weigher(y, field(weights, grad=False), loss)
    constant = sg.ad.no_grad(lambda: fill())
    with sg.ad.Tape(loss):
        double()
        constant()
        weigh()
    close(x, np.where(origin.to_numpy() < 0, 2.0 * weights, 0.0))


@pytest.mark.parametrize("kind", ["record", "serial", "apart"])
def test_ordered_kernels_pass_the_verifier(machine, kind):
    """Under debug the kernel is verified after each pass, and indices are checked."""
    start(machine, debug=True)
    x, y, loss, size, total = field(values(5)), field(np.zeros(5)), field(0.0), integers(0), field(0.25)

    @sg.kernel
    def record():
        for i in x:
            y[sg.atomic_add(size[None], 1)] = x[i]

    @sg.kernel
    def serial():
        for i in x:
            if x[i] < 0.5:
                continue
            y[i] = sg.atomic_add(total[None], x[i])

    @sg.kernel
    def apart():
        for i in x:
            sg.atomic_max(total[None], x[i])
        for i in y:
            y[i] = total[None]
        for _ in range(1):
            total[None] = 0.0

    kernel = {"record": record, "serial": serial, "apart": apart}[kind]
    weigh = weigher(y, field(np.ones(5), grad=False), loss)
    with sg.ad.Tape(loss):
        kernel()
        weigh()
    data = values(5)
    if kind == "record":
        expected = np.ones(5)
    elif kind == "serial":
        runs = data >= 0.5
        expected = np.where(runs, runs.sum() - np.cumsum(runs), 0)
    else:
        expected = np.where(data == data.max(), 5.0, 0.0)
    close(x, expected)


def test_random_numbers_beside_a_record(machine):
    """The loop stays parallel, so its draws are those of the plain kernel."""
    start(machine)
    count, data = 12, values(12)
    x, y, loss, size = field(data), field(np.zeros(count)), field(0.0), integers(0)
    origin, drawn = integers(np.full(count, -1)), field(np.zeros(count), grad=False)

    @sg.kernel
    def fill():
        for i in x:
            u = sg.random()
            slot = sg.atomic_add(size[None], 1)
            y[slot] = x[i] * x[i] * u
            origin[slot] = i
            drawn[i] = u

    weights = np.arange(1.0, count + 1)
    weigh = weigher(y, field(weights, grad=False), loss)
    with sg.ad.Tape(loss):
        fill()
        weigh()
    order, u = origin.to_numpy(), drawn.to_numpy()
    expected = np.zeros(count)
    expected[order] = 2 * data[order] * u[order] * weights
    close(x, expected)
