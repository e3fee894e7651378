"""Ctrl-C while native code runs: KeyboardInterrupt within seconds, and the process launches on as before.

Each program runs in a process of its own, in which a thread sends the signal when the launch is under way. What is
launched was compiled before, and lasts as long as the program has measured that it must, whatever the machine is.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_HEAD = """
import os, signal, sys, threading, time
import numpy as np
import stackgrad as sg
from stackgrad.backends import heap

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
heap.memory_of_machine = lambda: (1 << 62, "this test has")  # a count ends where no memory holds it: late enough
sg.init(arch=sg.cpu, default_fp=sg.f64, cpu_max_num_threads=THREADS)

def later(seconds):
    def send():
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()

def lasting(seconds, launch, *arguments):
    # How much to launch so that it lasts at least so many seconds; compiles all that the launch needs.
    def took(many):
        begin = time.perf_counter()
        launch(many, *arguments)
        return time.perf_counter() - begin
    many = 256
    while min(took(many) for _ in range(2)) < 0.1:
        many *= 2
    return many * max(1, round(seconds / 0.1))

def interrupted(launch, *arguments, after=0.5):
    later(after)
    begin = time.perf_counter()
    try:
        launch(*arguments)
        print("ended after", time.perf_counter() - begin)
    except KeyboardInterrupt:
        assert time.perf_counter() - begin < after + 10
        print("interrupted")

x, y = (sg.field(sg.f64, 4, needs_grad=True) for _ in range(2))
x.fill(0.5)
n = sg.field(sg.i64, 4)

@sg.kernel
def power():
    for i in x:
        v = x[i]
        k = 0
        while k < n[i]:
            v = v * v
            k += 1
        y[i] = v

def check():
    n.fill(2)
    for _ in range(6):
        y.grad.fill(1.0)
        x.grad.fill(0.0)
        power()
        power.grad()
    assert y.to_numpy().tolist() == [0.5**4] * 4 and x.grad.to_numpy().tolist() == [4 * 0.5**3] * 4
    print("right")
"""

CHUNKS = """
@sg.kernel
def long(many: sg.i64, found: sg.types.ndarray()):
    for i in range(many):
        s = i * 1e-9
        for k in range(300):
            s = sg.sin(s + k)
        if s > 5.0:
            found[0] = s

found = np.zeros(1)
interrupted(long, lasting(3600.0, long, found), found)
check()
"""
"""A parallel loop of hours."""

TASKS = """
@sg.kernel
def long(many: sg.i32, found: sg.types.ndarray()):
    for t in sg.static(range(40)):
        for i in range(2):
            s = i * 1e-9
            for k in range(many):
                s = sg.sin(s + k + t)
            if s > 5.0:
                found[0] = s

found = np.zeros(1)
interrupted(long, lasting(30.0, long, found), found)
check()
"""
"""Many tasks, none of which is divided."""

COUNTING = """
check()
n.fill(10**11)
y.grad.fill(1.0)
interrupted(power.grad, after=2.0)
check()
"""
"""The count of a gradient that no memory could hold: it begins anew, to end with memory, before the signal comes."""

HANDLER = """
class Late(Exception):
    pass

def late(number, frame):
    raise Late("too late")

signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 2.0)
n.fill(10**11)
try:
    power.grad()
except Late as error:
    print("interrupted" if str(error) == "too late" else error)
handled = []
signal.signal(signal.SIGALRM, lambda number, frame: handled.append(time.perf_counter()))

@sg.kernel
def long(many: sg.i64, found: sg.types.ndarray()):
    for i in range(many):
        s = i * 1e-9
        for k in range(300):
            s = sg.sin(s + k)
        if s < 5.0:
            sg.atomic_add(found[0], 1)

found = np.zeros(1, np.int64)
many = lasting(1.5, long, found)
found[0] = 0
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
long(many, found)
signal.setitimer(signal.ITIMER_REAL, 0.0)
assert found[0] == many, found
assert len(handled) > 2, handled  # were they not called while the launch goes on, it were once, behind it
check()
"""
"""A handler of the program's own, that raises what it likes, and one that raises nothing: the launch goes on."""

FORKED = """
check()
child = os.fork()
if child == 0:
    n.fill(10**11)
    y.grad.fill(1.0)
    interrupted(power.grad, after=2.0)
    check()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
"""The same in a forked child, whose main thread is another."""

OTHER_THREAD = """
found = np.zeros(1, np.int64)

@sg.kernel
def long(many: sg.i64, found: sg.types.ndarray()):
    for i in range(many):
        s = i * 1e-9
        for k in range(300):
            s = sg.sin(s + k)
        if s < 5.0:
            sg.atomic_add(found[0], 1)

many = lasting(1.5, long, found)
found[0] = 0
worker = threading.Thread(target=long, args=(many, found))
worker.start()
later(seconds=0.2)
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
worker.join()
assert found[0] == many, found
check()
"""
"""A launch of another thread is none of the signal's business."""


@pytest.mark.rotating
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to processes of POSIX alone")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "body",
    [CHUNKS, TASKS, COUNTING, HANDLER, FORKED, OTHER_THREAD],
    ids=["chunks", "tasks", "counting", "handler", "forked", "other_thread"],
)
def test_ctrl_c(body: str, threads: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(_HEAD.replace("THREADS", str(threads)) + textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert done.stdout.split()[-2:] == ["interrupted", "right"] and "ignored" not in said, said
