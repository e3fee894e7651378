"""Test kernels that read x.grad, in forward mode and at second order: x.grad is constant unless it has a tangent."""

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


def test_forward_mode(program):
    """In forward mode x.grad is constant too."""
    p = program
    with sg.ad.FwdMode(p.y, p.x, seed=[1.0, 0.0, 2.0], clear_gradients=False):
        p.weigh()
    assert p.y.dual.to_numpy().tolist() == (np.array([1.0, 0.0, 2.0]) * G**2).tolist()


def cubed(p):
    """Return a kernel that adds the sum of x³ to the loss."""

    @sg.kernel
    def cube():
        for i in p.x:
            p.loss[None] += p.x[i] ** 3

    return cube


def test_tangent_of_a_gradient_that_is_read(program):
    """A tape in forward mode gives x.grad a tangent, which a later launch that reads it carries on."""
    p, cube = program, cubed(program)
    with sg.ad.FwdMode(p.y, p.x, seed=[1.0, 1.0, 1.0]):
        with sg.ad.Tape(p.loss):
            cube()
        p.weigh()
    g = 3 * X**2
    assert p.y.dual.to_numpy().tolist() == (g**2 + X * 2 * g * 6 * X).tolist()


@pytest.mark.parametrize("by_hand", [False, True])
def test_second_order(program, by_hand):
    """The derivative of a gradient that reads x.grad: by x, and by what the tape has put there."""
    p, cube = program, cubed(program)
    with sg.ad.FwdMode(p.x.grad, p.x, seed=np.eye(3)) as mode:
        with sg.ad.Tape(p.loss):
            cube()
        if by_hand:
            p.weigh()
            p.y.grad.from_numpy(W)
            p.weigh.grad()
        else:
            with sg.ad.Tape(p.y, seed=W, clear_gradients=False):
                p.weigh()
    g, h = 3 * X**2, 6 * X
    assert p.x.grad.to_numpy().tolist() == (g + W * g**2).tolist()
    np.testing.assert_array_equal(mode.jacobian(), np.diag(h + W * 2 * g * h))


def test_second_order_of_a_constant(program):
    """Without a tangent of x.grad, the derivative of the gradient is that at fixed x.grad."""
    p = program

    @sg.kernel
    def run():
        for i in p.x:
            p.y[i] = p.x[i] ** 3 * p.x.grad[i] ** 2

    with (
        sg.ad.FwdMode(p.x.grad, p.x, seed=np.eye(3), clear_gradients=False) as mode,
        sg.ad.Tape(p.y, seed=W, clear_gradients=False),
    ):
        run()
    assert p.x.grad.to_numpy().tolist() == (G + W * 3 * X**2 * G**2).tolist()
    np.testing.assert_array_equal(mode.jacobian(), np.diag(W * 6 * X * G**2))


@pytest.mark.parametrize("uses_x", [False, True])
def test_second_order_of_what_is_overwritten(program, uses_x):
    """What a kernel overwrites in x.grad was constant, as no launch before it had given it a tangent."""
    p = program

    @sg.kernel
    def run():
        for i in p.w:
            p.y[i] = p.w[i] ** 2 * p.x.grad[i] ** 2 * (p.x[i] if sg.static(uses_x) else 1.0)
            p.x.grad[i] = 0.0

    with (
        sg.ad.FwdMode(p.w.grad, p.w, seed=np.eye(3), clear_gradients=False) as mode,
        sg.ad.Tape(p.y, seed=np.ones(3), clear_gradients=False),
    ):
        run()
    slope = 2 * G**2 * (X if uses_x else 1.0)
    assert p.w.grad.to_numpy().tolist() == (W * slope).tolist()
    np.testing.assert_array_equal(mode.jacobian(), np.diag(slope))


def test_second_order_of_a_gradient_that_is_data(program):
    """The launch reads x.grad without x; the tangent that a later gradient gives x.grad is not what it read."""
    p = program

    @sg.kernel
    def run():
        for i in p.w:
            p.y[i] = p.w[i] ** 2 * p.x.grad[i]

    with (
        sg.ad.FwdMode(p.w.grad, p.x, seed=np.ones(3), clear_gradients=False) as mode,
        sg.ad.Tape(p.loss, clear_gradients=False),
    ):
        run()
        p.total()
    assert p.w.grad.to_numpy().tolist() == (3 * W**2 * G).tolist()
    assert mode.jacobian().tolist() == [0.0, 0.0, 0.0]
