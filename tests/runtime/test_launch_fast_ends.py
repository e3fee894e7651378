"""What ends launches that stand ready in machine code, and that nothing lives longer for them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import Steps, add, arrays, grow, native_of, natively, near_sines, repeat, site_of
from stackgrad.backends.host.trampoline import trampoline
from stackgrad.capture import capture
from stackgrad.runtime.session import RUNTIME


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience without end: a busy machine interrupts a launch at will."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(trampoline(), "patience", 1 << 62)


@pytest.fixture
def s() -> Steps:
    return Steps()


def test_tapes_see_every_launch(s: Steps) -> None:
    loss = sg.field(sg.f64, (), needs_grad=True)
    x, y = s.x, s.y

    @sg.kernel
    def total():  # type: ignore[no-untyped-def]
        for i in y:
            loss[None] += y[i]

    repeat(s.run)
    repeat(total)
    for _ in range(3):
        loss.fill(0.0)
        x.grad.fill(0.0)
        with natively(s.run, 0), natively(total, 0), sg.ad.Tape(loss):
            s.run()
            total()
        s.check_grad(4)
    with natively(s.run, 1):
        s.run()


def test_captures_see_every_launch(s: Steps) -> None:
    repeat(s.run)
    with natively(s.run, 0), capture(limit=5) as captured:
        repeat(s.run, 3)
    assert len(captured.launches) == 3
    with natively(s.run, 1):
        s.run()


def test_profiles_see_every_launch(s: Steps) -> None:
    repeat(s.run)
    with natively(s.run, 0), sg.profile() as profile:
        repeat(s.run, 3)
    assert [kernel.launches for kernel in profile.kernels] == [3]
    with natively(s.run, 1):
        s.run()


def test_init_and_reset_end_everything(s: Steps) -> None:
    repeat(s.run)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    with pytest.raises(sg.StaleFieldError):
        s.run()
    a, b, c = arrays()
    repeat(lambda: add(a, b, c))
    sg.init(arch=sg.reference)
    with pytest.raises(sg.StaleFieldError):
        add(a, b, c)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    with pytest.raises(sg.StaleFieldError):
        add(a, b, c)
    repeat(lambda: add(*arrays()))
    a, b, c = arrays()
    with natively(add, 1):
        add(a, b, c)


def test_fields_that_were_destroyed() -> None:
    builder = sg.FieldsBuilder()
    x = sg.field(sg.f64)
    builder.dense(sg.i, 4).place(x)
    tree = builder.finalize()

    @sg.kernel
    def fill():  # type: ignore[no-untyped-def]
        for i in x:
            x[i] = 1.0

    repeat(fill)
    with natively(fill, 1):
        fill()
    tree.destroy()
    with pytest.raises(sg.StaleFieldError, match="destroyed"):
        fill()


def test_a_field_as_an_argument_dies() -> None:
    @sg.kernel
    def fill(x: sg.template(), value: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            x[i] = value

    given = [sg.field(sg.f64, 8)]
    repeat(lambda: fill(given[0], 1.0))
    with natively(fill, 1):
        fill(given[0], 2.0)
    gone = weakref.ref(given.pop())
    gc.collect()
    assert gone() is None
    for _ in range(20):
        other = sg.field(sg.f64, 8)
        fill(other, 3.0)
        assert other.to_numpy().tolist() == [3.0] * 8


def test_errors_are_raised_as_from_python() -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64, debug=True)
    x, n = sg.field(sg.f64, 4), sg.field(sg.i32, ())

    @sg.kernel
    def store(at: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        x[at] = 1.0

    with pytest.raises(sg.OutOfBounds) as from_python:
        store(7)
    repeat(lambda: store(1))
    for _ in range(3):
        version = x.version
        with pytest.raises(sg.OutOfBounds) as found:
            store(7)
        assert str(found.value) == str(from_python.value) and x.version != version
        repeat(lambda: store(2))
    assert n[None] == 0
    with natively(store, 1):
        store(3)


def test_threads_at_once() -> None:
    made = [arrays() for _ in range(4)]
    repeat(lambda: add(*made[0]))
    before = add.stats().launches
    errors: list[BaseException] = []

    def work(mine: list[Any]) -> None:
        try:
            for k in range(2000):
                mine[0].fill(float(k)) if k % 500 == 0 else None
                add(*mine)
                if k % 100 == 0:
                    np.testing.assert_array_equal(mine[2].to_numpy(), mine[0].to_numpy() + mine[1].to_numpy())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert add.stats().launches - before == 8000


def test_reference_counts_stay(s: Steps) -> None:
    a, b, c = arrays()
    numbers = np.arange(16.0), np.ones(16), np.zeros(16)
    for call, things in ((lambda: add(a, b, c), (a, b, c)), (lambda: add(*numbers), numbers), (s.run, ())):
        repeat(call)
        watched = [None, True, False, 1.5, 4, *things]
        before = [sys.getrefcount(thing) for thing in watched]
        for _ in range(20_000):
            call()
        after = [sys.getrefcount(thing) for thing in watched]
        assert max(abs(x - y) for x, y in zip(before, after)) < 50


def test_kernels_arrays_and_handles_die(s: Steps) -> None:
    def make() -> tuple[Any, list[Any]]:
        x = sg.field(sg.f64, 4)

        @sg.kernel
        def fill(a: sg.types.ndarray(ndim=1)):  # type: ignore[no-untyped-def, valid-type]
            for i in x:
                x[i] = a[i]

        given = sg.ndarray(sg.f64, 4)
        repeat(lambda: fill(given))
        with natively(fill, 1):
            fill(given)
        standing = fill._forward.free.handles[0].standing
        return fill, [weakref.ref(thing) for thing in (x, given, standing, fill._forward.free)]

    kernel, alive = make()
    gc.collect()
    assert alive[1]() is None and alive[2]() is not None  # an argument is not kept
    del kernel
    gc.collect()
    assert [ref() for ref in alive] == [None] * 4


def test_long_launches_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would wait for the interpreter's lock."""
    monkeypatch.setattr(trampoline(), "patience", 1)
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()
    x = sg.field(sg.f64, 4)

    @sg.kernel
    def fill():  # type: ignore[no-untyped-def]
        for i in x:
            x[i] += 1.0

    for _ in range(200):
        fill()
    assert x[0] == 200.0 and fill.stats().launches == 200
    assert native_of(fill).launched == 0 and site_of(fill)._wait > 30
    over.set()


