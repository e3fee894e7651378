"""Test repeated calls on the same arrays: cached launches give the same results as new ones, and keep nothing alive."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import stackgrad as sg


@sg.kernel
def scale(x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1), factor: sg.f64):  # type: ignore[valid-type, no-untyped-def]
    for i in range(x.shape[0]):
        y[i] += factor * x[i] * x[i]


def test_arrays_die_as_if_there_were_no_kernel() -> None:
    x, y = np.ones(3), sg.ndarray(sg.f64, 3)
    scale(x, y, 1.0)
    dead = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in dead] == [None, None]


def test_forward_mode_after_a_plain_launch_on_the_same_arrays() -> None:
    x, y = sg.ndarray(sg.f64, 3, needs_grad=True), sg.ndarray(sg.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    scale(x, y, 2.0)
    scale(x, y, 2.0)
    y.fill(0)
    with sg.ad.FwdMode(y, x, seed=[1.0, 10.0, 0.0]):
        scale(x, y, 2.0)
        assert np.array_equal(y.dual.to_numpy(), [4, 80, 0])


def test_a_tape_after_a_plain_launch_on_the_same_arrays() -> None:
    loss, x = sg.field(sg.f64, (), needs_grad=True), sg.ndarray(sg.f64, 3, needs_grad=True)
    x.fill(3)

    @sg.kernel
    def total(x: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
        for i in x:
            loss[None] += x[i] * x[i]

    for _ in range(2):
        total(x)
        with sg.ad.Tape(loss):
            total(x)
            total(x)
        assert loss[None] == 54 and np.array_equal(x.grad.to_numpy(), [12, 12, 12])
        x.grad.fill(0)


def test_remembered_calls_see_other_numbers_versions_and_shapes() -> None:
    x, n = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.i32, ())

    @sg.kernel
    def power(x: sg.types.ndarray(), y: sg.types.ndarray(), n: sg.template(), factor: sg.f64):  # type: ignore[valid-type, no-untyped-def]
        for i in x:
            v = factor
            for _ in range(n[None]):
                v *= x[i]
            y[i] = v

    y = sg.field(sg.f64, 3, needs_grad=True)
    x.fill(2)
    for times, factor in ((1, 1.0), (3, 1.0), (3, 5.0), (6, 1.0)):
        if n[None] != times:
            n[None] = times
        power(x, y, n, factor)
        assert y[0] == factor * 2**times
        x.grad.fill(0)
        y.grad.fill(1)
        power.grad(x, y, n, factor)
        assert x.grad[0] == factor * times * 2 ** (times - 1)
    assert power.stats().evaluations == 3
    with pytest.raises(sg.KernelTypeError, match="the parameter factor: cannot take"):
        power(x, y, n, "a")


def test_a_numpy_array_that_was_reshaped_in_place() -> None:
    x = np.ones(6)

    @sg.kernel
    def fill(x: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
        for i in sg.grouped(x):
            x[i] = x.shape[0]

    fill(x)
    fill(x)
    view = x.reshape(2, 3)
    x.resize((2, 3), refcheck=False)
    fill(x)
    del view
    assert np.array_equal(x, np.full((2, 3), 2.0))


def test_threads_launch_one_kernel_on_arrays_of_their_own() -> None:
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for _ in range(20):
                y = np.zeros(n)
                scale(np.ones(n), y, float(n))
                assert np.array_equal(y, np.full(n, n))
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
