"""Fields, a runtime that records launches, and comparisons within bounds, for tests of known failures.

Results of the device are within the error bound of each element (recorded_support.py), closed forms within twice the
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import GRAD, bounded, near
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.capture import Capture, CapturedLaunch, capture
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing.bounds import BoundedResult


class Recorded:
    """Hold the recorded launches of a test; arrays are named as in kernels, such as `y` or `x.grad`."""

    def __init__(self, launches: Capture) -> None:
        self._launches = launches
        self._known: dict[int, BoundedResult] = {}

    def near(self, name: str, expected: np.ndarray) -> None:
        """Assert that the last launch left these values, except for rounding, and that they are not all equal."""
        number = self._last("reverse" if name.endswith(GRAD) else "forward")
        launch = self._launches.launches[number]
        expected = np.asarray(expected, np.float64).reshape(launch.after[name].shape)
        assert expected.size == 1 or len(np.unique(expected)) > expected.size // 4
        near(self._bounded(number), name, launch.after[name], expected)

    def all_near(self) -> None:
        """Assert that every launch changed something and that rounding explains all its results."""
        for number, launch in enumerate(self._launches.launches):
            assert any((array != launch.before[name]).any() for name, array in launch.after.items())
            for name, array in launch.after.items():
                near(self._bounded(number), name, array)

    def _last(self, kind: str, kernel: Kernel | None = None) -> int:
        """Return the number of the last launch of a kind, or of the last one of a kernel."""
        launches = list(enumerate(self._launches.launches))
        return next(k for k, one in reversed(launches) if one.kind == kind and kernel in (None, one.kernel))

    def _bounded(self, number: int) -> BoundedResult:
        if number not in self._known:
            self._known[number] = self._run(self._launches.launches[number])
        return self._known[number]

    def _run(self, launch: CapturedLaunch) -> BoundedResult:
        """Return the bounded result of a launch; a gradient starts from the last forward launch's result."""
        kernel = launch.kernel
        return bounded(launch, None if launch.kind == "forward" else self._bounded(self._last("forward", kernel)))


@pytest.fixture
def recorded(vulkan: VulkanBackend) -> Iterator[Recorded]:
    """Start the runtime on the device, and record its launches."""
    sg.init(arch=sg.vulkan, default_fp=sg.f64)
    with capture(limit=100) as launches:
        yield Recorded(launches)
    sg.reset()


def fields(*shapes: Any, dtype: Any = None) -> list[Any]:
    """Return fields of reals with gradients."""
    return [sg.field(dtype or sg.f64, shape=shape, needs_grad=True) for shape in shapes]
