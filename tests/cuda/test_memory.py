"""Memory that host and device share: reads and writes of the host are right while launches are in flight."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import left, runtime
from stackgrad.backends.device.shared_memory import owner_of


def test_memory_of_fields_and_ndarrays_is_managed() -> None:
    with runtime() as (backend, _):
        x, a = sg.field(sg.f32, (3, 4), needs_grad=True), sg.ndarray(sg.i64, 5)
        for array in (x, x.grad, a):
            assert owner_of(array.buffer) is not None
            assert owner_of(array.buffer[1:]) is owner_of(array.buffer)
            assert backend.is_own(array.buffer)
        assert owner_of(np.zeros(3)) is None
        assert (x.to_numpy() == 0).all() and x.to_numpy().base is None


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64"])
def test_elements_and_fills_of_every_type(dtype: str) -> None:
    with runtime() as (_, driver):
        kind = getattr(sg, dtype)
        for extent in (1, 2, 37):
            x = sg.field(kind, extent)
            x.fill(1)
            assert (x.to_numpy() == 1).all()
            x[extent - 1] = 0
            assert x[extent - 1] == 0
            assert x.to_numpy().sum() == extent - 1
        wide = sg.field(kind, (2, 3))
        wide[1, 2] = 1
        assert wide.to_numpy().tolist() == [[0, 0, 0], [0, 0, 1]]
        assert driver.unawaited == 0


def test_the_host_sees_what_was_launched_before_and_launches_what_it_wrote() -> None:
    with runtime() as (_, driver):
        x = sg.field(sg.f64, 8)

        @sg.kernel
        def add():
            for i in x:
                x[i] += 1.0

        x.from_numpy(np.arange(8.0))
        add()
        x[2] = 10.0
        add()
        assert x[2] == 11.0 and x[3] == 5.0
        add()
        assert (x.to_numpy() == [3, 4, 12, 6, 7, 8, 9, 10]).all()
        add()
        assert copy.deepcopy(x).to_numpy()[0] == 4
        add()
        assert pickle.loads(pickle.dumps(x)).to_numpy()[1] == 6
        add()
        assert x.memory[0] == 6
        y = sg.field(sg.f64, 8)
        add()
        y.copy_from(x)
        assert y[0] == 7


@pytest.mark.parametrize("layout", [sg.Layout.AOS, sg.Layout.SOA])
def test_vectors_and_matrices_show_what_the_device_holds(layout: sg.Layout) -> None:
    with runtime():
        v = sg.Vector.field(3, sg.f32, shape=4, layout=layout)

        @sg.kernel
        def double():
            for i in v:
                v[i] *= 2.0

        v.fill(1.5)
        v[1] = [1, 2, 3]
        element = v[1]
        double()
        assert element.to_numpy().tolist() == [2, 4, 6]
        element[2] = 9
        double()
        assert v[1].to_numpy().tolist() == [4, 8, 18]
        assert v.to_numpy()[3].tolist() == [6, 6, 6]
        m = sg.Matrix.field(2, 2, sg.f64, shape=(2,), layout=layout)
        m[1] = [[1, 2], [3, 4]]
        assert m[1][1, 0] == 3 and m.to_numpy()[1].tolist() == [[1, 2], [3, 4]]
        assert m[0][0, 0] == 0


def test_shared_memory_of_others_is_staged() -> None:
    with runtime() as (backend, _):
        given = np.arange(4, dtype=np.float32)
        a = sg.from_dlpack(given)
        assert not backend.is_own(a.buffer)

        @sg.kernel
        def double(x: sg.types.ndarray(dtype=sg.f32, ndim=1)):
            for i in range(x.shape[0]):
                x[i] *= 2.0

        own = sg.ndarray(sg.f32, 4)
        own.fill(1.0)
        for _ in range(8):
            double(own)
        for _ in range(3):
            double(a)
        assert given.tolist() == [0, 8, 16, 24]
        assert own.to_numpy().tolist() == [256] * 4
        shared = own.to_numpy(copy=False)
        double(own)
        sg.sync()
        assert shared.tolist() == [512] * 4


def test_memory_is_not_given_back_under_a_launch() -> None:
    def program() -> None:
        total = sg.field(sg.f32, ())

        @sg.kernel
        def add(x: sg.types.ndarray(dtype=sg.f32, ndim=1)):
            for i in range(x.shape[0]):
                total[None] += x[i]

        for k in range(20):
            x = sg.ndarray(sg.f32, 10)
            x.fill(float(k))
            add(x)
            del x
        assert total[None] == 10 * sum(range(20))

    with runtime() as (backend, driver):
        program()
        sg.reset()
        assert left(backend, driver) == []


def test_a_tape_swaps_states_on_the_device() -> None:
    with runtime() as (_, driver):
        x, loss = sg.field(sg.f64, 5, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

        @sg.kernel
        def square():
            for i in x:
                x[i] = x[i] * x[i]

        @sg.kernel
        def total():
            for i in x:
                loss[None] += x[i]

        x.from_numpy(np.arange(1.0, 6.0))
        with sg.ad.Tape(loss):
            square()
            square()
            total()
        np.testing.assert_array_equal(x.grad.to_numpy(), 4 * np.arange(1.0, 6.0) ** 3)
        assert x[1] == 16.0


def test_launches_on_shared_memory_are_over_when_they_return() -> None:
    with runtime() as (_, driver):
        x, y = sg.field(sg.f32, 4), sg.field(sg.f32, 4)

        @sg.kernel
        def add():
            for i in x:
                x[i] += 1.0

        for _ in range(8):
            add()
        shared = x.to_numpy(copy=False)
        for k in range(9, 16):
            add()
            assert shared.tolist() == [k] * 4
            shared[0] = k
        shared[:] = 0
        x[1] = 5.0
        y.fill(3.0)
        assert shared.tolist() == [0, 5, 0, 0]
        add()
        assert x.to_numpy().tolist() == [1, 6, 1, 1]
