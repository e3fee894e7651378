"""Rounding of f64 where a driver's own Trunc and RoundEven are wrong: signs of zeros, ties, and large numbers."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from stackgrad.backends.vulkan.backend import VulkanBackend

VALUES = np.array(
    [1.75, -1.75, 0.9, -0.9, 0.25, -0.25, 0.5, -0.5, 1.5, 2.5, -2.5, 7.5, 8.5, 0.0, -0.0, 166706.9, 2**31 - 0.25]
    + [2**31 + 0.75, -(2**31) - 0.5, 2**52 - 0.5, 2**52 + 1.0, -(2**53) + 1.0, 1e300, np.inf, -np.inf, np.nan]
)


def test_rounding_is_that_of_numpy(vulkan: VulkanBackend) -> None:
    sg.init(arch=sg.vulkan)
    x, low, high, near = (sg.field(sg.f64, VALUES.size) for _ in range(4))
    x.from_numpy(VALUES)

    @sg.kernel
    def k():
        for i in x:
            low[i], high[i], near[i] = sg.floor(x[i]), sg.ceil(x[i]), sg.round(x[i])

    k()
    for found, function in ((low, np.floor), (high, np.ceil), (near, np.round)):
        expected = function(VALUES)
        np.testing.assert_array_equal(found.to_numpy(), expected)
        np.testing.assert_array_equal(np.signbit(found.to_numpy()), np.signbit(expected))
