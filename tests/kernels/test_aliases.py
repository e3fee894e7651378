"""Test kernels whose arguments are the same array twice, gradients, or captured arrays: results are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def arch() -> None:
    """Each test starts the executor that it names."""


NAMES = ("field", "field.grad", "other", "ndarray", "ndarray.grad", "captured", "captured.grad", "numpy", "vector")


class Pool:
    """Hold arrays of three small integers, and NumPy arrays with the same contents.

    A launch halves and adds numbers; a few launches in a row are exact in f64.
    """

    def __init__(self) -> None:
        field, other, captured = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(3))
        ndarray = sg.ndarray(sg.f64, 3, needs_grad=True)
        arrays = dict(zip(NAMES, (field, field.grad, other, ndarray, ndarray.grad, captured, captured.grad)))
        self.given: dict[str, Any] = {**arrays, "numpy": np.zeros(3), "vector": sg.ndarray(sg.f64, 3)}
        self.expected = {name: np.arange(3.0) + position for position, name in enumerate(self.given)}
        for name, array in self.given.items():
            if isinstance(array, np.ndarray):
                array[:] = self.expected[name]
            else:
                array.from_numpy(self.expected[name])

        @sg.kernel
        def by_type(a: sg.types.ndarray(), b: sg.types.ndarray(), c: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
            for _ in range(1):
                for i in range(3):
                    a[i] += 2.0 * b[i]
                    c[i] = 0.5 * a[i] + b[2 - i] + captured[i]

        @sg.kernel
        def by_template(a: sg.template(), b: sg.template(), c: sg.Tensor):  # type: ignore[valid-type, no-untyped-def]
            for _ in range(1):
                for i in range(3):
                    a[i] += 2.0 * b[i]
                    c[i] = 0.5 * a[i] + b[2 - i] + captured[i]

        self.kernels = (by_type, by_template)

    def launch(self, kernel: int, names: tuple[str, str, str]) -> None:
        self.kernels[kernel](*(self.given[name] for name in names))
        a, b, c = (self.expected[name] for name in names)
        for i in range(3):
            a[i] += 2.0 * b[i]
            c[i] = 0.5 * a[i] + b[2 - i] + self.expected["captured"][i]

    def check(self) -> None:
        for name, array in self.given.items():
            content = array if isinstance(array, np.ndarray) else array.to_numpy()
            assert np.array_equal(content, self.expected[name]), name


def _run(calls: list[tuple[int, tuple[str, str, str]]]) -> None:
    pool = Pool()
    for kernel, names in calls:
        pool.launch(kernel, names)
        pool.check()


_CALLS = st.lists(st.tuples(st.integers(0, 1), st.tuples(*[st.sampled_from(NAMES)] * 3)), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None, database=None)
@given(_CALLS)
def test_any_arrays_in_any_places_on_the_reference(calls: list[tuple[int, tuple[str, str, str]]]) -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    _run(calls)


@settings(max_examples=8, deadline=None, database=None)
@given(_CALLS)
def test_any_arrays_in_any_places_on_cpu(calls: list[tuple[int, tuple[str, str, str]]]) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    _run(calls)
