"""Test errors found on the device: the next wait raises them, with the texts of the CPU, and work goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import gradient as of_gradient
from recorded_support import memory_of, near
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.backends.cuda.ptx import assemble
from stackgrad.backends.device import executable
from stackgrad.compiler.ir.parser import parse_kernel


@pytest.fixture(autouse=True)
def not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make errors of debug builds be raised at the next wait, like those of other builds."""
    monkeypatch.setattr(executable, "DEBUG_WAITS", False)


def test_a_debug_launch_raises_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "DEBUG_WAITS", True)
    with runtime(debug=True):
        x, launch = kernels()
        for name in launch:
            for _ in range(5):  # in Python, and where launches would stand ready
                with pytest.raises(sg.StackgradError):
                    launch[name]()
        x.fill(1.0)
        assert x.to_numpy().sum() == 10


def kernels() -> tuple[sg.Field, dict[str, Callable[[], None]]]:
    x = sg.field(sg.f32, 10)

    @sg.kernel
    def outside(n: sg.i32):
        for i in range(n):
            x[i] = 1.0

    @sg.kernel
    def asserting(n: sg.i32):
        for i in range(n):
            assert i < 7, "i is small"

    @sg.kernel
    def dividing(n: sg.i32):
        for i in range(n):
            x[0] = 7 // (i - 3)

    return x, {"outside": lambda: outside(12), "asserting": lambda: asserting(9), "dividing": lambda: dividing(8)}


@pytest.mark.parametrize("name", ["outside", "asserting", "dividing"])
def test_the_text_is_that_of_the_cpu(name: str) -> None:
    sg.init(arch=sg.cpu, debug=True)
    with pytest.raises(sg.StackgradError) as wanted:
        kernels()[1][name]()
    with runtime(debug=True):
        kernels()[1][name]()
        with pytest.raises(type(wanted.value)) as found:
            sg.sync()
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize(
    "look", [lambda x: x[0], lambda x: x.to_numpy(), lambda x: x.memory, lambda x: sg.sync(), lambda x: x.copy_from(x)]
)
def test_every_look_of_the_host_raises(look: Callable[[sg.Field], object]) -> None:
    with runtime(debug=True):
        x, launch = kernels()
        launch["outside"]()
        with pytest.raises(sg.OutOfBounds):
            look(x)
        sg.sync()


def test_nothing_behind_a_failure_runs_until_it_is_raised() -> None:
    with runtime(debug=True):
        x, launch = kernels()
        y = sg.field(sg.f32, 4)

        @sg.kernel
        def ones():
            for i in y:
                y[i] = 1.0

        launch["outside"]()
        ones()
        with pytest.raises(sg.OutOfBounds):
            sg.sync()
        assert y.to_numpy().tolist() == [0] * 4
        ones()
        assert y.to_numpy().tolist() == [1] * 4


def test_launches_that_stand_ready_fail_and_go_on() -> None:
    with runtime(debug=True):
        x = sg.field(sg.f32, 10)

        @sg.kernel
        def put(n: sg.i32):
            for i in range(n):
                x[i] = 2.0

        for _ in range(10):
            put(10)
        put(11)
        with pytest.raises(sg.OutOfBounds):
            sg.sync()
        x.fill(0.0)
        put(5)
        assert x.to_numpy().sum() == 10


def test_a_launch_on_foreign_arrays_raises_at_once() -> None:
    with runtime(debug=True):

        @sg.kernel
        def put(a: sg.types.ndarray(dtype=sg.f32, ndim=1), n: sg.i32):
            for i in range(n):
                a[i] = 2.0

        a = np.zeros(4, np.float32)
        with pytest.raises(sg.OutOfBounds):
            put(a, 5)
        a[:] = 0
        put(a, 3)
        assert a.tolist() == [2, 2, 2, 0]


def test_memory_that_cannot_be_had_is_an_error_with_numbers() -> None:
    with runtime() as (backend, driver):

        def refuse(size: int) -> int:
            raise DriverError(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "cuMemAllocManaged")

        driver.allocate_managed = refuse
        with pytest.raises(sg.DeviceError, match=r"400 bytes .* of \d+ bytes left"):
            sg.field(sg.f32, 100)


def test_a_lost_gpu_does_not_keep_the_program_from_another_backend() -> None:
    with runtime() as (backend, driver):

        def lost() -> None:
            raise DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal access", "cuCtxSynchronize")

        wait_all, driver.wait_all = driver.wait_all, lost
        with pytest.raises(DriverError, match="any longer"):
            sg.sync()
        sg.init(arch=sg.cpu)
        x = sg.field(sg.f32, 3)
        x.fill(1.0)
        assert x[0] == 1.0
        driver.wait_all = wait_all


def test_a_launch_that_the_driver_refuses_is_a_driver_error() -> None:
    with runtime() as (backend, driver):
        x, launch = kernels()
        backend.device.stream = 12345  # no stream
        try:
            with pytest.raises(DriverError, match="launch of kernel"):
                launch["asserting"]()
        finally:
            backend.device.stream = 0
        launch["asserting"]()
        sg.sync()


def test_an_overflow_says_what_is_needed_and_the_next_launch_counts_anew() -> None:
    """The bound is changed by another library on the device, behind the runtime."""
    with runtime() as (backend, driver):
        x, y = (sg.field(sg.f64, 40, needs_grad=True) for _ in range(2))
        n = sg.field(sg.i32, ())

        @sg.kernel
        def sines():
            for i in x:
                speed = x[i]
                for _ in range(n[None]):
                    speed = sg.sin(speed)
                y[i] = speed

        def gradient() -> None:
            y.grad.fill(1.0)
            x.grad.fill(0.0)
            sines.grad()

        x.fill(0.5)
        n[None] = 5
        for _ in range(10):
            gradient()
        sg.sync()
        driver.fill(n.buffer.__array_interface__["data"][0], 9, 4, 1)
        gradient()
        with pytest.raises(sg.AdstackOverflow) as overflow:
            sg.sync()
        for part in ("history of speed", "published capacities", "capacity 5, a new count gives 9", "written behind"):
            assert part in str(overflow.value)
        before = memory_of(x=x, y=y) | {"x.grad": np.zeros(40), "y.grad": np.ones(40), "n": np.array(9, np.int32)}
        gradient()
        near(of_gradient(sines.ir(), before), "x.grad", x.grad.to_numpy())


def test_no_atomic_is_one_with_the_host() -> None:
    """Records of errors and prints lie in memory of the host, where many GPUs cannot update with it."""
    text = """kernel k(x: f32[1], y: i8[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: f32 = load x[%2] %4: i8 = load y[%2] %7: i32 = const 0 print "at {}" %3
        %5: f32 = atomic mul x[%7], %3 %6: i8 = atomic add y[%7], %4
      } }"""
    made = generate(parse_kernel(text), Options(debug=True))
    lines = [line for line in assemble(made.text, made.names, "sm_90").splitlines() if "atom" in line]
    assert len(lines) >= 5 and any("cas" in line for line in lines)
    assert not [line for line in lines if ".sys" in line]
