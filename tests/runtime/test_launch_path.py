"""How many functions and files of ours a call goes through, once a kernel was launched: a number that may only fall."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import Line, grow, repeat
from stackgrad.backends.cpu.backend import CpuExecutable
from stackgrad.backends.host.handles import VALID
from stackgrad.backends.host.trampoline import trampoline
from stackgrad.runtime.guards import NameGuard
from stackgrad.runtime.session import RUNTIME


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel stood ready before, because the first one of a process pays for more; patience is without end."""
    sg.init(arch=sg.cpu, default_fp=sg.f32)
    monkeypatch.setattr(trampoline(), "patience", 1 << 62)
    repeat(numbers())
    repeat(method())


class Way(NamedTuple):
    """What a call went through: calls of functions of ours, and the modules that these belong to."""

    calls: int
    modules: int


ASIDE = {CpuExecutable._on_request.__code__}
"""Functions that native code calls when a launch takes long by its clock: they make the pool and further variants."""


class Watch:
    """Notes the calls of functions of ours; what the garbage collector or a clock brings about is not the call's."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._collecting = False
        self._aside: FrameType | None = None

    def collect(self, phase: str, info: Any) -> None:
        self._collecting = phase == "start"

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame is self._aside:
            self._aside = None
        if event != "call" or self._collecting or self._aside is not None:
            return
        if frame.f_code in ASIDE:
            self._aside = frame
            return
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("stackgrad."):
            self.modules.append(module)


def way(call: Callable[[], Any]) -> Way:
    """Make a call. Generated methods and the interpreter's own functions do not count."""
    watch, before = Watch(), sys.getprofile()
    gc.callbacks.append(watch.collect)
    sys.setprofile(watch.see)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.callbacks.remove(watch.collect)
    return Way(len(watch.modules), len(set(watch.modules)))


def numbers() -> Callable[[], None]:
    x, y = sg.field(sg.f32, 8), sg.field(sg.f32, 8)

    @sg.kernel
    def scale(factor: sg.f32):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            y[i] = x[i] * factor

    return lambda: scale(2.0)


def template() -> Callable[[], None]:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def fill(a: sg.template(), value: sg.f32):  # type: ignore[no-untyped-def, valid-type]
        for i in a:
            a[i] = value

    return lambda: fill(x, 2.0)


def _product() -> tuple[Any, list[Any]]:
    @sg.kernel
    def multiply(a: Line, b: Line, c: Line):  # type: ignore[no-untyped-def, valid-type]
        for i in range(a.shape[0]):
            c[i] = a[i] * b[i]

    return multiply, [sg.ndarray(sg.f32, 8, needs_grad=True) for _ in range(3)]


def ndarrays() -> Callable[[], None]:
    multiply, given = _product()
    return lambda: multiply(*given)


def gradient() -> Callable[[], None]:
    multiply, given = _product()
    return lambda: multiply.grad(*given)


def numpy_arrays() -> Callable[[], None]:
    (multiply, _), given = _product(), [np.ones(8, np.float32) for _ in range(3)]
    return lambda: multiply(*given)


def sized() -> Callable[[], None]:
    (x, y), n = (sg.ndarray(sg.f32, 8, needs_grad=True) for _ in range(2)), sg.ndarray(sg.i32, 8)
    n.fill(3)
    steps = sg.kernel(grow.__wrapped__)
    return lambda: steps.grad(x, y, n)


def method() -> Callable[[], None]:
    @sg.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x, self.factor = sg.field(sg.f32, 8), 2.0

        @sg.kernel
        def run(self):  # type: ignore[no-untyped-def]
            for i in self.x:
                self.x[i] = self.factor

    return Model().run


def result() -> Callable[[], None]:
    a = sg.ndarray(sg.f32, 8)

    @sg.kernel
    def total(x: Line) -> sg.f32:  # type: ignore[valid-type]
        found = 0.0
        for i in range(x.shape[0]):
            found += x[i]
        return found

    return lambda: total(a)


class Most(NamedTuple):
    """The most that the second, the third and each later call may go through."""

    second: Way
    third: Way
    later: Way


NONE = Way(0, 0)
MOST: dict[Callable[[], Callable[[], None]], Most] = {
    numbers: Most(Way(26, 13), Way(225, 32), NONE),
    template: Most(Way(21, 11), Way(215, 30), NONE),
    ndarrays: Most(Way(19, 10), Way(285, 31), NONE),
    gradient: Most(Way(21, 10), Way(325, 31), NONE),
    numpy_arrays: Most(Way(18, 9), Way(290, 31), NONE),
    sized: Most(Way(32, 13), Way(360, 36), NONE),
    method: Most(Way(26, 13), Way(310, 33), Way(1, 1)),
    result: Most(Way(34, 13), Way(90, 27), Way(34, 13)),
}


COLLECT = {"never": gc.disable, "between": gc.collect, "during": lambda: gc.set_threshold(1)}


