"""Define cases of refused gradients: a program, the text of its refusal, and the program changed by the cure.

A case is a generator: it yields a function that is refused, then runs the program changed as the cure says, and asserts
that its gradient is right. The line at which the error must point has the comment `# here`.
"""

from __future__ import annotations

import inspect
import os

import numpy as np
import stackgrad as sg

CASES = {}


def case(kind, reason, *names, cure):
    """Register a program with its refusal: a regular expression of the reason, names, and part of the cure."""

    def add(function):
        CASES[function.__name__] = (function, kind, reason, names, cure)
        return function

    return add


def field(shape, name, content=1.0, dtype=None):
    made = sg.field(dtype or sg.f64, shape, name=name, needs_grad=dtype is None)
    made.from_numpy(np.broadcast_to(np.array(content), made.shape).astype(made.dtype.dtype))
    return made


def by_hand(kernel, out, into):
    """Return the gradient of sum(out) with respect to `into`, called by hand after a launch."""
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
    """Return the gradient of the sum of the final `out` by its contents before the launches, under a tape."""
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
    """Assert that an error has the file, line and caret of the intended line."""
    file = os.path.basename(inspect.getsourcefile(function))
    lines, first = inspect.getsourcelines(function)
    meant = [first + k for k, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert len(meant) <= 1
    if meant:
        assert f"{file}:{meant[0]}:" in text, text
        assert "# here" in text and "^" in text, text


def plain():
    """Return a function without its decorators."""
