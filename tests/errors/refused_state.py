"""Define gradients that are refused for overwritten contents, dependent iterations, or adjoints used by the kernel."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from refusal_support import V, by_hand, case, field, taped, taped_sum

# ---- state that the kernel overwrites ------------------------------------------------------------------------------


@case(sg.NotDifferentiable, r"needs the value of 'x' read here.*overwrite later \(line \d+\)", "'x'", cure="sg.ad.Tape")
def value_overwritten():
    x = field(3, "x", V)

    @sg.kernel
    def run():
        for i in x:
            x[i] = sg.exp(x[i])  # here

    yield run.grad
    assert np.allclose(taped_sum(x, run), np.exp(V))
    x.from_numpy(V)
    y = field(3, "y")

    @sg.kernel
    def elsewhere():
        for i in x:
            y[i] = sg.exp(x[i])

    assert np.allclose(by_hand(elsewhere, y, x), np.exp(V))


@case(sg.NotDifferentiable, r"needs the value of 'n' read here.*overwrite later \(line \d+\)", "'n'", cure="sg.ad.Tape")
def bound_overwritten():
    x, y, n = field(3, "x", V), field(3, "y"), field(3, "n", [0, 1, 2], sg.i32)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):  # here
                v = v * 3.0
            y[i] = v
            n[i] = 0

    yield run.grad
    assert taped(y, x, run).tolist() == [1.0, 3.0, 9.0]


# ---- iterations that depend on one another -------------------------------------------------------------------------


@case(
    sg.NotDifferentiable, r"iteration i.*'x'.*i - 1 .*\(line \d+\).*not independent", "'x'", cure="make the loop serial"
)
def chain():
    x = field(4, "x", 0.5)

    @sg.kernel
    def run():
        for i in range(3):
            x[i + 1] = sg.sin(x[i])  # here

    yield run.grad

    @sg.kernel
    def serial():
        for _ in range(1):
            for i in range(3):
                x[i + 1] = sg.sin(x[i])

    x.fill(0.5)
    v = [0.5, np.sin(0.5), np.sin(np.sin(0.5))]
    wanted = 1 + np.cos(v[0]) * (1 + np.cos(v[1]) * (1 + np.cos(v[2])))
    assert np.isclose(taped_sum(x, serial)[0], wanted)
    y = field(4, "y")

    @sg.kernel
    def elsewhere():
        for i in range(3):
            y[i + 1] = sg.sin(x[i])

    x.from_numpy(np.array([*V, 0.0]))
    assert np.allclose(by_hand(elsewhere, y, x), [*np.cos(V), 0.0])


@case(
    sg.NotDifferentiable,
    r"i of .* writes the element of 'y' that iteration i - 1 writes \(line \d+\)",
    "'y'",
    cure="write to another field",
)
def two_iterations_write_one_element():
    x, y = field(4, "x", 2.0), field(5, "y")

    @sg.kernel
    def run():
        for i in range(4):
            y[i] = x[i]  # here
            y[i + 1] = x[i] ** 2

    yield run.grad
    z = field(5, "z")

    @sg.kernel
    def apart():
        for i in range(4):
            y[i] = x[i]
            z[i + 1] = x[i] ** 2

    assert by_hand(apart, y, x).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert by_hand(apart, z, x).tolist() == [4.0, 4.0, 4.0, 4.0]


@case(
    sg.NotDifferentiable,
    r"iteration 0 .* reads x\[2\], which iteration 2 writes \(line \d+\)",
    "x[2]",
    cure="give the iterations different elements",
)
def two_iterations_at_one_element():
    x, p = field(3, "x", V), field(3, "p", [2, 0, 2], sg.i32)

    @sg.kernel
    def run():
        for i in x:
            x[p[i]] = 0.5 * x[p[i]]  # here

    yield run.grad
    p[2] = 1
    assert by_hand(run, x, x).tolist() == [0.5, 0.5, 0.5]


@case(
    sg.NotDifferentiable,
    r"x\[2\] read here in iteration 0, which the kernel overwrites later \(line \d+\)",
    "x[2]",
    cure="sg.ad.Tape",
)
def element_overwritten_at_run_time():
    x, y, p, q = field(6, "x"), field(3, "y"), field(3, "p", [2, 0, 1], sg.i32), field(3, "q", [3, 4, 2], sg.i32)

    @sg.kernel
    def run():
        for i in y:
            y[i] = x[p[i]] ** 2  # here
        for i in y:
            x[q[i]] = 0.0

    yield run.grad
    x.fill(1.0)
    assert taped(y, x, run).tolist() == [2.0, 2.0, 2.0, 0.0, 0.0, 0.0]
    q[2] = 5
    assert by_hand(run, y, x).tolist() == [2.0, 2.0, 0.0, 0.0, 0.0, 0.0], "x[2] was overwritten by the launch above"


@case(
    sg.NotDifferentiable,
    r"'x' read here, which another iteration.*may overwrite \(line \d+\): nothing says",
    "'x'",
    cure="store to another field",
)
def elements_by_a_table():
    """Overwrite the array of indices in the kernel itself, so that no check can find conflicts, even under a tape."""
    x, y, p = field(3, "x", V), field(3, "y"), field(3, "p", [2, 0, 1], sg.i32)

    @sg.kernel
    def run():
        for i in x:
            x[p[i]] = 2.0 * y[i]
            y[i] = x[i] ** 2  # here
            p[i] = 0

    yield lambda: taped(y, x, run)
    z = field(3, "z")

    @sg.kernel
    def elsewhere():
        for i in x:
            z[p[i]] = 2.0 * y[i]

    y.from_numpy(V)
    p.from_numpy(np.array([2, 0, 1], np.int32))
    assert by_hand(elsewhere, z, y).tolist() == [2.0, 2.0, 2.0]


# ---- adjoints and tangents used by the kernel itself ---------------------------------------------------------------


@case(
    sg.NotDifferentiable,
    r"the gradient needs the value of 'x\.grad' read here, which the kernel may overwrite later \(line \d+\)",
    "'x.grad'",
    cure="sg.ad.Tape",
)
def adjoint_in_the_kernel():
    x, y = field(3, "x", V), field(3, "y")

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * x.grad[i]  # here
            x.grad[i] = 0.0

    yield run.grad
    x.grad.fill(2.0)
    with sg.ad.Tape(y, seed=[1.0, 1.0, 1.0], clear_gradients=False):
        run()
    assert x.grad.to_numpy().tolist() == [2.0, 2.0, 2.0]


@case(
    sg.NotDifferentiable,
    r"'x' read here, which another iteration.*may overwrite \(line \d+\): nothing says",
    "'x'",
    cure="j = sg.assume_unique(j)",
)
def rewritten_by_a_table():
    """Refuse a gradient under a tape, where the cure must not recommend a tape."""
    x, p, loss = field(3, "x", 3.0), field(3, "p", [2, 0, 1], sg.i32), field((), "loss", 0.0)

    @sg.kernel
    def run():
        for i in x:
            j = p[i]
            x[j] = 2.0 * x[j] * x[j]  # here
            p[i] = 0

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i]

    yield lambda: taped(loss, x, run, total)

    @sg.kernel
    def unique():
        for i in x:
            j = sg.assume_unique(p[i])
            x[j] = 2.0 * x[j] * x[j]
            p[i] = 0

    x.fill(3.0)
    p.from_numpy(np.array([2, 0, 1], np.int32))
    assert taped(loss, x, unique, total).tolist() == [12.0, 12.0, 12.0]
