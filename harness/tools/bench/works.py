"""This module contains the benchmarked kernels, in the language that stackgrad, Quadrants and Taichi share.

A work is a function of a library. It makes fields, compiles by a first launch, checks the gradient if there is one, and
returns what is timed, by the name of a column. This file is run by processes that know nothing of the project, so it
imports only NumPy. Annotations of kernels are evaluated in place, because they belong to the library.
"""

# mypy: disable-error-code="valid-type, index"
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np


@dataclass(frozen=True)
class TimedWork:
    """Represent one column of a benchmark: a function to time, and the unit of the measured number.

    Attributes:
        call: the function to time.
        unit: the unit of the figure.
        each: the number of units of work that a call does.
        pause: seconds of sleep before each call.
        number: the number of calls per sample; 0 to choose automatically.
        figure: a function that is read in place of a clock, or None.
    """

    call: Callable[[], Any]
    unit: str = "µs"
    each: float = 1.0
    pause: float = 0.0
    number: int = 0
    figure: Callable[[], float] | None = None


WorkFunction = Callable[[Any], dict[str, TimedWork]]
WORKS: dict[str, WorkFunction] = {}
FRESH: set[str] = set()
"""Works that are run once per process."""


def work(function: WorkFunction) -> WorkFunction:
    """Register a function as a benchmark in WORKS, and return the function."""
    WORKS[function.__name__] = function
    return function


def fresh(function: WorkFunction) -> WorkFunction:
    """Register a function as a benchmark whose samples each run in a new process, and return the function."""
    FRESH.add(function.__name__)
    return work(function)


def real_field(ti: Any, shape: Any, values: np.ndarray | None = None) -> Any:
    """Return a field of f32 with a gradient, filled with `values` if they are given."""
    made = ti.field(ti.f32, shape=shape, needs_grad=True)
    if values is not None:
        made.from_numpy(values.astype(np.float32))
    return made


def integer_field(ti: Any, shape: Any, values: np.ndarray) -> Any:
    """Return a field of i32 with the given values."""
    made = ti.field(ti.i32, shape=shape)
    made.from_numpy(np.asarray(values, np.int32))
    return made


