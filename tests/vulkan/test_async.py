"""Launches that are not waited for: what the host sees, when errors surface, memory that is dropped, threads."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.device import executable
from stackgrad.backends.vulkan import host_code as h
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.queue import Queue
from stackgrad.backends.vulkan.ring import SLOTS
from stackgrad.compiler.errors import AdstackOverflow, DeviceError, OutOfBounds

COUNT, STEPS = 4096, 40


@pytest.fixture
def queue(vulkan: VulkanBackend) -> Iterator[Queue]:
    """Of the device that the runtime launches on."""
    sg.init(arch=sg.vulkan)
    yield vulkan.opened.queue
    sg.reset()


@sg.kernel
def advance(x: sg.types.ndarray(), c: sg.f64) -> None:  # type: ignore[valid-type]
    for i in x:
        for _ in range(STEPS):
            x[i] = x[i] * 0.5 + c


def advanced(x: np.ndarray, c: float) -> np.ndarray:
    for _ in range(STEPS):
        x = x * 0.5 + c
    return x


def ndarray(content: np.ndarray) -> Any:
    made = sg.ndarray(sg.f64, content.shape)
    made.from_numpy(content)
    return made


def test_the_host_sees_what_launches_make(queue: Queue) -> None:
    """Many more launches than a ring has slots, each with a number of its own; one wait."""
    start = np.linspace(-1, 1, COUNT)
    x, expected = ndarray(start), start
    for k in range(4):
        advance(x, float(k))
        expected = advanced(expected, float(k))
    sg.sync()
    waits, submitted = queue.counters.waits, queue.table[h.VALUE]
    for k in range(5 * SLOTS):
        advance(x, k * 0.25)
        expected = advanced(expected, k * 0.25)
    assert queue.table[h.VALUE] == submitted + 5 * SLOTS
    assert queue.is_pending and queue.table[h.DONE] < queue.table[h.VALUE], "somebody waited for the last launch"
    assert queue.counters.waits == waits
    np.testing.assert_array_equal(x.to_numpy(), expected)
    assert queue.counters.waits == waits + 1 and not queue.is_pending


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x[7],
        lambda x: x.to_numpy()[7],
        lambda x: x.to_numpy(copy=False)[7],
        lambda x: np.from_dlpack(x)[7],
        lambda x: sg.sync() or x.buffer[7],
        lambda x: x.fill(x[7]) or x[9],
    ],
)
def test_every_way_to_look_waits(queue: Queue, look: Any) -> None:
    x = ndarray(np.ones(COUNT))
    expected = np.ones(1)
    for k in range(6):
        advance(x, float(k))
        expected = advanced(expected, float(k))
    assert look(x) == expected[0]


def test_what_the_host_writes_is_behind_launches(queue: Queue) -> None:
    x = ndarray(np.ones(COUNT))
    advance(x, 3.0)
    x[5] = 100.0
    advance(x, 1.0)
    x.fill(2.0)
    advance(x, 0.0)
    x.from_numpy(np.full(COUNT, 4.0))
    assert set(x.to_numpy().tolist()) == {4.0}
    advance(x, 3.0)
    x[5] = 100.0
    found = x.to_numpy()
    assert found[5] == 100.0 and found[4] == advanced(np.full(1, 4.0), 3.0)[0]


def test_memory_that_is_dropped_stays_until_launches_are_over(queue: Queue) -> None:
    """An array of the same size gets other memory meanwhile, and that of before when the device has been waited for."""
    x = ndarray(np.ones(COUNT))
    address = x.buffer.ctypes.data
    for k in range(6):
        advance(x, float(k))
    del x
    gc.collect()
    other = ndarray(np.zeros(COUNT))
    assert other.buffer.ctypes.data != address
    sg.sync()
    assert not other.to_numpy().any()
    several = [sg.ndarray(sg.f64, (COUNT,)) for _ in range(64)]
    (again,) = [one for one in several if one.buffer.ctypes.data == address]
    assert not again.to_numpy().any()


@sg.kernel
def pick(x: sg.types.ndarray(), at: sg.i32) -> None:  # type: ignore[valid-type]
    for i in range(3):
        x[i + at] = x[i + at] + 1.0


@pytest.mark.parametrize("waits", [False, True])
def test_errors_surface_at_the_next_wait(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, waits: bool) -> None:
    """Or, in a debug build, from the launch. What was launched behind the failure has not run."""
    monkeypatch.setattr(executable, "DEBUG_WAITS", waits)
    sg.init(arch=sg.vulkan, debug=True)
    x = sg.ndarray(sg.f64, (8,))
    if waits:
        with pytest.raises(OutOfBounds, match="index 8 is outside axis 0 of x"):
            pick(x, 6)
    else:
        pick(x, 6)
        pick(x, 0)
        with pytest.raises(OutOfBounds, match="index 8 is outside axis 0 of x"):
            x.to_numpy()
    before = x.to_numpy()
    assert before[:3].tolist() == [0.0, 0.0, 0.0]
    pick(x, 0)
    assert x.to_numpy()[:3].tolist() == [1.0, 1.0, 1.0]
    sg.reset()


@sg.kernel
def sweep(x: sg.types.ndarray(), n: sg.types.ndarray(), y: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
    for i in x:
        v = x[i]
        for _ in range(n[i]):
            v = v * v
        y[0] += v


def test_an_overflow_of_a_standing_launch_is_explained_and_forgotten(queue: Queue) -> None:
    """Depths that change behind the runtime's back: the error says what is needed, and later launches are right."""
    x = sg.ndarray(sg.f64, (64,), needs_grad=True)
    n, y = sg.ndarray(sg.i32, (64,)), sg.ndarray(sg.f64, (1,), needs_grad=True)
    x.fill(0.5), n.fill(3), y.grad.fill(1.0)  # type: ignore[func-returns-value]
    for _ in range(6):
        sweep.grad(x, n, y)
    sg.sync()
    n.buffer[7] = 9
    sweep.grad(x, n, y)
    with pytest.raises(AdstackOverflow, match="sweep"):
        sg.sync()
    n.fill(9)
    x.grad.fill(0.0)
    sweep.grad(x, n, y)
    assert (x.grad.to_numpy() == 512 * 0.5**511).all()  # powers of two throughout: nothing is rounded


