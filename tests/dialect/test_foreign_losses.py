"""A tape takes a tensor of torch as its loss. A stand-in for torch shows it without torch."""

from __future__ import annotations

import types

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
A = np.array([1.0, -2.0, 0.5])


class TorchTensor:
    """What the runtime asks of a torch tensor on the CPU."""

    __module__ = "torch"
    is_leaf, retains_grad, device = True, False, types.SimpleNamespace(type="cpu")
    dtype = types.SimpleNamespace(is_floating_point=True)

    def __init__(self, data: np.ndarray, requires_grad: bool = False) -> None:
        self.data, self.requires_grad, self.shape, self.ndim = data, requires_grad, data.shape, data.ndim
        self.grad: TorchTensor | None = None

    def is_contiguous(self) -> bool:
        return bool(self.data.flags.c_contiguous)

    def detach(self) -> TorchTensor:
        return TorchTensor(self.data)

    def numpy(self) -> np.ndarray:
        assert not self.requires_grad
        return self.data

    def new_zeros(self, shape) -> TorchTensor:
        return TorchTensor(np.zeros(shape, self.data.dtype))


def test_a_loss_that_is_a_torch_tensor() -> None:
    x, loss = TorchTensor(A.copy(), requires_grad=True), TorchTensor(np.zeros(1), requires_grad=True)

    @sg.kernel
    def k(x: sg.types.ndarray(dtype=sg.f64, ndim=1), loss: sg.types.ndarray(dtype=sg.f64, ndim=1)):
        for i in x:
            loss[0] += x[i] ** 2

    for tapes in (1, 2):
        with sg.ad.Tape(loss):
            k(x, loss)
        assert loss.data[0] == A @ A
        np.testing.assert_allclose(x.grad.data, tapes * 2 * A)
    with pytest.raises(sg.UsageError), sg.ad.Tape(TorchTensor(np.zeros(1))):
        pass
