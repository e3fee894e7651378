"""Ctrl-C while native code runs: KeyboardInterrupt within seconds, and the process launches on as before.

Each program runs in a process of its own, in which a thread sends the signal when the launch is under way.
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

sg.init(arch=sg.cpu, default_fp=sg.f64, cpu_max_num_threads=THREADS)

def later(signal_number=signal.SIGINT, seconds=1.0):
    def send():
        time.sleep(seconds)
        os.kill(os.getpid(), signal_number)
    threading.Thread(target=send, daemon=True).start()

def interrupted(launch, *arguments):
    later()
    begin = time.perf_counter()
    try:
        launch(*arguments)
    except KeyboardInterrupt:
        assert time.perf_counter() - begin < 20
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
        s = 0.0
        for k in range(300):
            s = sg.sin(s + k)
        if s > 5.0:
            found[0] = s

interrupted(long, 10**10, np.zeros(1))
check()
"""
"""A parallel loop of hours."""

TASKS = """
@sg.kernel
def long(found: sg.types.ndarray()):
    for t in sg.static(range(40)):
        for i in range(2):
            s = 0.0
            for k in range(4000000):
                s = sg.sin(s + k + t)
            if s > 5.0:
                found[0] = s

interrupted(long, np.zeros(1))
check()
"""
"""Many tasks, none of which is divided."""

COUNTING = """
check()
n.fill(10**11)
y.grad.fill(1.0)
interrupted(power.grad)
check()
"""
"""The count of a gradient that no memory could hold."""

HANDLER = """
class Late(Exception):
    pass

def late(number, frame):
    raise Late("too late")

signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.8)
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
        s = 0.0
        for k in range(300):
            s = sg.sin(s + k)
        if s < 5.0:
            sg.atomic_add(found[0], 1)

found = np.zeros(1, np.int64)
long(1, found)
signal.setitimer(signal.ITIMER_REAL, 0.2)
long(3000000, found)
ended = time.perf_counter()
assert found[0] == 3000001, found
time.sleep(0.3)
assert handled and handled[0] < ended
check()
"""
"""A handler of the program's own, that raises what it likes, and one that raises nothing: the launch goes on."""

FORKED = """
check()
child = os.fork()
if child == 0:
    n.fill(10**11)
    y.grad.fill(1.0)
    interrupted(power.grad)
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
        s = 0.0
        for k in range(300):
            s = sg.sin(s + k)
        if s < 5.0:
            sg.atomic_add(found[0], 1)

worker = threading.Thread(target=long, args=(3000000, found))
worker.start()
later(seconds=0.2)
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
worker.join()
assert found[0] == 3000000, found
check()
"""
"""A launch of another thread is none of the signal's business."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to processes of POSIX alone")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", [CHUNKS, TASKS, COUNTING, HANDLER, FORKED, OTHER_THREAD],
                         ids=["chunks", "tasks", "counting", "handler", "forked", "other_thread"])  # fmt: skip
def test_ctrl_c(body: str, threads: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(_HEAD.replace("THREADS", str(threads)) + textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert done.stdout.split()[-2:] == ["interrupted", "right"] and "ignored" not in said, said
