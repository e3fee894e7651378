"""Test which variables grad kernels save on adstacks, for kernels whose smallest possible history is known.

Dual numbers also judge each gradient, so that no needed value is left out.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.nodes import StackAlloca
from stackgrad.compiler.ir.walk import walk_kernel

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, real = support.ints, support.real


def saved(kernel, policy="lean"):
    """Assert that the gradient is right, and return (variable, type) of each adstack."""
    source, arrays = support.contents(kernel)
    support.judge_ir(source, arrays, {}, ways=((policy, "reference"), (policy, "cpu")))
    lowered = prepare_reverse(source, policy).kernel
    return sorted((s.variable or "", s.dtype.name) for s in walk_kernel(lowered) if isinstance(s, StackAlloca))


@pytest.fixture(autouse=True)
def _double():
    support.setup()


def test_linear_recurrence_saves_nothing():
    x, y, n = real(0.3, -0.4), real(0.0, 0.0), ints(5, 0)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = 0.95 * v + 0.01
            y[i] = v

    assert saved(run) == []


def test_recurrence_saves_one_value():
    """v = sin(v) * 0.95 + 0.01: the derivative reads v, and nothing else; cos(v) is saved in its place."""
    x, y, n = real(0.3, -0.4), real(0.0, 0.0), ints(5, 1)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v

    assert saved(run) == [("v", "f64")]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_counter_of_a_while_loop(step):
    """k goes in equal steps, so the index of a[k] needs no history; the trip count of a loop at the root is kept."""
    x, a, y = real(0.3, -0.4), real(0.5, 0.6, 0.7, 0.8, 0.9), real(0.0, 0.0)
    first = 4 if step < 0 else 0

    @sg.kernel
    def run():
        for i in x:
            k = first
            v = x[i]
            while k >= 0 and k < 5:
                v = v * a[k]
                k += step
            y[i] = v

    assert saved(run) == [("v", "f64")]


def test_counter_that_a_break_leaves():
    """The arm that counts is the one that goes on."""
    x, a, y = real(0.3, -0.4), real(0.5, 0.6, 0.7, 0.8), real(0.0, 0.0)

    @sg.kernel
    def run():
        for i in x:
            k = 1
            v = 0.0
            while True:
                v += a[k] * x[i]
                if v > 0.1 or k >= 3:
                    break
                k += 1
            y[i] = v

    assert [s for s in saved(run) if s[1] == "i32"] == []


def test_counter_beside_a_stepped_index():
    """A counter in a for loop with a step, begun from data; and read behind an inner loop that counts as well."""
    x, a, y, n = real(0.3, -0.4), real(*[0.1 * k for k in range(1, 20)]), real(0.0, 0.0), ints(2, 3)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            k = n[i]
            for j in range(1, 8, 3):
                v = sg.sin(v * a[k]) + a[j]
                k += 2
            for _ in range(n[i]):
                m = 0
                while m * m < 5:
                    m += 1
                v = v * a[m]
            y[i] = v

    assert [s for s in saved(run) if s[1] == "i32"] == [("m", "i32")]


def test_counting_in_only_one_arm_is_saved():
    """No counter: how often it was counted depends on data."""
    x, a, y = real(0.3, -0.4), real(0.5, 0.6, 0.7, 0.8, 0.9), real(0.0, 0.0)

    @sg.kernel
    def run():
        for i in x:
            k = 0
            v = x[i]
            for _ in range(4):
                v = sg.sin(v + a[k])
                if v > 0.3:
                    k += 1
            y[i] = v

    assert ("k", "i32") in saved(run)


def test_one_source_instead_of_two_values():
    """p = v * a[j] + 1, q = v * a[j] - 2 are read by the derivative of p * q * w; saving v gives both."""
    x, a, y, n = real(0.3, -0.4), real(0.5, 0.6, 0.7), real(0.0, 0.0), ints(3, 2)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                p = v * a[j] + 1.0
                q = v * a[j] - 2.0
                v = p * q * 0.3
            y[i] = v

    assert saved(run) == [("v", "f64")]
    assert len(saved(run, "greedy")) >= 1


def test_a_bit_instead_of_a_number():
    """The branch is decided by v > 0.2; v itself is not read: a flag is saved."""
    x, y, n = real(0.35, -0.4), real(0.0, 0.0), ints(4, 3)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                if v > 0.2:
                    v = 0.5 * v
                else:
                    v = v + 0.25
            y[i] = v

    assert [dtype for _, dtype in saved(run)] == ["u1"]


def test_local_array_read_after_it_was_filled_saves_nothing():
    x, y, n = real(0.3, -0.4), real(0.0, 0.0), ints(4, 3)

    @sg.kernel
    def run():
        for i in x:
            w = sg.Vector([x[i], 0.5, sg.sin(x[i])])
            v = 0.0
            for j in range(n[i]):
                v += w[j % 3] * w[(j + 1) % 3]
            y[i] = v

    assert saved(run) == []


def test_every_policy_saves_what_is_lost():
    """Policies differ in what they save, never in the gradient."""
    x, a, y, n = real(0.3, -0.4), real(0.5, 0.6, 0.7), real(0.0, 0.0), ints(3, 2)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                t = sg.exp(v * a[j])
                v = t * t / (1.0 + t)
            y[i] = v

    counts = {policy: len(saved(run, policy)) for policy in POLICIES}
    assert counts["lean"] <= counts["greedy"] <= counts["stored"] <= counts["stored-early"], counts
    assert counts["lean"] == 1
