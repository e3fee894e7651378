"""Analyses look at pairs of accesses, but what they need of the whole task is found once, not for each pair."""

from __future__ import annotations

import pytest
import stackgrad as sg
from stackgrad.compiler.ad import risk
from stackgrad.compiler.analysis import affine


class CountedTable(dict):
    """This table counts the entries that are visited in all tables of its class."""

    visits = 0

    def items(self):
        """Return the entries, all of which count as visited."""
        CountedTable.visits += len(self)
        return super().items()


@pytest.fixture
def visits(monkeypatch):
    """Return a function that counts what the analysis of a kernel's risks visits: statements, and homes of values."""
    walked = []
    monkeypatch.setattr(affine, "walk_task", lambda task, walk=affine.walk_task: _noted(walk(task), walked))

    class Counting(risk.Structure):
        def __init__(self, *args):
            super().__init__(*args)
            self.homes = CountedTable(self.homes)

    monkeypatch.setattr(risk, "Structure", Counting)

    def count(kernel) -> tuple[int, int]:
        walked.clear()
        CountedTable.visits = 0
        kernel.grad()
        return len(walked), CountedTable.visits

    return count


def _noted(statements, walked):
    found = list(statements)
    walked += found
    return iter(found)


def straight(x, y, stores):
    @sg.kernel
    def run():
        for i in x:
            for k in sg.static(range(stores)):
                y[i, k] = x[i] * x[i] + y[i, k]

    return run


def in_loops(x, y, stores):
    @sg.kernel
    def run():
        for i in x:
            for t in range(2):
                for k in sg.static(range(stores)):
                    y[i, k] += x[i] * t

    return run


def reads_elsewhere(x, y, stores):
    @sg.kernel
    def run():
        for i in x:
            for k in sg.static(range(stores)):
                y[i, k] = x[i] * k

    return run


@pytest.mark.parametrize("made", [straight, in_loops, reads_elsewhere])
def test_visits_grow_as_the_kernel(made, visits):
    """A kernel of four times the stores has sixteen times the pairs, but four times the statements."""

    def count(stores: int) -> tuple[int, int]:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (3, stores), needs_grad=True)
        return visits(made(x, y, stores))

    small, large = count(6), count(24)
    for few, many in zip(small, large):
        assert many <= 6 * few, (small, large)
    assert large[0] > 0
