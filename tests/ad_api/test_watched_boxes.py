"""A tape finds what a write destroys, in a time that does not grow with the number of steps before it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.autodiff import watched_boxes
from stackgrad.autodiff.watched_boxes import WatchedBoxes
from stackgrad.compiler.sizing.regions import joined


def draw_box(random, shape):
    starts = [int(random.integers(0, extent)) for extent in shape]
    return tuple(slice(a, a + 1 + int(random.integers(0, extent - a))) for a, extent in zip(starts, shape, strict=True))


def elements(boxes):
    return {at for box in boxes for at in product(*(range(s.start, s.stop) for s in box))}


class Plain:
    """Track boxes in a list, and compare each one with each write."""

    def __init__(self):
        self.boxes = []

    def add(self, boxes, record):
        known = [box for box, _ in self.boxes]
        self.boxes += [(box, record) for box in boxes if box not in known]

    def endangered(self, writes):
        met = [(box, record) for box, record in self.boxes if any(elements([box]) & elements([w]) for w in writes)]
        lost = {at for box, _ in met for at in elements([box]) & elements(writes)}
        self.boxes = [one for one in self.boxes if not any(elements([one[0]]) <= elements([w]) for w in writes)]
        return lost, met[0][1] if met else None


@pytest.mark.parametrize("shape", [(), (1,), (40,), (3, 50), (17, 1, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_finds_what_a_comparison_with_every_box_finds(shape, seed):
    random = np.random.default_rng(seed)
    tracked, plain = WatchedBoxes(shape), Plain()
    for number in range(60):
        if random.random() < 0.6:
            boxes = [draw_box(random, shape) for _ in range(int(random.integers(1, 4)))]
            boxes = [box for place, box in enumerate(boxes) if box not in boxes[:place]]
            tracked.add(boxes, number)
            plain.add(boxes, number)
        else:
            writes = [draw_box(random, shape) for _ in range(int(random.integers(0, 3)))]
            (lost, reader), (want, first) = tracked.endangered(writes), plain.endangered(writes)
            assert elements(lost) == want and reader == first


@pytest.mark.parametrize("shape", [(9,), (5, 6), (3, 4, 5)])
def test_joined_boxes_hold_the_same_elements(shape):
    random = np.random.default_rng(1)
    for _ in range(50):
        boxes = [draw_box(random, shape) for _ in range(int(random.integers(0, 7)))]
        found = joined(boxes)
        assert elements(found) == elements(boxes)


@pytest.mark.parametrize(
    ("boxes", "want"),
    [
        ([(slice(3, 4), slice(j, j + 1)) for j in (2, 0, 1)], [(slice(3, 4), slice(0, 3))]),
        ([(slice(j, j + 1), slice(k, k + 1)) for j in range(4) for k in range(4)], [(slice(0, 4), slice(0, 4))]),
        ([(slice(0, 1),), (slice(2, 3),)], [(slice(0, 1),), (slice(2, 3),)]),
        ([(slice(0, 5),), (slice(1, 2),)], [(slice(0, 5),)]),
        ([(), ()], [()]),
        ([], []),
    ],
)
def test_boxes_without_a_gap_are_one(boxes, want):
    assert joined(boxes) == want


COUNT = 24
"""Number of elements of a row, each of which an unrolled loop reads by itself."""


@pytest.fixture
def compared(monkeypatch):
    """Count the boxes that are compared with a write."""
    calls = []
    whole = watched_boxes.intersect_boxes
    monkeypatch.setattr(watched_boxes, "intersect_boxes", lambda a, b: calls.append(None) or whole(a, b))
    return calls


def simulate(steps, time_first):
    """Run a program whose steps read what an earlier run has left in the rows that they write."""
    shape = (steps + 1, COUNT) if time_first else (COUNT, steps + 1)
    x, y = (sg.field(sg.f64, shape, needs_grad=True) for _ in range(2))
    w, loss = (sg.field(sg.f64, (), needs_grad=True) for _ in range(2))

    @sg.kernel
    def look(t: sg.i32):
        for i in range(COUNT):
            total = 0.0
            for j in sg.static(range(COUNT)):
                total += x[t, j] * (j + 1) if sg.static(time_first) else x[j, t] * (j + 1)
            if sg.static(time_first):
                y[t, i] = w[None] * total * total
            else:
                y[i, t] = w[None] * total * total

    @sg.kernel
    def advance(t: sg.i32):
        for i in range(COUNT):
            if sg.static(time_first):
                x[t, i] = x[t - 1, i] + y[t, i]
            else:
                x[i, t] = x[i, t - 1] + y[i, t]

    @sg.kernel
    def measure(t: sg.i32):
        for i in range(COUNT):
            loss[None] += x[t, i] if sg.static(time_first) else x[i, t]

    x.fill(1)
    w[None] = 0.25
    with sg.ad.Tape(loss):
        for t in range(1, steps + 1):
            look(t)
            advance(t)
        measure(steps)
    return w.grad[None]


@pytest.mark.rotating
@pytest.mark.parametrize("time_first", [True, False])
def test_the_time_of_a_tape_grows_with_its_steps(compared, time_first):
    # Step t adds w * s * s to each of COUNT elements, where s = 1 + 2 + ... + COUNT of what the row was before.
    slope = COUNT * (COUNT * (COUNT + 1) // 2) ** 2
    counts = []
    for steps in (10, 40):
        compared.clear()
        assert simulate(steps, time_first) == steps * slope
        counts.append(len(compared))
    assert 0 < counts[1] <= 4 * counts[0] + 40
