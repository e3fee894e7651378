"""Test atomic minima and maxima whose result was overwritten later, or came from a value without a gradient."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, judge, real, refused = support.ints, support.judge, support.real, support.refused


@pytest.fixture(autouse=True)
def machine():
    support.setup()


def test_running_maximum_read_in_between_is_refused():
    """y[k] = max(x[:k+1]): the adjoint of y[k] belongs to who won at step k, which the final value does not tell."""
    x, y, s, c = real([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]]), real([[0.0] * 3] * 2), real(0.5, 0.25), ints(1, 0)

    @sg.kernel
    def gathered():
        for b in range(2):
            for k in range(3):
                sg.atomic_max(s[c[b]], x[b, k])
                y[b, k] = s[c[b]]

    @sg.kernel
    def serial():
        k = 0
        while k < 3:
            sg.atomic_min(s[0], x[0, k])
            y[0, k] = s[0]
            k += 1

    refused(gathered, "'s'", "atomic max", "read")
    refused(serial, "'s'", "atomic min", "read")


def test_maximum_read_before_the_atomic():
    """What was read before has nothing to do with who wins later."""
    x, y, s = real(1.0, 3.0, 2.0), real(0.0, 0.0, 0.0), real(0.5, 0.2)

    @sg.kernel
    def run():
        k = 0
        y[0] = s[0] * 2.0
        while k < 3:
            sg.atomic_max(s[0], x[k])
            k += 1

    judge(run)


def test_constant_wins_an_atomic_extreme():
    """max(m, 0.25) takes the adjoint of m where the constant wins, though the constant has no use for it."""
    x, m, c = real(0.2, 0.3), real(0.1, 0.1), ints(1, 0)

    @sg.kernel
    def clamp():
        for i in range(2):
            m[i] = x[i] * 1.5
        for i in range(2):
            sg.atomic_max(m[c[i]], 0.4)

    judge(clamp)


def test_slot_from_a_counter_is_refused():
    """k = atomic_add(count, 1); y[k] = ..: the number was handed out in an order that is gone."""
    x, y, count = real(0.3, 0.4), real(0.0, 0.0), ints(0)

    @sg.kernel
    def run():
        for i in x:
            k = sg.atomic_add(count[0], 1)
            y[k] = x[i] * x[i]

    refused(run, "what this atomic on 'count' returned", "use that in a kernel of its own")