@pytest.fixture(params=COLLECT)
def collect(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """When the garbage collector runs: what an earlier launch left behind decides nothing about a later one."""
    before, enabled = gc.get_threshold(), gc.isenabled()
    yield COLLECT[request.param]
    gc.set_threshold(*before)
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("make", MOST, ids=lambda make: make.__name__)
def test_calls_go_through_few_functions(make: Callable[[], Callable[[], None]], collect: Callable[[], Any]) -> None:
    most = MOST[make]
    limits = (most.second, most.third, most.later, most.later)
    call = make()
    assert way(call).calls > 1000, "the kernel is traced and compiled"
    for name, limit in zip(("second", "third", "fourth", "fifth"), limits):
        collect()
        found = way(call)
        assert found.calls <= limit.calls and found.modules <= limit.modules, f"{name} call: {found}, at most {limit}"


def test_garbage_of_others_is_not_counted() -> None:
    """A kernel whose field dies drops its launches; that this happens in a call of another one says nothing of it."""
    call = numbers()
    repeat(call, 6)
    other = template()
    repeat(other, 6)
    cycle: list[Any] = [other]
    cycle.append(cycle)
    died = weakref.ref(other)
    del other, cycle

    def collected() -> None:
        call()
        gc.collect()
        assert died() is None

    assert way(collected) == NONE


def test_arrays_of_a_call_die_with_their_last_name() -> None:
    """No cycle keeps what a launch was bound to; so it is also not there for a later launch by chance."""
    gc.disable()
    try:
        multiply, given = _product()
        for launch in (multiply, multiply.grad):
            launch(*given)
        refers = [weakref.ref(array) for array in given]
        del given, launch
        assert [refer() for refer in refers] == [None] * 3
    finally:
        gc.enable()


def test_a_known_call_is_not_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a call apart, and all that comes behind it, runs for the first call of these objects alone."""
    from stackgrad.launch import call_cache

    taken: list[Any] = []

    def take_apart(*given: Any) -> Any:
        taken.append(given)
        return whole(*given)

    whole = call_cache.take_apart
    monkeypatch.setattr(call_cache, "take_apart", take_apart)
    multiply, (a, b, c) = _product()
    multiply(a, b, c)
    multiply._forward._wait = 1 << 60  # a launch is taken apart again before it stands ready
    for _ in range(5):
        multiply(a, b, c)
    assert len(taken) == 1
    multiply(c, b, a)
    assert len(taken) == 2 and len(multiply.programs) == 1


def test_an_entry_ends_with_all_its_launches() -> None:
    """A changed number ends what was prepared in Python and what stood ready, in both directions at once."""
    kept = {"factor": 2.0}
    x, y = (sg.field(sg.f32, 4, needs_grad=True) for _ in range(2))

    @sg.kernel
    def scale():  # type: ignore[no-untyped-def]
        for i in x:
            y[i] = x[i] * sg.static(kept["factor"])

    for _ in range(6):
        scale()
        scale.grad()
    entry = next(iter(scale.cache().entries.values()))
    assert len(entry.handles) == 2 and all(not one.standing.is_orphan for one in entry.handles.values())
    handles = list(entry.handles.values())
    kept["factor"] = 3.0
    scale.grad()
    assert entry.is_dropped and not entry.handles and all(one.standing.is_orphan for one in handles)
    assert [*scale.cache().entries.values()] != [entry] and len(scale.programs) == 1
    assert all(site.guarded is None or not site.guarded.handles for site in (scale._forward, scale._reverse))


FACTOR = 2.0


def test_a_name_that_machine_code_can_look_at_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handle of an entry changes its chain; Python asks the guard from then on."""
    x, y = sg.field(sg.f32, 4), sg.field(sg.f32, 4)
    x.fill(1.0)

    @sg.kernel
    def scale():  # type: ignore[no-untyped-def]
        for i in x:
            y[i] = x[i] * FACTOR

    repeat(scale, 6)
    site, (handle,) = scale._forward, scale._forward.free.handles
    monkeypatch.setattr(NameGuard, "pin", lambda self: None)
    handle.standing.words[VALID] = 0
    repeat(scale, 6)
    assert not site.free.handles and len(site.guarded.handles) == 1 and site.guarded.launched > 0
    assert list(handle.entry.handles.values()) == [*site.guarded.handles]
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 5.0)
    scale()
    assert y[3] == 5.0 and handle.entry.is_dropped and not site.guarded.handles


def test_a_new_generation_ends_every_entry() -> None:
    call = numbers()
    for _ in range(6):
        call()
    kernel = call.__closure__[0].cell_contents  # type: ignore[attr-defined]
    before, (entry,) = kernel.cache(), kernel.cache().entries.values()
    assert entry.handles and before.generation == RUNTIME.generation
    sg.init(arch=sg.cpu)
    with pytest.raises(sg.StaleFieldError):
        call()
    assert kernel._cache is before and not kernel.programs, "nothing was traced, for its fields are stale"
