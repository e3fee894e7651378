"""Launches on the emulated driver: what is launched, in which size, on which stream, from which thread."""

from __future__ import annotations

import threading

import numpy as np
import stackgrad as sg
from on_emulator import left, runtime
from recorded_support import forward, gradient, memory_of, near


def doubling(x: sg.Field) -> sg.Kernel:
    @sg.kernel
    def double():
        for i in x:
            x[i] = x[i] * 2.0

    return double


def test_a_launch_is_one_call_and_is_not_waited_for() -> None:
    with runtime() as (backend, driver):
        x = sg.field(sg.f32, 100)
        x.fill(1.5)
        double = doubling(x)
        double()
        assert driver.launches == [("double_task_0", 1, 128)]
        assert driver.pending > 0
        assert x[3] == 3.0
        assert driver.pending == 0


def test_the_grid_has_a_thread_for_each_iteration_and_none_for_none() -> None:
    with runtime() as (_, driver):
        x = sg.field(sg.i32, 1000)

        @sg.kernel
        def some(n: sg.i32):
            for i in range(n):
                x[i] = i + 1

        some(1000)
        some(0)
        some(1)
        assert [blocks for _, blocks, _ in driver.launches] == [8, 1]
        assert x.to_numpy().sum() == 1000 * 1001 // 2


def test_bounds_that_are_read_from_memory_get_a_full_grid() -> None:
    with runtime() as (backend, driver):
        x, n = sg.field(sg.i32, 300), sg.field(sg.i32, ())

        @sg.kernel
        def some():
            for i in range(n[None]):
                x[i] = 7

        n[None] = 200
        some()
        _, blocks, width = driver.launches[-1]
        assert blocks * width == driver.multiprocessors * 2048
        assert (x.to_numpy() == 7).sum() == 200


def test_gradients_agree_with_the_reference() -> None:
    with runtime(precise=True):
        x, loss = (sg.field(sg.f64, shape, needs_grad=True) for shape in (200, ()))
        n = sg.field(sg.i32, 200)

        @sg.kernel
        def total():
            for i in x:
                v = x[i]
                for _ in range(n[i]):
                    v = sg.sin(v) * 0.9 + 0.1
                loss[None] += v * v

        x.from_numpy(np.linspace(0.1, 2.0, 200))
        n.from_numpy((np.arange(200) % 7).astype(np.int32))
        loss.grad[None] = 1.0
        before = memory_of(x=x, n=n, loss=loss)
        total()
        value = loss.to_numpy()
        total.grad()
        near(forward(total.ir(), before), "loss", value)
        near(gradient(total.ir(), before), "x.grad", x.grad.to_numpy())


def test_launches_stand_ready_and_see_changed_numbers_and_arrays() -> None:
    with runtime() as (_, driver):

        @sg.kernel
        def put(a: sg.types.ndarray(dtype=sg.f32, ndim=1), v: sg.f32):
            for i in range(a.shape[0]):
                a[i] = v

        arrays = [sg.ndarray(sg.f32, extent) for extent in (5, 300, 7)]
        for k in range(24):
            put(arrays[k % 3], float(k))
        assert sum(native.launched for native in natives(put)) > 10
        assert [a.to_numpy()[-1] for a in arrays] == [21.0, 22.0, 23.0]
        assert [blocks for _, blocks, _ in driver.launches[-3:]] == [1, 3, 1]


def natives(kernel: sg.Kernel) -> list:
    """What of a kernel stands ready."""
    import gc

    from stackgrad.launch.native_launches import NativeLaunches

    return [one for one in gc.get_objects() if isinstance(one, NativeLaunches)]


def test_arrays_of_numpy_are_copied_in_and_out() -> None:
    with runtime() as (backend, driver):

        @sg.kernel
        def add(a: sg.types.ndarray(dtype=sg.f64, ndim=1), b: sg.types.ndarray(dtype=sg.f64, ndim=1)):
            for i in range(a.shape[0]):
                b[i] += a[i]

        a, b = np.arange(6.0), np.ones(6)
        for k in range(1, 8):
            add(a, b)
            assert (b == 1 + k * a).all()
        c = sg.ndarray(sg.f64, 6)
        add(a, c)
        assert (c.to_numpy() == a).all()


def test_streams_are_followed_by_launches_that_stand_ready() -> None:
    with runtime() as (backend, driver):
        x = sg.field(sg.f32, 10)
        x.fill(1.0)
        double = doubling(x)
        for _ in range(8):
            double()
        stream = driver.new_stream()
        with backend.device.on(stream):
            double()
            driver.wait(0)
            assert driver.pending == 1
            driver.wait(stream)
            assert driver.pending == 0
        assert x[0] == 2.0**9


def test_threads_launch_at_the_same_time() -> None:
    with runtime():
        fields = [sg.field(sg.i64, 50) for _ in range(3)]

        @sg.kernel
        def count(a: sg.types.ndarray(dtype=sg.i64, ndim=1)):
            for i in range(a.shape[0]):
                a[i] += 1

        arrays = [sg.ndarray(sg.i64, 50) for _ in fields]
        count(arrays[0])
        threads = [threading.Thread(target=lambda a=a: [count(a) for _ in range(20)]) for a in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [int(a.to_numpy()[7]) for a in arrays] == [21, 20, 20]


def test_everything_goes_back() -> None:
    def program() -> None:
        x, y = (sg.field(sg.f32, 64, needs_grad=True) for _ in range(2))

        @sg.kernel
        def steps(n: sg.i32):
            for i in x:
                v = x[i]
                for _ in range(n):
                    v = v * v
                y[i] = v

        steps(3)
        y.grad.fill(1.0)
        steps.grad(3)
        for _ in range(6):
            steps.grad(5)

    with runtime() as (backend, driver):
        program()
        sg.reset()
        assert left(backend, driver) == []
