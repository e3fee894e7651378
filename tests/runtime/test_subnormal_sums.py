"""Sums of numbers below the normal range: precise programs keep them."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

LEAST = {sg.f32: 2.0**-149, sg.f64: 2.0**-1074}


@pytest.mark.parametrize("dtype", list(LEAST), ids=str)
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_a_sum_of_many(dtype, n):
    sg.init(arch=sg.cpu, default_fp=dtype, precise=True)
    x, s, each = sg.field(dtype, n), sg.field(dtype, ()), sg.field(dtype, n)
    x.fill(LEAST[dtype])
    s[None] = -LEAST[dtype]
    each.fill(3 * LEAST[dtype])

    @sg.kernel
    def total():
        for i in x:
            s[None] += x[i]
            each[i] += 0

    total()
    assert s[None] == (n - 1) * LEAST[dtype]
    assert np.all(each.to_numpy() == 3 * LEAST[dtype])
