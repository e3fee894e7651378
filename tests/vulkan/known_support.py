"""What the tests of known failures share: fields, a runtime for each test, and a comparison that sees lanes."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.vulkan.backend import VulkanBackend


@pytest.fixture
def runtime(vulkan: VulkanBackend) -> Iterator[None]:
    """A runtime on the device."""
    sg.init(arch=sg.vulkan, default_fp=sg.f64)
    yield
    sg.reset()


def fields(*shapes: Any, dtype: Any = None) -> list[Any]:
    """Fields of reals with gradients."""
    return [sg.field(dtype or sg.f64, shape=shape, needs_grad=True) for shape in shapes]


def near(found: np.ndarray, expected: np.ndarray, rtol: float = 1e-12) -> None:
    """Equal, but for rounding, and not all the same: a test in which every lane agrees shows nothing."""
    assert found.size == 1 or len(np.unique(expected)) > found.size // 4
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14)