ALONE = """
import sys
import stackgrad as sg
from stackgrad.backends.host.trampoline import trampoline

sg.init(arch=sg.cpu)
trampoline().patience *= int(sys.argv[1])
x = sg.field(sg.f64, 4)


@sg.kernel
def fill(trips: sg.i32):
    for i in x:
        for _ in range(trips):
            x[i] = x[i] * 0.5 + 1.0


for _ in range(200):
    fill(40_000)
assert x[0] == 2.0 and fill.stats().launches == 200
print(fill._forward.free.launched)
"""


@pytest.mark.parametrize(("patience", "is_ready"), [(1, True), (0, False)])
def test_long_launches_of_a_lone_thread(patience: int, is_ready: bool, tmp_path: Path) -> None:
    """Nobody waits for the interpreter's lock, but Ctrl-C must end launches that are much longer than patience."""
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    command = [sys.executable, str(script), str(patience)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20 if is_ready else int(done.stdout) == 0


def test_watchers_forbid_native_launches(s: Steps) -> None:
    repeat(s.run)
    for name, value in (("tracing", True),):
        setattr(RUNTIME, name, value)
        with natively(s.run, 0):
            s.run()
        setattr(RUNTIME, name, False)
    with natively(s.run, 1):
        s.run()


def test_functions_taken_before_a_launch_stood_ready(s: Steps) -> None:
    call, grad = s.run.__call__, s.run.grad
    repeat(call)
    repeat(grad)
    with natively(s.run, 5), natively(s.run, 5, is_grad=True):
        for function in (call, s.run.__call__, grad, s.run.grad):
            repeat(function, 5 if function in (call, grad) else 0)
    kernel = weakref.ref(native_of(s.run))
    s.run = None
    gc.collect()
    assert kernel() is not None
    s.seed()
    grad()
    s.check_grad(4)


def test_a_launch_inside_of_another_one(s: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel prints may launch kernels: native ones, with adstacks of their own, and the same kernel again."""
    x, y, depth = s.x, s.y, [0]
    other = Steps()
    repeat(other.run), repeat(other.run.grad)

    @sg.kernel
    def loud(times: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            v = x[i]
            for _ in range(times):
                v = sg.sin(v)
            if i == 3:
                print("at", i)
            y[i] = v

    class Out:
        def write(self, text: str) -> int:
            if depth[0] < 2:
                depth[0] += 1
                other.seed()
                other.run()
                other.run.grad()
                other.check_grad(4)
                loud(2)
                depth[0] -= 1
            return len(text)

        def flush(self) -> None:
            """Nothing is kept."""

    monkeypatch.setattr(sys, "stdout", Out())
    for _ in range(6):
        loud(5)
        found = y.to_numpy()  # first: on a device, what waits is what prints and so launches again
        near_sines(x.to_numpy()[3:], 5, y=found[3:])
        s.seed()
        loud.grad(5)
        s.check_grad(5)
    assert native_of(loud).launched == 0 and native_of(other.run).launched > 5


def test_a_gradient_that_is_added_later() -> None:
    x, y = sg.field(sg.f64), sg.field(sg.f64)
    for one in (x, y):
        sg.root.dense(sg.i, 4).place(one)
    x.from_numpy([1.0, 2.0, 3.0, 4.0])

    @sg.kernel
    def square(a: sg.template(), b: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in a:
            b[i] = a[i] * a[i]

    repeat(lambda: square(x, y))
    with natively(square, 1):
        square(x, y)
    for one in (x, y):
        sg.root.dense(sg.i, 4).place(one.grad)
    with natively(square, 0):
        square(x, y)
    for _ in range(6):
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        square.grad(x, y)
        assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0, 8.0]


def test_adstacks_of_threads_at_once() -> None:
    """Native launches keep away from the heap while one from Python, which has released the lock, uses it."""
    errors: list[BaseException] = []

    def work(size: int, times: int, rounds: int) -> None:
        try:
            (x, y), (n,) = arrays(2, size, needs_grad=True), arrays(1, size, dtype=sg.i32)
            n.fill(times)
            x.from_numpy(np.linspace(0.2, 1.0, size))
            first = None
            for _ in range(rounds):
                x.grad.fill(0.0)
                y.grad.fill(1.0)
                grow.grad(x, y, n)
                first = x.grad.to_numpy() if first is None else first
                np.testing.assert_array_equal(x.grad.to_numpy(), first)
            near_sines(x.to_numpy(), times, slope=first)
        except BaseException as error:
            errors.append(error)

    work(16, 5, 6)
    sys.setswitchinterval(1e-5)
    try:
        jobs = [(16, 5, 300), (16, 9, 300), (4000, 60, 20), (3, 2, 300)]
        threads = [threading.Thread(target=work, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(5e-3)
    assert not errors
    assert grow.stats().grad_launches == 6 + sum(rounds for _, _, rounds in jobs)
