"""How many bytes a tape keeps."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import near_sines


@pytest.mark.parametrize("arch", ["reference", "cpu"])
def test_an_in_place_kernel_keeps_its_array_once_a_launch(arch):
    """x is kept before each launch; the copy serves that launch's gradient, and no later write destroys it."""
    sg.init(arch=arch, default_fp=sg.f64)
    x, loss = sg.field(sg.f64, 5, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(np.linspace(0.2, 1.0, 5))

    @sg.kernel
    def step():
        for i in x:
            x[i] = sg.sin(x[i])

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i]

    used = []
    with sg.ad.Tape(loss) as tape:
        for _ in range(3):
            step()
            used.append(tape.used_bytes)
        total()
    assert used == [40, 80, 120]
    near_sines(np.linspace(0.2, 1.0, 5), 3, slope=x.grad.to_numpy())
