"""Test programs that read x.grad: under a tape, a gradient reads what its launch read; by hand, the present contents.

In all programs x.grad changes between the launch that reads it and the gradient of this launch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends

sys.path.insert(0, str(Path(__file__).parent))

from gradient_read_programs import G, W, X, make_program  # noqa: E402


@pytest.fixture(params=["reference", "cpu", "vulkan"], autouse=True)
def arch(request):
    if request.param == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()


@pytest.fixture
def program(arch):
    return make_program()


def test_tape_gives_what_the_launch_found(program):
    """The gradient of `total` adds 2 x to x.grad before that of `weigh` runs, which still sees G."""
    p = program
    with sg.ad.Tape(p.loss, clear_gradients=False):
        p.weigh()
        p.total()
    assert p.y.to_numpy().tolist() == (X * G**2).tolist()
    assert p.x.grad.to_numpy().tolist() == (G + 2 * X + W * G**2).tolist()
    assert p.w.grad.to_numpy().tolist() == (X * G**2).tolist()


def test_tape_that_clears_gradients(program):
    """On entry x.grad becomes 0, and that is what the launch reads."""
    p = program
    with sg.ad.Tape(p.loss):
        p.weigh()
        p.total()
    assert not p.y.to_numpy().any()
    assert p.x.grad.to_numpy().tolist() == (2 * X).tolist()


def test_two_launches_share_one_copy(program):
    """Both launches find the same x.grad, which is saved once; a write between them makes a second copy."""
    p = program
    with sg.ad.Tape(p.loss, clear_gradients=False) as tape:
        p.weigh()
        p.weigh()
        p.total()
    assert tape.used_bytes == p.x.grad.to_numpy().nbytes
    p.reset()
    with sg.ad.Tape(p.loss, clear_gradients=False) as tape:
        p.weigh()
        p.x.grad.fill(2.0)
        p.weigh()
        p.total()
    assert tape.used_bytes == 2 * p.x.grad.to_numpy().nbytes
    assert p.x.grad.to_numpy().tolist() == (2.0 + 2 * X + W * 4.0).tolist()


def test_budget_names_the_gradient(program):
    """Copies of gradients count against the budget of the tape."""
    p = program
    with (
        pytest.raises(sg.TapeError, match=r"over its budget.*the gradient of kernel weigh.* x\.grad"),
        sg.ad.Tape(p.loss, clear_gradients=False, budget_bytes=8),
    ):
        p.weigh()


def test_by_hand_gives_what_is_there_now(program):
    """The gradient reads x.grad as it is when it starts, in each of two launches in a row."""
    p = program
    p.weigh()
    expected = G
    for _ in range(3):
        p.y.grad.from_numpy(W)
        p.weigh.grad()
        expected = expected + W * expected**2
        np.testing.assert_array_equal(p.x.grad.to_numpy(), expected)
    p.x.grad.fill(0.25)
    p.y.grad.from_numpy(W)
    p.weigh.grad()
    assert p.x.grad.to_numpy().tolist() == (0.25 + W * 0.0625).tolist()


def test_no_copy_where_the_value_is_not_needed(program):
    """A step of gradient descent is linear in x, and its gradient takes no copy of x.grad."""
    p = program

    @sg.kernel
    def step():
        for i in p.x:
            p.x[i] -= 0.5 * p.x.grad[i]

    with sg.ad.Tape(p.loss, clear_gradients=False) as tape:
        step()
        p.total()
    assert tape.used_bytes == 0
    assert p.x.to_numpy().tolist() == (X - 0.5 * G).tolist()
    assert p.x.grad.to_numpy().tolist() == (G + 2 * (X - 0.5 * G)).tolist()
    assert not step.lowered_grad().states
    p.reset()
    step()
    step.grad()
    assert p.x.grad.to_numpy().tolist() == G.tolist()


def test_descent_converges(program):
    """Tapes and steps in turn, as a program of Quadrants has them, with the step inside of the next block."""
    p = program

    @sg.kernel
    def square():
        for i in p.x:
            p.loss[None] += p.x[i] ** 2

    @sg.kernel
    def step():
        for i in p.x:
            p.x[i] -= 0.25 * p.x.grad[i]
            p.x.grad[i] = 0.0

    p.x.grad.fill(0.0)
    for _ in range(4):
        with sg.ad.Tape(p.loss, clear_gradients=False):
            step()
            square()
        assert p.x.grad.to_numpy().tolist() == (2 * p.x.to_numpy()).tolist()
    assert p.x.to_numpy().tolist() == (X / 8).tolist()


def test_written_gradients(program):
    """A kernel reads x.grad and then clears it: the tape has what it read; by hand this is gone, and refused."""
    p, x, y = program, program.x, program.y

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * x.grad[i] ** 2
            x.grad[i] = 0.0

    with sg.ad.Tape(p.loss, clear_gradients=False):
        run()
        p.total()
    assert p.x.grad.to_numpy().tolist() == (2 * X + W * G**2).tolist()
    reason = r"the gradient needs the value of 'x.grad' read here, which the kernel may overwrite later"
    with pytest.raises(sg.NotDifferentiable, match=reason):
        run.grad()


def test_written_at_computed_places(program):
    """Marks look whether what was read has been overwritten, in x.grad as in every other array."""
    p, x, y = program, program.x, program.y
    table = sg.field(sg.i32, shape=3)

    @sg.kernel
    def run():
        for _ in range(1):
            for i in range(3):
                y[i] = x[i] * x.grad[i] ** 2
                x.grad[table[i]] = 7.0

    table.from_numpy(np.array([0, 0, 0], np.int32))
    with sg.ad.Tape(p.loss, clear_gradients=False):
        run()
        p.total()
    assert p.x.grad.to_numpy().tolist() == (np.array([7.0, -1.0, 0.5]) + 2 * X + W * G**2).tolist()
    with pytest.raises(sg.NotDifferentiable, match=r"the gradient needs the value of x\.grad\[0\] read here"):
        run.grad()


def test_stored_gradients_are_data(program):
    """What a kernel stores to x.grad has no derivative; the backward pass finds it there, and adds to it."""
    p = program

    @sg.kernel
    def run():
        for i in p.x:
            p.x.grad[i] = p.x[i] ** 2
            p.y[i] = p.x[i] * p.x.grad[i]

    with sg.ad.Tape(p.loss):
        run()
        p.total()
    assert p.y.to_numpy().tolist() == (X**3).tolist()
    assert p.x.grad.to_numpy().tolist() == (X**2 + 2 * X + W * X**2).tolist()


def test_gradient_of_an_array_that_the_kernel_does_not_use(program):
    """The launch reads x.grad but not x; another gradient has updated x.grad by the time its own runs."""
    p = program

    @sg.kernel
    def run():
        for i in p.w:
            p.y[i] = p.w[i] * p.x.grad[i] if p.x.grad[i] > 0.0 else p.w[i]

    with sg.ad.Tape(p.loss, clear_gradients=False):
        run()
        p.total()
    y = np.where(G > 0, W * G, W)
    assert p.w.grad.to_numpy().tolist() == (y + W * np.where(G > 0, G, 1.0)).tolist()


def test_gradient_as_an_argument(program):
    """x.grad is passed as an array, beside x and alone."""
    p = program
    x = sg.ndarray(sg.f64, 3, needs_grad=True)

    @sg.kernel
    def both(x: sg.types.ndarray(), g: sg.types.ndarray()):
        for i in x:
            p.y[i] += x[i] * g[i] ** 2

    @sg.kernel
    def alone(g: sg.types.ndarray()):
        for i in g:
            p.w[i] = p.w[i] * g[i]

    @sg.kernel
    def more(x: sg.types.ndarray()):
        for i in x:
            p.loss[None] += p.y[i] * p.w[i] + x[i] ** 2

    x.from_numpy(X)
    x.grad.from_numpy(G)
    with sg.ad.Tape(p.loss, clear_gradients=False):
        both(x, x.grad)
        alone(x.grad)
        more(x)
    assert x.grad.to_numpy().tolist() == (G + 2 * X + W * G * G**2).tolist()
    assert p.w.grad.to_numpy().tolist() == (X * G**2 * G).tolist()


def test_kernel_without_gradient_reads_one(program):
    """An optimizer under no_grad overwrites x by means of x.grad: adjoints of what it replaced end there."""
    p = program

    @sg.ad.no_grad
    @sg.kernel
    def step():
        for i in p.x:
            if p.x.grad[i] > 0.0:
                p.x[i] = p.x.grad[i]

    with sg.ad.Tape(p.loss, clear_gradients=False):
        p.total()
        step()
        p.total()
    wanted = np.where(G > 0, 2 * X, G + 4 * X)
    assert p.x.grad.to_numpy().tolist() == wanted.tolist()


def test_tape_that_is_kept(program):
    """The second backward pass finds the same copies; a replay reads x.grad as it is then."""
    p = program
    tape = sg.ad.Tape(p.loss, clear_gradients=False, retain=True)
    with tape:
        p.weigh()
        p.total()
    once = 2 * X + W * G**2
    tape.grad()
    assert p.x.grad.to_numpy().tolist() == (G + 2 * once).tolist()


def test_grad_check(program):
    """Differences start from the gradients that the tape has cleared, as the block does."""
    p = program

    @sg.kernel
    def run():
        for i in p.x:
            p.loss[None] += p.x[i] ** 3 * (1.0 + p.x.grad[i] ** 2)

    assert sg.ad.grad_check(p.loss, [p.x], run).ok
    p.x.grad.from_numpy(G)
    with sg.ad.Tape(p.loss, grad_check=[p.x]):
        run()
    assert p.x.grad.to_numpy().tolist() == (3 * X**2).tolist()


def test_graph_of_launches_refuses_copies(program):
    """A recorded graph cannot contain a copy that the host makes."""
    from stackgrad.launch.graphs import LaunchRecorder
    from stackgrad.runtime.session import RUNTIME

    p = program
    p.weigh()
    RUNTIME.capture = LaunchRecorder()
    try:
        with pytest.raises(sg.Unsupported, match=r"reads a copy of x\.grad, which the host makes"):
            p.weigh.grad()
    finally:
        RUNTIME.capture = None


def test_reading_a_gradient_is_no_use_of_its_array(program):
    """A launch that reads x.grad as data does not use x, so what the host then writes to x is its first content."""
    p = program

    @sg.kernel
    def run():
        for i in p.w:
            p.y[i] = p.w[i] * p.x.grad[i]

    with sg.ad.Tape(p.loss, clear_gradients=False):
        run()
        p.x.fill(5.0)
        p.total()
    assert p.x.grad.to_numpy().tolist() == (G + 10.0).tolist()
    assert p.w.grad.to_numpy().tolist() == (2 * W * G).tolist()


def test_derivatives_that_are_returned(program):
    """What launches store to x.grad is no part of a derivative that is returned or checked."""
    p = program

    @sg.kernel
    def run():
        for i in p.x:
            p.y[i] = p.x[i] ** 3 * (1.0 + p.x.grad[i])
            p.x.grad[i] = 2.0 * p.x[i]

    p.x.grad.fill(0.0)
    slopes = 3 * X**2
    assert sg.ad.vjp(p.y, p.x, run, W).tolist() == (W * slopes).tolist()
    p.x.grad.fill(0.0)
    np.testing.assert_array_equal(sg.ad.jacobian(p.y, p.x, run, "reverse"), np.diag(slopes))
    assert sg.ad.hvp(p.y, p.x, run, np.ones(3), seed=W).tolist() == (W * 6 * X).tolist()
    assert sg.ad.grad_check(p.y, p.x, run, seed=W).ok