def test_threads_take_turns_with_the_queue(queue: Queue) -> None:
    """Submissions of several threads and waits between them: each is counted once, and every array is right."""
    arrays = [ndarray(np.full(256, float(k))) for k in range(4)]
    for x in arrays:
        for _ in range(4):
            advance(x, 1.0)
    sg.sync()
    before, rounds, failed = queue.table[h.VALUE], 60, []

    def work(number: int) -> None:
        try:
            for k in range(rounds):
                advance(arrays[number], float(k))
                if k % (7 + number) == 0:
                    arrays[number].to_numpy()
        except BaseException as problem:  # noqa: BLE001
            failed.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and queue.table[h.VALUE] == before + 4 * rounds
    for number, x in enumerate(arrays):
        expected = np.full(1, float(number))
        for k in [1.0] * 4 + [float(k) for k in range(rounds)]:
            expected = advanced(expected, k)
        assert set(x.to_numpy().tolist()) == {expected[0]}


@pytest.mark.parametrize("printed", [False, True])
def test_two_threads_wait_for_the_same_launches(printed: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one does not go on because the first has begun to; where kernels have printed it stands behind it."""
    monkeypatch.setattr(queue, "_prints", queue.prints if printed else None)
    x = ndarray(np.ones(COUNT))
    expected = np.ones(1)
    for k in range(6):
        advance(x, float(k))
        expected = advanced(expected, float(k))
    found: list[np.ndarray] = []
    finish, second = queue.finish, threading.Thread(target=lambda: found.append(x.to_numpy()))

    def first() -> None:
        monkeypatch.setattr(queue, "finish", finish)
        waits = queue.counters.waits
        second.start()
        while second.is_alive() and queue.counters.waits == waits:
            time.sleep(0.001)
        finish()

    monkeypatch.setattr(queue, "finish", first)
    sg.sync()
    second.join()
    assert set(found[0].tolist()) == {expected[0]}


def test_numpy_arrays_are_written_when_the_launch_returns(queue: Queue) -> None:
    x = np.linspace(0, 1, COUNT)
    expected = advanced(x.copy(), 0.5)
    advance(x, 0.5)
    np.testing.assert_array_equal(x, expected)


def test_an_array_that_others_see_is_written_when_the_launch_returns(queue: Queue) -> None:
    x = ndarray(np.ones(COUNT))
    seen = x.to_numpy(copy=False)
    for k in range(6):
        advance(x, float(k))
        before = seen.copy()
        sg.sync()
        np.testing.assert_array_equal(seen, before)


@pytest.mark.parametrize(("code", "name"), [(-2, "VkErrorOutOfDeviceMemory"), (-4, "VkErrorDeviceLost")])
def test_a_launch_that_the_driver_refuses(queue: Queue, code: int, name: str) -> None:
    """From Python and from machine code; nothing is in flight then. A device that is lost takes no more launches."""
    x = ndarray(np.ones(8))
    for _ in range(5):
        advance(x, 0.0)
    before = x.to_numpy()
    real, table = queue.table[h.SUBMIT], queue.table
    refuse = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 4)(lambda *_: code)
    try:
        table[h.SUBMIT] = ctypes.cast(refuse, ctypes.c_void_p).value or 0
        for again in (lambda: advance(x, 0.0), lambda: advance(np.ones(8), 0.0)):
            with pytest.raises(DeviceError, match=f"launch of kernel advance: {name}"):
                again()
        table[h.SUBMIT] = real
        assert table[h.CLOSED] == (code if name == "VkErrorDeviceLost" else 0)
        if name == "VkErrorDeviceLost":
            with pytest.raises(DeviceError, match=name):
                advance(x, 0.0)
    finally:
        table[h.SUBMIT], table[h.CLOSED] = real, 0
    np.testing.assert_array_equal(x.to_numpy(), before)
    advance(x, 1.0)
    assert x[0] == advanced(before, 1.0)[0]


FORKED = """
import os
import stackgrad as sg
from stackgrad.backends import registry
sg.init(arch=sg.vulkan)
x = sg.field(sg.f32, shape=100)

@sg.kernel
def add(c: sg.f32):
    for i in x:
        x[i] += c

for _ in range(8):
    add(1.0)
is_cpu = registry.get("vulkan").device.card.is_cpu
child = os.fork()
if child == 0:
    try:
        add(1.0)
        os._exit(1)
    except sg.DeviceError as error:
        assert "forked" in str(error)
    try:
        sg.sync()
        sg.init(arch=sg.vulkan)
        y = sg.field(sg.f32, shape=3)

        @sg.kernel
        def two():
            for i in y:
                y[i] += 2.0

        two()
        os._exit(0 if y[1] == 2.0 else 2)
    except BaseException as error:
        print(error, flush=True)
        os._exit(3 if is_cpu else 0 if "spawn" in str(error) else 4)
assert os.waitpid(child, 0)[1] == 0
add(1.0)
assert x[7] == 9.0
"""


@pytest.mark.expensive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_launches_nothing_on_what_it_has_inherited(vulkan: VulkanBackend, tmp_path: Path) -> None:
    """Nor waits for ever; it can start afresh."""
    program = tmp_path / "program.py"
    program.write_text(FORKED)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_no_streams(queue: Queue) -> None:
    """Naming one changes nothing; a graph runs what it was given. Asking for an interface of CUDA marks nothing."""
    x, ran, expected = ndarray(np.ones(8)), [], advanced(np.ones(1), 1.0)
    with sg.cuda.stream(7):
        advance(x, 1.0)
    graph = sg.graph(lambda: (ran.append(1), advance(x, 0.5)))
    graph()
    graph()
    for _ in ran:
        expected = advanced(expected, 0.5)
    assert len(ran) >= 2 and sg.cuda.current_stream == 0 and x[3] == expected[0]
    assert not hasattr(x, "__cuda_array_interface__") and not x.exported
