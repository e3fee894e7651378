"""Boxes that launches touch are kept by scalar arguments: a second tape over the same steps gives the same gradient."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.launch.bound import KeptBoxes


@pytest.mark.parametrize("limit", [1, 3, 4096])
def test_steps_that_overwrite_and_come_again(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step t squares x[t] twice, so that the tape must save it: x[t + 1] gets x[t]**4, and the loss is their sum."""
    monkeypatch.setattr(KeptBoxes, "LIMIT", limit)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    x, loss = sg.field(sg.f64, 6, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def square(t: int):
        for _ in range(1):
            x[t] = x[t] * x[t]

    @sg.kernel
    def add(t: int):
        for _ in range(1):
            loss[None] += x[t]

    start = np.linspace(0.5, 1.0, 6)
    for _ in range(3):
        x.from_numpy(start)
        with sg.ad.Tape(loss):
            for t in range(6):
                square(t)
                square(t)
                add(t)
        assert loss[None] == pytest.approx((start**4).sum(), rel=1e-14)
        np.testing.assert_allclose(x.grad.to_numpy(), 4 * start**3, rtol=1e-14)
