"""Test `sg.torch.wrap` and torch tensors on tapes, if torch is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
import torch

sys.path.append(str(Path(__file__).parent))
from wrapped_kernels import Scaled, gather, in_place, many_shares, noise, recurrence  # noqa: E402


def tensors(dtype: Any = torch.float64) -> tuple[Any, Any]:
    x = torch.tensor([0.1, 0.5, 0.9], dtype=dtype, requires_grad=True)
    w = torch.tensor([1.1, 0.9, 0.7], dtype=dtype, requires_grad=True)
    return x, w


def test_gradients() -> None:
    f = sg.torch.wrap(recurrence, out="y")
    assert torch.autograd.gradcheck(lambda x, w: f(x, w, 3), tensors())


def test_chained_with_other_functions() -> None:
    f, (x, w), (x2, w2) = sg.torch.wrap(recurrence, out="y"), tensors(), tensors()
    torch.exp(f(torch.cos(x), w, 2)).sum().backward()
    v = torch.cos(x2)
    for k in range(2):
        v = torch.sin(v * w2[k])
    torch.exp(v).sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(w.grad, w2.grad)


def test_integers_several_results_and_single_precision() -> None:
    at = torch.tensor([2, 0, 2], dtype=torch.int32)
    f = sg.torch.wrap(gather, out={"y": lambda x, at: (at.shape, x.dtype), "z": lambda x, at: ((len(at), 2), x.dtype)})
    x, _ = tensors(torch.float32)
    y, z = f(x, at)
    assert y.dtype == z.dtype == torch.float32
    (y.sum() + z.sum()).backward()
    torch.testing.assert_close(x.grad, torch.tensor([3.2, 0.0, 9.6]))


def test_random_numbers_are_replayed() -> None:
    f, (x, _) = sg.torch.wrap(noise, out="y"), tensors()
    first, second = f(x), f(x)
    first.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), first.detach())
    assert not torch.equal(first, second)


def test_fields_of_methods() -> None:
    s, (x, _) = Scaled(4.0), tensors()
    f = sg.torch.wrap(s.apply, out="y")
    f(x).sum().backward()
    assert x.grad.tolist() == [4, 4, 4] and s.factor.grad[None] == pytest.approx(1.5)
    y = f(x).sum()
    s.factor[None] = 5
    with pytest.raises(sg.ArgumentError, match="was written since its launch"):
        y.backward()


def test_strided_tensors_and_stores_to_arguments() -> None:
    f = sg.torch.wrap(recurrence, out="y")
    x = torch.arange(6.0, dtype=torch.float64).reshape(3, 2).requires_grad_()
    f(x[:, 1], tensors()[1], 1).sum().backward()
    assert x.grad[:, 0].abs().sum() == 0 and x.grad[:, 1].abs().sum() > 0
    with pytest.raises(sg.ArgumentError, match="stores to its argument x"):
        sg.torch.wrap(in_place, out="y")(tensors()[0])


@sg.kernel
def total(x: sg.types.ndarray(), loss: sg.types.ndarray()):
    for i in range(x.shape[0]):
        loss[0] += x[i] ** 2


def test_losses_of_tapes() -> None:
    x, loss = tensors()[0], torch.zeros(1, dtype=torch.float64, requires_grad=True)
    with sg.ad.Tape(loss):
        total(x, loss)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert loss.item() == pytest.approx(1.07)
    with sg.ad.Tape(loss, seed=[3.0]):
        total(x, loss)
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy())
    with pytest.raises(sg.TapeError, match="does not require a gradient"):
        sg.ad.Tape(torch.zeros(1))
    with pytest.raises(sg.TapeError, match=r"has shape \(2,\), not one element"):
        sg.ad.Tape(torch.zeros(2, requires_grad=True))
    with pytest.raises(sg.TapeError, match="torch.int64, which has no gradient"):
        sg.ad.Tape(torch.zeros(1, dtype=torch.int64))


def test_half_precision() -> None:
    """Gradients of f16 tensors are summed in f32, over launches too, and rounded into what torch holds."""
    x = torch.ones(1, dtype=torch.float16, requires_grad=True)
    sg.torch.wrap(many_shares, out={"y": ((1,), torch.float32)})(x).sum().backward()
    assert x.grad.dtype == torch.float16 and x.grad.tolist() == [156.25]
    x.grad = None
    loss = sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def little(x: sg.types.ndarray()):
        for _ in range(1):
            loss[None] += sg.cast(x[0] * sg.cast(0.015625, sg.f16), sg.f32)

    with sg.ad.Tape(loss):
        for _ in range(4096):
            little(x)
    assert x.grad.tolist() == [64.0]


def test_a_loss_in_half_precision() -> None:
    x = torch.ones(1, dtype=torch.float16, requires_grad=True)
    loss = torch.zeros(1, dtype=torch.float16, requires_grad=True)

    @sg.kernel
    def square(x: sg.types.ndarray(), loss: sg.types.ndarray()):
        for _ in range(1):
            loss[0] += x[0] * x[0]

    with sg.ad.Tape(loss):
        square(x, loss)
    assert x.grad.tolist() == [2.0]
