"""Test own elements rewritten in branches and loops: only one iteration touches them, so no derivative is lost."""

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
ints, judge, real, refused = support.ints, support.judge, support.real, support.refused


@pytest.fixture(autouse=True)
def machine():
    support.setup()


def test_element_made_anew_in_each_round():
    """y[i] is scratch: every round stores it before it reads it, and overwrites what the round before left."""
    x, y, out, n = real(0.3, 0.4, 0.5), real(7.0, 7.0, 7.0), real(0.0, 0.0, 0.0), ints(3)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for k in range(n[0]):
                y[i] = v * x[i] + 0.1 * k
                if y[i] > 0.2:
                    y[i] = y[i] * y[i]
                v = sg.sin(y[i]) + v
            out[i] = v

    judge(run)


def test_element_made_anew_in_a_while_loop():
    """The same in a while loop that leaves early; the element's last content is an output too."""
    x, y, n = real(0.3, 0.4, 0.5), real(7.0, 7.0, 7.0), ints(5)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            k = 0
            while k < n[0]:
                k += 1
                y[i] = v * 1.5
                if y[i] > 0.9:
                    break
                y[i] = y[i] * y[i]
                v += y[i]

    judge(run)


def test_element_carried_from_round_to_round_is_refused():
    """What the first round reads was there before the launch and is gone."""
    x, y, n = real(0.3, 0.4), real(0.5, 0.6), ints(3)

    @sg.kernel
    def run():
        for i in x:
            for _ in range(n[0]):
                y[i] = sg.sin(y[i]) * x[i]

    refused(run, "'y'", "overwrite")


def test_old_values_of_atomics_on_own_elements():
    """No other iteration takes part, so what the atomics return is known."""
    x, y, z = real(0.3, 0.95, 0.5), real(0.0, 0.0, 0.0), real(7.0, 7.0, 7.0)

    @sg.kernel
    def run():
        for i in x:
            z[i] = x[i] * x[i]
            first = sg.atomic_add(z[i], x[i])
            second = sg.atomic_max(z[i], 0.9)
            third = sg.atomic_mul(z[i], x[i])
            y[i] = first * x[i] + second * second + third * third + z[i] * z[i]

    judge(run)


def test_element_indexed_by_the_loop():
    """s[k, i] is another element in each round, which nothing overwrites."""
    x, s, out = real(0.3, 0.4), real([[0.0, 0.0]] * 4), real(0.0, 0.0)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for k in range(4):
                s[k, i] = v * x[i]
                v = sg.cos(s[k, i]) * s[k, i] + v
            out[i] = v

    judge(run)


def test_elements_told_apart_by_data_only():
    """y[c[i]] is stored and read back; whether another iteration stores there as well, the launch sees."""
    x, y, z, c = real(0.3, 0.4), real(0.0, 0.0), real(0.0, 0.0), ints(1, 0)

    @sg.kernel
    def run():
        for i in x:
            y[c[i]] = x[i] * x[i]
            z[c[i]] = y[c[i]] * y[c[i]]

    judge(run)
    c.from_numpy(np.array([1, 1], np.int32))
    with pytest.raises(sg.NotDifferentiable, match=r"iteration 0 .* reads y\[1\], which iteration 1 writes"):
        run.grad()


def test_the_cure_for_elements_told_apart_by_data():
    """The same with the value kept in a local."""
    x, y, z, c = real(0.3, 0.4), real(0.0, 0.0), real(0.0, 0.0), ints(1, 0)

    @sg.kernel
    def run():
        for i in x:
            t = x[i] * x[i]
            y[c[i]] = t
            z[c[i]] = t * t

    judge(run)


def test_extremes_on_own_elements():
    """y[i] = max(y[i], ..): who holds the final value won, so the old content is not needed."""
    x, y, z = real(0.3, 0.4, 0.5), real(0.35, 0.0, 0.55), real(1.0, 1.0, 0.1)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(y[i], x[i] * 1.5)
            for k in range(3):
                sg.atomic_min(z[i], x[k] * x[i])

    judge(run)


def test_scaling_in_serial_code():
    """loss *= 1/4 after a sum: a serial product by what has no gradient needs no old content."""
    x, y, z, loss = real(0.3, 0.4, 0.5), real(0.0, 0.2), real(0.6, 0.7), real(0.5)

    @sg.kernel
    def run():
        for i in x:
            loss[0] += x[i] * x[i]
        loss[0] *= 0.25
        y[0] = loss[0] * loss[0]
        y[1] *= 2.0
        z[1] -= y[1]
        z[1] /= 3.0
        before = sg.atomic_add(z[0], z[1])
        y[1] = before * 3.0

    judge(run)


def test_scaling_own_elements_in_branches():
    """No block holds all accesses unconditionally; each product is a load and a store all the same."""
    x, y, z = real(0.3, 0.4, 0.5), real(0.2, 0.3, 0.4), real(0.1, 0.3, 0.5)

    @sg.kernel
    def run():
        for i in x:
            if x[i] > 0.35:
                y[i] *= 2.0
            if z[i] > 0.25:
                y[i] *= 3.0
            else:
                y[i] /= 3.0

    judge(run)


def test_product_with_an_active_factor_is_refused():
    """y *= x needs the old y."""
    x, y = real(0.3, 0.4), real(0.2, 0.3)

    @sg.kernel
    def run():
        y[0] *= x[0]

    refused(run, "'y'", "overwrite")


def test_serial_elements_stored_before_they_are_read():
    """In serial code every element is private; what is stored first owes nothing to what was there."""
    x, y, z, loss = real(0.8, 0.9, 0.95), real(0.3, 0.0), real(0.1, 0.2, 0.3), real(0.5)

    @sg.kernel
    def run():
        y[0] = x[0] * x[1]
        y[0] = y[0] * y[0]
        if y[0] > 0.1:
            y[0] = sg.sin(y[0])
        k = 0
        loss[0] = 1.0
        while k < 3:
            loss[0] *= x[k]
            z[k] = x[k]
            z[k] = z[k] * loss[0] * z[k]
            k += 1
        loss[0] *= loss[0]

    judge(run)


def test_element_of_each_round_written_twice():
    """s[k, i] is stored, read and stored again within round k."""
    x, s, n = real(0.3, 0.4), real([[0.0, 0.0]] * 4), ints(4)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for k in range(n[0]):
                s[k, i] = v * x[i]
                s[k, i] = sg.cos(s[k, i]) * s[k, i] + x[i]
                v += s[k, i]

    judge(run)
