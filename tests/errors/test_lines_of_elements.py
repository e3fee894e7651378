"""A refusal names the lines that read and that store, also of an element that the compiler kept in a local."""

from __future__ import annotations

import inspect

import pytest
import stackgrad as sg
from refusal_support import V, field


@pytest.fixture(autouse=True)
def runtime():
    sg.init(arch=sg.reference, default_fp=sg.f64)
    yield
    sg.reset()


def line_of(mark):
    lines, first = inspect.getsourcelines(inspect.getmodule(line_of))
    (found,) = [k for k, line in enumerate(lines, first + (first == 0)) if line.rstrip().endswith(f"# {mark}")]
    return found


def refusal(kernel):
    with pytest.raises(sg.NotDifferentiable) as caught:
        kernel.grad()
    return str(caught.value)


def test_stored_in_a_loop_before_it_is_read():
    x, a, y = field(3, "x", V), field(3, "a"), field(3, "y")

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(3):
                a[i] = v * v  # stored in a loop
            y[i] += v * a[i]  # read after the loop

    text = refusal(run)
    assert f"test_lines_of_elements.py:{line_of('read after the loop')}:" in text
    assert f"overwrite later (line {line_of('stored in a loop')})" in text


def test_read_in_a_loop_before_it_is_stored():
    x, a, y = field(3, "x", V), field(3, "a"), field(3, "y")

    @sg.kernel
    def run():
        for i in x:
            for k in range(3):
                y[i] += x[i] * a[i] * k  # read in a loop
            if x[i] > 1.0:
                a[i] = x[i] * 2.0  # stored in a branch

    text = refusal(run)
    assert f"test_lines_of_elements.py:{line_of('read in a loop')}:" in text
    assert f"overwrites later (line {line_of('stored in a branch')})" in text
