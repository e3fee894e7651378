"""Test the losses of tapes: every kind of loss, several losses with weights, any shape with seeds; mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

A = np.array([1.0, -2.0, 0.5])


class Program:
    """Represent a program p[None] += sum a^2, q[None] += sum a^3, y[i] = sin(a[i])."""

    def __init__(self) -> None:
        self.a = sg.field(sg.f64, 3, needs_grad=True, name="a")
        self.p, self.q = (sg.field(sg.f64, (), needs_grad=True) for _ in range(2))
        self.y = sg.field(sg.f64, 3, needs_grad=True, name="y")
        self.a.from_numpy(A)
        a, p, q, y = self.a, self.p, self.q, self.y

        @sg.kernel
        def sums():
            for i in a:
                p[None] += a[i] ** 2
                q[None] += a[i] ** 3

        @sg.kernel
        def waves():
            for i in a:
                y[i] = sg.sin(a[i])

        self.sums, self.waves = sums, waves

    def gradient(self) -> np.ndarray:
        return np.asarray(self.a.grad.to_numpy())


def test_weighted_losses() -> None:
    p = Program()
    with sg.ad.Tape(loss=[p.p, p.q], weights=[2.0, -0.5]):
        p.sums()
    np.testing.assert_allclose(p.gradient(), 4 * A - 1.5 * A**2)
    with sg.ad.Tape([p.p, p.q]):
        p.sums()
    np.testing.assert_allclose(p.gradient(), 2 * A + 3 * A**2)


def test_seeds() -> None:
    p, seed = Program(), np.array([1.0, 10.0, 100.0])
    with sg.ad.Tape(p.y, seed=seed):
        p.waves()
    np.testing.assert_allclose(p.gradient(), seed * np.cos(A))
    with sg.ad.Tape([p.y, p.p], seed=[seed, None], weights=[1.0, 3.0]):
        p.waves()
        p.sums()
    np.testing.assert_allclose(p.gradient(), seed * np.cos(A) + 6 * A)


def test_one_element_of_any_rank() -> None:
    a = sg.field(sg.f64, (), needs_grad=True)
    loss = sg.field(sg.f64, (1, 1), needs_grad=True)

    @sg.kernel
    def square():
        loss[0, 0] += a[None] ** 2

    a[None] = 3
    with sg.ad.Tape(loss):
        square()
    assert a.grad[None] == 6


def test_vector_losses() -> None:
    a, out = (sg.Vector.field(2, sg.f64, shape=3, needs_grad=True) for _ in range(2))

    @sg.kernel
    def square():
        for i in a:
            out[i] = a[i] * a[i]

    content, seed = np.arange(6.0).reshape(3, 2), np.ones((3, 2)) * [1.0, -1.0]
    a.from_numpy(content)
    with sg.ad.Tape(out, seed=seed):
        square()
    np.testing.assert_allclose(a.grad.to_numpy(), 2 * content * seed)


@sg.kernel
def total(x: sg.types.ndarray(), loss: sg.types.ndarray()):
    for i in range(x.shape[0]):
        loss[0] += x[i] ** 2


def test_ndarray_losses_do_not_accumulate_over_tapes() -> None:
    x, loss = sg.ndarray(sg.f64, 3, needs_grad=True), sg.ndarray(sg.f64, 1, needs_grad=True)
    x.from_numpy(A)
    for _ in range(3):
        with sg.ad.Tape(loss):
            total(x, loss)
        np.testing.assert_allclose(x.grad.to_numpy(), 2 * A)
        assert loss[0] == pytest.approx((A**2).sum())
    with sg.ad.Tape(loss, clear_gradients=False):
        total(x, loss)
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * A)


def test_ndarrays_that_the_block_overwrites() -> None:
    """The gradient is taken at the content that each launch saw."""
    x, loss = sg.ndarray(sg.f64, 3, needs_grad=True), sg.ndarray(sg.f64, 1, needs_grad=True)
    x.from_numpy(A)
    with sg.ad.Tape(loss):
        total(x, loss)
        x.from_numpy(10 * A)
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * A)
    np.testing.assert_allclose(x.to_numpy(), 10 * A)


def test_clear_all_gradients_by_type() -> None:
    x = sg.field(sg.f64, 2, needs_grad=True, needs_dual=True)
    n = sg.ndarray(sg.f64, 2, needs_grad=True)
    kinds = sg.ad.SNodeGradType
    for array in (x.grad, x.dual, n.grad):
        array.fill(1)
    sg.ad.clear_all_gradients(gradient_type=kinds.DUAL)
    assert x.dual.to_numpy().sum() == 0 and x.grad.to_numpy().sum() == 2
    sg.ad.clear_all_gradients(kinds.ADJOINT_CHECKBIT)
    sg.ad.clear_all_gradients("adjoint")
    assert x.grad.to_numpy().sum() == 0 and n.grad.to_numpy().sum() == 0
    with pytest.raises(sg.OptionError, match="gradients of type 'primal'"):
        sg.ad.clear_all_gradients("primal")


MISTAKES: dict[str, Callable[[Program], Any]] = {
    "needs a loss, not None": lambda p: sg.ad.Tape(None),
    "the list is empty": lambda p: sg.ad.Tape([]),
    "a loss is given twice": lambda p: sg.ad.Tape([p.p, p.p]),
    "weights does not fit 2 losses": lambda p: sg.ad.Tape([p.p, p.q], weights=[1.0]),
    "the weight 'much' of a loss is no number": lambda p: sg.ad.Tape(p.p, weights="much"),
    r"has shape \(3,\), not one element": lambda p: sg.ad.Tape(p.y),
    r"the seed of field 'y' has shape \(2,\), not \(3,\)": lambda p: sg.ad.Tape(p.y, seed=[1.0, 2.0]),
    "the seed of field 'y' is no array of numbers": lambda p: sg.ad.Tape(p.y, seed="ones"),
    "NumPy array, which has no gradient": lambda p: sg.ad.Tape(np.zeros(1)),
    "the loss is a field, not float": lambda p: sg.ad.Tape(1.0),
    "has no gradient": lambda p: sg.ad.Tape(sg.ndarray(sg.f64, 1)),
    "of i32, which has no gradient": lambda p: sg.ad.Tape(sg.ndarray(sg.i32, 1)),
    "before the tape's block has ended": lambda p: sg.ad.Tape(p.p).replay(),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(words: str) -> None:
    with pytest.raises(sg.TapeError, match=words) as caught:
        MISTAKES[words](Program())
    assert "cure" in str(caught.value)
