"""Test that mistakes raise the same exception with the same message on a device as on a CPU, and that work goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.harness.testing.emulated_cuda.backend import NAMES, emulated_cuda

Program = Callable[[], None]
PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    """Return a program with one mistake in one iteration, so that every order of threads finds the same mistake."""
    PROGRAMS[make.__name__] = make
    return make


@program
def index_too_large() -> None:
    x = sg.field(sg.f32, (4, 5))

    @sg.kernel
    def k(n: sg.i32):
        for i, j in sg.ndrange(4, n):
            x[i, j] = 1.0 if j < 5 or i < 3 else 2.0
            if i == 3 and j == 5:
                x[i, j + 2] = 1.0

    k(5)
    k(6)


@program
def index_below_zero() -> None:
    x = sg.field(sg.i32, 7)

    @sg.kernel
    def k(start: sg.i32):
        for i in range(start, 7):
            x[i] += i

    k(-1)


@program
def index_of_a_local_vector() -> None:
    x = sg.field(sg.f32, 7)

    @sg.kernel
    def k(n: sg.i32):
        for i in range(n):
            v = sg.Vector([1.0, 2.0, 3.0])
            x[i] = v[i]

    k(4)


@program
def division_by_zero() -> None:
    x = sg.field(sg.i32, 7)

    @sg.kernel
    def k(d: sg.i32):
        for i in range(7):
            x[i] = 10 // (i - d)

    k(3)


@program
def remainder_by_zero() -> None:
    x = sg.field(sg.i32, 7)

    @sg.kernel
    def k(d: sg.i32):
        for i in range(7):
            x[i] = 10 % (i - d)

    k(4)


@program
def an_assertion() -> None:
    @sg.kernel
    def k(n: sg.i32):
        for i in range(n):
            assert i != 5, "five is too many"

    k(6)


@program
def an_assertion_of_serial_code() -> None:
    @sg.kernel
    def k(n: sg.i32):
        assert n < 3, "serial"
        for i in range(n):
            assert i < 0, "never reached"

    k(6)


@program
def bounds_that_fail() -> None:
    x, n = sg.field(sg.f32, 4), sg.field(sg.i32, 2)

    @sg.kernel
    def k(at: sg.i32):
        for i in range(n[at]):
            x[i] = 1.0

    k(2)


@program
def a_gradient_that_reads_outside() -> None:
    x = sg.field(sg.f64, 4, needs_grad=True)
    y = sg.field(sg.f64, 4, needs_grad=True)

    @sg.kernel
    def k(shift: sg.i32):
        for i in range(4):
            v = x[i]
            for _ in range(3):
                v = sg.sin(v) * y[(i + shift) % 5]
            y[i] = v

    k.grad(1)


@program
def an_argument_of_another_type() -> None:
    @sg.kernel
    def k(a: sg.types.ndarray(dtype=sg.f32, ndim=1)):
        for i in a:
            a[i] = 1.0

    k(np.zeros(3, np.float64))


@program
def one_memory_under_two_names() -> None:
    @sg.kernel
    def k(a: sg.types.ndarray(dtype=sg.f32, ndim=1), b: sg.types.ndarray(dtype=sg.f32, ndim=1)):
        for i in a:
            a[i] = b[i]

    memory = np.zeros(8, np.float32)
    k(memory[:5], memory[3:])


@program
def a_gradient_that_cannot_be() -> None:
    x = sg.field(sg.f32, 4, needs_grad=True)

    @sg.kernel
    def k():
        for i in range(3):
            x[i + 1] = x[i] * x[i]

    k.grad()


def outcome(make: Program) -> str:
    try:
        make()
        sg.sync()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.rotating
@pytest.mark.parametrize("device", NAMES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_words_are_the_same(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu, debug=True)
    wanted = outcome(PROGRAMS[name])
    assert wanted != "no error"
    backend = emulated_cuda(device)
    monkeypatch.setitem(registry._instances, "cuda", backend)
    monkeypatch.setattr(backend.emulator, "strict", False)
    sg.init(arch=sg.cuda, debug=True)
    assert outcome(PROGRAMS[name]) == wanted
    x = sg.field(sg.i32, 3)

    @sg.kernel
    def well():
        for i in x:
            x[i] = i

    well()
    assert x.to_numpy().tolist() == [0, 1, 2]
    sg.reset()