def synchronous_call(ti: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that calls `call` and then waits for the device."""

    def run() -> None:
        call()
        ti.sync()

    return run


def check_gradient(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise ArithmeticError if a gradient is wrong, because a wrong gradient is not timed."""
    if not np.allclose(found, wanted, rtol=2e-3, atol=1e-5):
        raise ArithmeticError(f"{what}: the gradient is wrong: {found[:4]} instead of {wanted[:4]}")


def sines(x: np.ndarray, trips: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of v = sin(v)*0.95 + 0.01, `trips` times from v = x, and their derivatives, in f64."""
    v, d = x.astype(np.float64), np.ones(x.shape)
    for k in range(int(trips.max(initial=0))):
        live = trips > k
        d = np.where(live, d * 0.95 * np.cos(v), d)
        v = np.where(live, np.sin(v) * 0.95 + 0.01, v)
    return v, d


# -- launches ---------------------------------------------------------------------------------------------------


@work
def launch(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of the launch of a kernel without a loop."""
    y = real_field(ti, ())

    @ti.kernel
    def none() -> None:
        y[None] = 1.0

    @ti.kernel
    def scalar(a: ti.f32) -> None:
        y[None] = a

    @ti.kernel
    def arrays(p: ti.types.ndarray(ti.f32, 1), q: ti.types.ndarray(ti.f32, 1), r: ti.types.ndarray(ti.f32, 1)) -> None:
        r[0] = p[0] * q[0]

    p, q, r = (ti.ndarray(ti.f32, (4,)) for _ in range(3))
    none(), scalar(2.0), arrays(p, q, r)
    return {
        "no argument": TimedWork(none),
        "one scalar": TimedWork(lambda: scalar(2.0)),
        "three ndarrays": TimedWork(lambda: arrays(p, q, r)),
    }


@work
def small_loop(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a parallel loop over 16 elements whose inner loop has its bound in a field."""
    x0 = np.linspace(-1, 1, 16)
    x, y, n = real_field(ti, 16, x0), real_field(ti, 16), integer_field(ti, (), np.array(8))

    @ti.kernel
    def steps() -> None:
        for i in range(16):
            v = x[i]
            for _ in range(n[None]):
                v = ti.sin(v) * 0.95 + 0.01
            y[i] = v

    steps()
    y.grad.from_numpy(np.ones(16, np.float32))
    steps.grad()
    check_gradient(x.grad.to_numpy(), sines(x0, np.full(16, 8))[1], "small_loop")
    return {"forward": TimedWork(steps), "grad": TimedWork(steps.grad)}


@work
def small_loop_arrays(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a parallel loop over 16 elements with all data in ndarrays."""
    real_array, whole_array = ti.types.ndarray(ti.f32, 1), ti.types.ndarray(ti.i32, 1)

    @ti.kernel
    def steps(x: real_array, y: real_array, n: whole_array) -> None:
        for i in range(16):
            v = x[i]
            for _ in range(n[i]):
                v = ti.sin(v) * 0.95 + 0.01
            y[i] = v

    x0 = np.linspace(-1, 1, 16).astype(np.float32)
    x, y = (ti.ndarray(ti.f32, (16,), needs_grad=True) for _ in range(2))
    n = ti.ndarray(ti.i32, (16,))
    x.from_numpy(x0)
    n.from_numpy(np.full(16, 8, np.int32))
    steps(x, y, n)
    y.grad.from_numpy(np.ones(16, np.float32))
    x.grad.from_numpy(np.zeros(16, np.float32))
    steps.grad(x, y, n)
    check_gradient(x.grad.to_numpy(), sines(x0, np.full(16, 8))[1], "small_loop_arrays")
    return {"forward": TimedWork(lambda: steps(x, y, n)), "grad": TimedWork(lambda: steps.grad(x, y, n))}


# -- sweeps -----------------------------------------------------------------------------------------------------


def _sweep(ti: Any, trips: np.ndarray, useful: int, unit: str = "ns/step") -> dict[str, TimedWork]:
    size = trips.size
    x0 = np.random.default_rng(1).uniform(-1, 1, size)
    x, y, n = real_field(ti, size, x0), real_field(ti, size), integer_field(ti, size, trips)

    @ti.kernel
    def steps() -> None:
        for i in range(size):
            v = x[i]
            for _ in range(n[i]):
                v = ti.sin(v) * 0.95 + 0.01
            y[i] = v

    steps()
    y.grad.from_numpy(np.ones(size, np.float32))
    steps.grad()
    check_gradient(x.grad.to_numpy()[:1000], sines(x0[:1000], trips[:1000])[1], "sweep")
    return {
        "forward": TimedWork(synchronous_call(ti, steps), unit, useful),
        "grad": TimedWork(synchronous_call(ti, steps.grad), unit, useful),
    }


@work
def sweep(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of an inner loop of 64 trips on each of 2^20 elements; a field holds the trip count."""
    size = 1 << 20
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
    check_gradient(x.grad.to_numpy()[:1000], sines(x0[:1000], np.full(1000, 64))[1], "sweep")
    each = 64 * size
    return {
        "forward": TimedWork(synchronous_call(ti, steps), "ns/step", each),
        "grad": TimedWork(synchronous_call(ti, steps.grad), "ns/step", each),
    }


@work
def varied_sweep(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of an inner loop of 1 to 64 trips, uniformly distributed, on each of 2^20 elements.

    The result is the time per step that an element needs.
    """
    trips = np.random.default_rng(2).integers(1, 65, 1 << 20)
    return _sweep(ti, trips, int(trips.sum()))


@work
def skewed_sweep(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of an inner loop of 64 trips on one in fifty of 2^20 elements, and of 2 trips on the rest.

    The result is the time per step that an element needs.
    """
    trips = np.where(np.random.default_rng(3).random(1 << 20) < 0.02, 64, 2)
    return _sweep(ti, trips, int(trips.sum()))


@work
def gated(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a loop of 32 trips on 2^20 elements, which only the active 5 % of the elements run."""
    size = 1 << 20
    rng = np.random.default_rng(4)
    x0, on = rng.uniform(-1, 1, size), rng.random(size) < 0.05
    x, y = real_field(ti, size, x0), real_field(ti, size)
    active, n = integer_field(ti, size, on), integer_field(ti, (), np.array(32))

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
    wanted = np.where(on, sines(x0, np.full(size, 32))[1], 0)
    check_gradient(x.grad.to_numpy(), wanted, "gated")
    forward, grad = synchronous_call(ti, steps), synchronous_call(ti, steps.grad)
    return {
        "forward": TimedWork(forward, "ms"),
        "grad": TimedWork(grad, "ms"),
        "forward after 20 ms": TimedWork(forward, "ms", pause=0.02, number=1),
        "grad after 20 ms": TimedWork(grad, "ms", pause=0.02, number=1),
    }


# -- memory and tasks -------------------------------------------------------------------------------------------


@work
def long_row(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a loop in which one of 1,000 iterations makes 100,000 trips and the others make one."""
    trips = np.ones(1001, np.int64)
    trips[500] = 100_000
    timed = _sweep(ti, trips, int(trips.sum()))
    timed.pop("forward")
    if hasattr(ti, "adstack_report"):
        timed["heap"] = TimedWork(ti.sync, "kB", figure=lambda: ti.adstack_report().slabs["real"]["peak"] / 1000)
    return timed


_TASK = """
    for i in range(75):
        a{t}, b{t}, c{t}, d{t}, e{t} = x[{t}, i], 0.1, 0.2, 0.3, 0.4
        for j in range(n[{t}, i]):
            a{t}, b{t}, c{t}, d{t}, e{t} = (
                ti.sin(b{t}) + a{t}, a{t} * c{t}, d{t} * 0.5 + b{t}, ti.cos(e{t}) * c{t}, a{t} * 0.25 * d{t}
            )
        y[{t}, i] = a{t} + b{t} + c{t} + d{t} + e{t}
"""


@work
def many_tasks(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of eight parallel tasks with five locals, updated in loops with trip counts from a field."""
    rng = np.random.default_rng(5)
    space = {
        "ti": ti,
        "x": real_field(ti, (8, 75), rng.uniform(-0.5, 0.5, (8, 75))),
        "y": real_field(ti, (8, 75)),
        "n": integer_field(ti, (8, 75), rng.integers(1, 5, (8, 75))),
    }
    text = "@ti.kernel\ndef steps() -> None:" + "".join(_TASK.format(t=t) for t in range(8))
    steps = defined(text, "steps", space)
    steps(), steps.grad()
    return {"forward": TimedWork(steps), "grad": TimedWork(steps.grad)}


def defined(text: str, name: str, space: dict[str, Any]) -> Any:
    """Write a Python text to a file, import the file, and return the object of the given name from it.

    A file is needed, because libraries read the source of a kernel.

    The file is the same in every process.
    """
    place = Path(tempfile.gettempdir()) / f"bench_{name}_{crc32(text.encode()):08x}.py"
    place.write_text(text)
    spec = spec_from_file_location(f"bench_{name}", place)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    module.__dict__.update(space)
    spec.loader.exec_module(module)
    return getattr(module, name)


# -- compilation ------------------------------------------------------------------------------------------------


def _nest() -> str:
    """Return the source of a kernel with 20 locals updated in three nested loops, whose trip counts are in a field."""
    names = [f"v{k}" for k in range(20)]
    lines = ["@ti.kernel", "def nest() -> None:", "    for i in range(8):"]
    lines += [f"        {v} = x[i] + 0.0{k + 1:02d}" for k, v in enumerate(names)]
    lines += [" " * 4 * (depth + 2) + f"for {'jkl'[depth]} in range(n[{'ijk'[depth]}]):" for depth in range(3)]
    lines += [f"                    {v} = ti.sin({names[k - 1]}) * 0.9 + {v} * 0.05" for k, v in enumerate(names)]
    lines += ["        y[i] = " + " + ".join(names)]
    return "\n".join(lines) + "\n"


_SMALL = """
@ti.kernel
def small() -> None:
    for i in range(8):
        y[i] = x[i] * x[i]
"""


@fresh
def cold_compile(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of compile time: the first launch and first gradient of a kernel of three nested loops.

    Another kernel was launched before, so that the figures do not contain what a library loads for its first kernel.
    """
    space = {
        "ti": ti,
        "x": real_field(ti, 8, np.full(8, 0.3)),
        "y": real_field(ti, 8),
        "n": integer_field(ti, 8, np.full(8, 2)),
    }
    nest, small = (defined(text, name, space) for text, name in ((_nest(), "nest"), (_SMALL, "small")))
    small(), small.grad()
    ti.sync()
    return {
        "forward": TimedWork(synchronous_call(ti, nest), "ms", number=1),
        "grad": TimedWork(synchronous_call(ti, nest.grad), "ms", number=1),
    }


@fresh
def warm_cache(ti: Any) -> dict[str, TimedWork]:
    """Return the benchmarks of `cold_compile` in a second process, which finds the compiled code on disk."""
    return cold_compile(ti)
