"""Cases of refused gradients: a program, what its refusal says, and the program that its cure makes.

A case is a generator: it yields what is refused, then runs what the cure says and asserts that this gradient is right.
The line that is meant carries the comment `# here`.
"""

from __future__ import annotations

import inspect
import os

import numpy as np
import stackgrad as sg

CASES = {}


def case(kind, reason, *names, cure):
    """Register a program. reason: a regular expression; names: what the message mentions; cure: part of its cure."""

    def add(function):
        CASES[function.__name__] = (function, kind, reason, names, cure)
        return function

    return add


def field(shape, name, content=1.0, dtype=None):
    made = sg.field(dtype or sg.f64, shape, name=name, needs_grad=dtype is None)
    made.from_numpy(np.broadcast_to(np.array(content), made.shape).astype(made.dtype.dtype))
    return made


def by_hand(kernel, out, into):
    """The gradient of sum(out) by `into`, called by hand after a launch."""
    kernel()
    sg.ad.clear_all_gradients()
    out.grad.fill(1.0)
    kernel.grad()
    return into.grad.to_numpy()


def taped(out, into, *launches):
    with sg.ad.Tape(out, seed=np.ones(out.shape)):
        for launch in launches:
            launch()
    return into.grad.to_numpy()


def taped_sum(out, *launches):
    """The gradient of the sum of what the launches leave in `out` by what it held before."""
    loss = field((), "loss", 0.0)

    @sg.kernel
    def total():
        for i in out:
            loss[None] += out[i]

    return taped(loss, out, *launches, total)


V = np.array([0.5, 1.0, 2.0])


def square_and_total():
    x, y, loss = field(3, "x", V), field(3, "y"), field((), "loss", 0.0)

    @sg.kernel
    def square():
        for i in x:
            y[i] = x[i] ** 2

    @sg.kernel
    def total():
        for i in y:
            loss[None] += y[i]

    @sg.kernel
    def shift():
        for i in x:
            x[i] = x[i] + 1.0

    return x, y, loss, square, total, shift


def check_place(function, text):
    """File, line and caret of the line that is meant."""
    file = os.path.basename(inspect.getsourcefile(function))
    lines, first = inspect.getsourcelines(function)
    meant = [first + k for k, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert len(meant) <= 1
    if meant:
        assert f"{file}:{meant[0]}:" in text, text
        assert "# here" in text and "^" in text, text


def plain():
    """A function with no decorator."""
