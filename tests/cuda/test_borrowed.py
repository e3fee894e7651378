"""Test GPU arrays of other libraries as arguments: kernels use them without a copy, after the library's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver


class Lent:
    """Represent an array of another library, filled with one number on a stream of that library."""

    def __init__(self, driver: EmulatedDriver, n: int, stream: int | None, constant: bool = False) -> None:
        self.driver, self.bytes, self.stream = driver, 4 * n, stream
        self.address = driver.allocate(self.bytes)
        self.__cuda_array_interface__ = {
            "shape": (n,),
            "typestr": "<f4",
            "data": (self.address, constant),
            "version": 3,
            "stream": stream,
        }

    def fill(self, value: float) -> None:
        pattern = int(np.float32(value).view(np.uint32))
        self.driver.fill(self.address, pattern, 4, self.bytes // 4, self.stream)

    def read(self) -> np.ndarray:
        found = np.empty(self.bytes // 4, np.float32)
        self.driver.copy_out(found.__array_interface__["data"][0], self.address, self.bytes, self.stream)
        return found


def twice() -> Any:
    @sg.kernel
    def double(a: sg.types.ndarray(dtype=sg.f32, ndim=1)):
        for i in range(a.shape[0]):
            a[i] = a[i] * 2.0

    return double


def test_launches_are_between_the_owners_work() -> None:
    with runtime() as (_, driver):
        double = twice()
        for stream in (0, driver.new_stream()):
            lent = Lent(driver, 100, stream)
            for k in range(6):
                lent.fill(k)
                double(lent)
                driver.wait(stream)  # of the owner's stream alone
                assert (lent.read() == 2 * k).all()
        assert driver.counts["copy in"] == 0


def test_work_that_is_over_needs_no_order() -> None:
    with runtime() as (_, driver):
        double, lent = twice(), Lent(driver, 10, None)
        lent.fill(3.0)
        driver.wait_all()
        double(lent)
        double(lent)
        sg.sync()
        assert (lent.read() == 12).all()


def test_beside_fields_and_arrays_of_the_host() -> None:
    with runtime() as (_, driver):
        total = sg.field(sg.f32, ())

        @sg.kernel
        def add(a: sg.types.ndarray(dtype=sg.f32, ndim=1), b: sg.types.ndarray(dtype=sg.f32, ndim=1)):
            for i in range(a.shape[0]):
                total[None] += a[i] * b[i]
                b[i] = a[i]

        lent, own, host = Lent(driver, 5, 0), sg.ndarray(sg.f32, 5), np.full(5, 2.0, np.float32)
        lent.fill(3.0)
        own.fill(1.0)
        add(lent, own)
        add(lent, host)
        assert total[None] == 15 + 30
        assert (own.to_numpy() == 3).all() and (host == 3).all()


def test_constants_are_not_written() -> None:
    with runtime() as (_, driver), pytest.raises(sg.StackgradError, match="cannot be written|not .*writable"):
        twice()(Lent(driver, 5, None, constant=True))


@pytest.mark.parametrize(
    "look",
    [
        lambda m: m[0],
        lambda m: m + 1,
        lambda m: m.item(0),
        list,
        np.sum,
        lambda m: m.astype(int),
        lambda m: m.tolist(),
        lambda m: m.__setitem__(0, 1),
    ],
)
def test_the_host_cannot_touch_the_memory(look: Callable[[Any], Any]) -> None:
    with runtime() as (backend, driver):
        lent = Lent(driver, 4, None)
        lent.fill(1.5)
        memory = backend.borrow(lent.__cuda_array_interface__, lent, None)
        with pytest.raises(sg.Unsupported, match="on the GPU"):
            look(memory)
        assert (memory.copy() == 1.5).all() and (np.zeros_like(memory) == 0).all()


def test_what_kernels_cannot_address_is_refused() -> None:
    with runtime() as (_, driver):
        strided = Lent(driver, 8, None)
        strided.__cuda_array_interface__ |= {"shape": (4,), "strides": (8,)}
        with pytest.raises(sg.StackgradError, match="not contiguous"):
            twice()(strided)
    sg.init(arch=sg.cpu)
    with pytest.raises(sg.StackgradError, match="is no array"):
        twice()(strided)


def test_arrays_of_ours_are_lent() -> None:
    with runtime() as (backend, driver):
        x = sg.field(sg.f32, (2, 3))
        v = sg.Vector.field(2, sg.f64, shape=5, layout=sg.Layout.SOA)
        stream = driver.new_stream()
        found = x.__cuda_array_interface__
        assert found["data"][0] == x.buffer.__array_interface__["data"][0] and found["strides"] is None
        assert (found["shape"], found["typestr"], found["stream"]) == ((2, 3), "<f4", 1)
        with sg.cuda.stream(stream):
            assert v.__cuda_array_interface__["stream"] == stream
        assert v.__cuda_array_interface__["shape"] == (5, 2) and v.__cuda_array_interface__["strides"] == (8, 40)
        assert x.exported and v.storage.exported
        assert not hasattr(sg.from_dlpack(np.zeros(3)), "__cuda_array_interface__")
    sg.init(arch=sg.cpu)
    assert not hasattr(sg.field(sg.f32, 3), "__cuda_array_interface__")
