"""This module contains the GPU benchmarks, written in the kernel language that stackgrad and its peers share.

The rules of works.py hold in this module too. Many launches are queued and waited for once, so that a figure is the
time that a launch adds to a program that does not wait. Memory is what the adstacks hold after the work has run.
"""

# mypy: disable-error-code="valid-type, index"
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from .works import TimedWork, WorkFunction, check_gradient, integer_field, many_tasks, real_field, sines
else:  # in the process of a library, which imports files
    from works import TimedWork, WorkFunction, check_gradient, integer_field, many_tasks, real_field, sines

QUEUED = 200
"""Number of launches that are queued before the device is waited for."""

SHRINK = "BENCH_SHRINK"
"""Environment variable that holds the number by which sizes are divided."""

DEVICE_WORKS: dict[str, WorkFunction] = {}
"""Works for GPUs by name."""


def device_work(function: WorkFunction) -> WorkFunction:
    """Register a function as a GPU benchmark in DEVICE_WORKS, and return the function."""
    DEVICE_WORKS[function.__name__] = function
    return function


def shrunk(size: int) -> int:
    """Return `size` divided by the number in the environment variable SHRINK, but at least 1."""
    return max(size // int(os.environ.get(SHRINK, "1")), 1)


def queued(ti: Any, call: Callable[[], Any], number: int = QUEUED) -> TimedWork:
    """Return a benchmark that queues many launches and measures the microseconds of one of them."""

    def run() -> None:
        for _ in range(number):
            call()
        ti.sync()

    return TimedWork(run, "µs", number, number=1)


def held(ti: Any) -> dict[str, TimedWork]:
    """Return a benchmark that reads the peak adstack memory for reals, or none if the library does not report it."""
    if not hasattr(ti, "adstack_report"):
        return {}
    return {"heap": TimedWork(ti.sync, "kB", figure=lambda: ti.adstack_report().slabs["real"]["peak"] / 1000)}


# -- launches ---------------------------------------------------------------------------------------------------


@device_work
def device_launch(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a kernel without a loop, and of gradients of 16 short loops with three kinds of bounds.

    The bound of the short loops is a constant, in a field, or in an ndarray.
    """
    y, bounds = real_field(ti, ()), ti.ndarray(ti.i32, (16,))
    bounds.from_numpy(np.full(16, 8, np.int32))

    @ti.kernel
    def none() -> None:
        y[None] = 1.0

    constant, from_field, from_array = _short_loops(ti)
    calls: dict[str, Callable[[], Any]] = {
        "no argument": none,
        "grad, constant bound": constant.grad,
        "grad, field bound": from_field.grad,
        "grad, ndarray bound": lambda: from_array.grad(bounds),
    }
    none(), constant(), from_field(), from_array(bounds)
    return {name: queued(ti, call) for name, call in calls.items()}


def _short_loops(ti: Any) -> tuple[Any, Any, Any]:
    """Return three kernels of 16 loops whose bound is a constant, in a field, or in an ndarray."""
    x, z, n = real_field(ti, 16, np.linspace(-1, 1, 16)), real_field(ti, 16), integer_field(ti, (), np.array(8))

    @ti.kernel
    def constant() -> None:
        for i in range(16):
            v = x[i]
            for _ in range(8):
                v = ti.sin(v) * 0.95 + 0.01
            z[i] = v

    @ti.kernel
    def from_field() -> None:
        for i in range(16):
            v = x[i]
            for _ in range(n[None]):
                v = ti.sin(v) * 0.95 + 0.01
            z[i] = v

    @ti.kernel
    def from_array(m: ti.types.ndarray(ti.i32, 1)) -> None:
        for i in range(16):
            v = x[i]
            for _ in range(m[i]):
                v = ti.sin(v) * 0.95 + 0.01
            z[i] = v

    return constant, from_field, from_array


# -- sweeps -----------------------------------------------------------------------------------------------------


@device_work
def device_sweep(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of an inner loop of 64 trips on each of 2^20 elements; a field holds the trip count."""
    size = shrunk(1 << 20)
    x0 = np.random.default_rng(1).uniform(-1, 1, size)
    x, y, n = real_field(ti, size, x0), real_field(ti, size), integer_field(ti, (), np.array(64))

    @ti.kernel
    def steps() -> None:
        for i in range(size):
            v = x[i]
            for _ in range(n[None]):
                v = ti.sin(v) * 0.95 + 0.01
            y[i] = v

    steps()
    y.grad.from_numpy(np.ones(size, np.float32))
    steps.grad()
    check_gradient(x.grad.to_numpy(), sines(x0, np.full(size, 64))[1], "device_sweep")
    return {"forward": queued(ti, steps, 20), "grad": queued(ti, steps.grad, 20), **held(ti)}


@device_work
def device_gated(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a loop of 32 trips on 2^20 elements, which only the active 5 % of the elements run."""
    size = shrunk(1 << 20)
    rng = np.random.default_rng(4)
    x0, on = rng.uniform(-1, 1, size), rng.random(size) < 0.05
    x, y, active, n = (
        real_field(ti, size, x0),
        real_field(ti, size),
        integer_field(ti, size, on),
        integer_field(ti, (), np.array(32)),
    )

    @ti.kernel
    def steps() -> None:
        for i in range(size):
            if active[i] > 0:
                v = x[i]
                for _ in range(n[None]):
                    v = ti.sin(v) * 0.95 + 0.01
                y[i] = v

    steps()
    y.grad.from_numpy(np.ones(size, np.float32))
    steps.grad()
    check_gradient(x.grad.to_numpy(), np.where(on, sines(x0, np.full(size, 32))[1], 0), "device_gated")
    return {"forward": queued(ti, steps, 20), "grad": queued(ti, steps.grad, 20), **held(ti)}


@device_work
def device_grid(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a loop of 27 trips with six locals, run by the 7.8 % of 604,000 grid cells with mass."""
    size, steps = shrunk(604_000), 27
    rng = np.random.default_rng(6)
    a0, on = rng.uniform(0, 1, size), rng.random(size) < 0.078
    mass, a, b = real_field(ti, size, np.where(on, 1.0, 0.0)), real_field(ti, size, a0), real_field(ti, size)
    n = integer_field(ti, (), np.array(steps))

    @ti.kernel
    def grid_op() -> None:
        for i in range(size):
            if mass[i] > 0.0:
                p, q, r, s, t, u = a[i], 0.5 * a[i], 0.1, 0.2, 0.3, 0.4
                for _ in range(n[None]):
                    w = ti.sin(p) * 0.9 + q * r
                    q = q * 0.8 + ti.cos(r) * 0.1 * p
                    r = r * s + 0.05 * w
                    s = s * 0.7 + t * u * 0.1
                    t = t * 0.9 + ti.sin(u) * 0.05
                    u = u * 0.8 + w * 0.02
                    p = w
                b[i] = p + q + r + s + t + u

    grid_op()
    b.grad.from_numpy(np.ones(size, np.float32))
    grid_op.grad()
    some = np.flatnonzero(on)[:200]
    wanted = (_grid(a0[some] + 1e-6, steps) - _grid(a0[some] - 1e-6, steps)) / 2e-6
    check_gradient(a.grad.to_numpy()[some], wanted, "device_grid")
    return {"forward": queued(ti, grid_op, 20), "grad": queued(ti, grid_op.grad, 20), **held(ti)}


def _grid(a: np.ndarray, steps: int) -> np.ndarray:
    """Return the results of the kernel `grid_op`, computed by NumPy in f64."""
    p, q, r, s, t, u = a, 0.5 * a, 0.1 + 0 * a, 0.2 + 0 * a, 0.3 + 0 * a, 0.4 + 0 * a
    for _ in range(steps):
        w = np.sin(p) * 0.9 + q * r
        q = q * 0.8 + np.cos(r) * 0.1 * p
        r = r * s + 0.05 * w
        s = s * 0.7 + t * u * 0.1
        t = t * 0.9 + np.sin(u) * 0.05
        u, p = u * 0.8 + w * 0.02, w
    return p + q + r + s + t + u


# -- memory and tasks -------------------------------------------------------------------------------------------


@device_work
def device_loss(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a sum of squares of 2^24 elements, also as a share of the memory bandwidth.

    The share is the number of bytes that must be moved divided by the time.
    """
    size = shrunk(1 << 24)
    x0 = np.random.default_rng(7).uniform(-1, 1, size)
    x, loss = real_field(ti, size, x0), real_field(ti, ())

    @ti.kernel
    def total() -> None:
        for i in range(size):
            loss[None] += x[i] * x[i]

    total()
    loss.grad[None] = 1.0
    total.grad()
    check_gradient(x.grad.to_numpy(), 2 * x0, "device_loss")
    check_gradient(np.array([loss[None]]), np.array([(x0 * x0).sum()]), "device_loss")
    figures = {"forward": queued(ti, total, 20), "grad": queued(ti, total.grad, 20)}
    try:
        copied = _copy_bandwidth(8 * size)
    except OSError:  # no driver of CUDA: there is nothing to compare with
        return figures

    def part(call: Callable[[], Any], moved: int) -> TimedWork:
        return TimedWork(ti.sync, "%", figure=lambda: 100 * moved / _seconds(ti, call) / copied)

    return {**figures, "forward, of copy": part(total, 4 * size), "grad, of copy": part(total.grad, 12 * size)}


def _seconds(ti: Any, call: Callable[[], Any], number: int = 20) -> float:
    def run() -> None:
        for _ in range(number):
            call()
        ti.sync()

    return _usual(run) / number


def _usual(run: Callable[[], Any]) -> float:
    """Return the median time of 7 calls in seconds, measured after a tenth of a second of warm-up calls.

    The calls before are needed because an idle GPU lowers its clock.
    """
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.1:
        run()
    found = []
    for _ in range(7):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return median(found)


def _copy_bandwidth(size: int) -> float:
    """Return the bandwidth of a device copy of `size` bytes, in bytes per second, counting reads and writes.

    Raises:
        OSError: there is no CUDA driver or device.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    with _context(cuda):
        source, target = ctypes.c_uint64(), ctypes.c_uint64()
        for place in (source, target):
            if cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)):
                raise MemoryError(f"{size} bytes for a copy")

        def run() -> None:
            for _ in range(20):
                cuda.cuMemcpyDtoDAsync_v2(target, source, ctypes.c_size_t(size), None)
            cuda.cuCtxSynchronize()

        seconds = _usual(run) / 20
        for place in (source, target):
            cuda.cuMemFree_v2(place)
    return 2 * size / seconds


@contextmanager
def _context(cuda: Any) -> Iterator[None]:
    """Make a CUDA context current during the `with`: the one in use or else that of the first device."""
    current, device = ctypes.c_void_p(), ctypes.c_int()
    if not cuda.cuCtxGetCurrent(ctypes.byref(current)) and current.value:
        yield
        return
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        raise OSError("no device of CUDA")
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(current), device):
        raise OSError("no context of CUDA")
    try:
        cuda.cuCtxSetCurrent(current)
        yield
    finally:
        cuda.cuCtxSetCurrent(None)
        cuda.cuDevicePrimaryCtxRelease_v2(device)


@device_work
def device_tasks(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of eight parallel tasks with five locals that loops update, and 600 trip counts in a field."""
    timed = many_tasks(ti)
    return {name: queued(ti, one.call) for name, one in timed.items()}
