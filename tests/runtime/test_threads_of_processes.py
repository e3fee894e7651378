"""Processes that launch on several threads: they fork, are interrupted, and end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import OPS

_HEAD = """
    import os, signal, sys, threading, time
    import numpy as np
    import stackgrad as sg
    from stackgrad.backends.cpu import cores
    from stackgrad.backends.cpu.pool import pool
    cores.available = lambda: 3
    sg.init(arch=sg.cpu)
    x, y = sg.field(sg.f32, shape=1 << 15), sg.field(sg.f32, shape=1 << 15)
    x.fill(0.5)

    @sg.kernel
    def recurrence(m: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(m):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v
"""


def _python(code: str, tmp_path: Any) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(_HEAD) + textwrap.dedent(code))
    # Python 3.12 and later warn of each fork of a process with threads, which is what these programs are about.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.expensive
def test_a_fork_after_a_launch_launches(tmp_path: Any) -> None:
    run = _python(
        """
        recurrence(20)
        right = y.to_numpy()
        assert pool().workers == 2
        child = os.fork()
        y.fill(0.0)
        for _ in range(20):
            recurrence(20)
        assert (y.to_numpy() == right).all() and pool().workers == 2
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("both")
    """,
        tmp_path,
    )
    out, err = run.communicate(timeout=120)
    assert (run.returncode, out) == (0, "both\n"), err


@pytest.mark.expensive
def test_ctrl_c_is_raised_when_the_launch_is_over(tmp_path: Any) -> None:
    """KeyboardInterrupt is raised when all threads have left the launch, and what follows launches as ever."""
    run = _python(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        recurrence(1)
        recurrence(300)  # all code is made: what is interrupted below is a launch
        print("ready", flush=True)
        try:
            while True:
                recurrence(300)
        except KeyboardInterrupt:
            recurrence(1)
            print(float(y[0]), pool().workers, flush=True)
    """,
        tmp_path,
    )
    assert run.stdout is not None and run.stdout.readline() == "ready\n"
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    value, workers = out.split()
    expected = np.float32(np.sin(0.5) * np.float64(np.float32(0.95)) + np.float64(np.float32(0.01)))
    # a sine, a product and a sum of that size, and the rounding of what is expected
    most = OPS["sin"].ulps + OPS["mul"].ulps + OPS["add"].ulps + 0.5
    np.testing.assert_array_max_ulp(np.float32(value), expected, most)
    assert int(workers) == 2


@pytest.mark.expensive
def test_a_program_ends_while_its_threads_launch(tmp_path: Any) -> None:
    run = _python(
        """
        recurrence(20)
        def launch():
            while True:
                recurrence(20)
        threading.Thread(target=launch, daemon=True).start()
        time.sleep(0.2)
        print("end", flush=True)
    """,
        tmp_path,
    )
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (0, "end\n", "")


@pytest.mark.expensive
def test_a_program_ends_or_forks_while_its_threads_compile(tmp_path: Any) -> None:
    run = _python(
        """
        from stackgrad.backends.base import Draws, Options, Sizes
        from stackgrad.backends.cpu.backend import CpuBackend
        from stackgrad.compiler.ir.parser import parse_kernel

        def once(k: int) -> None:
            kernel = parse_kernel(f"kernel k{k}(x: i32[1]) {{ serial {{ %0: i32 = const 0 %1: i32 = const {k} "
                                  "store x[%0], %1 } }")
            x = np.zeros(1, np.int32)
            backend.compile(kernel, Options()).run({"x": x}, {}, Sizes(), Draws())
            assert x[0] == k

        def compile() -> None:
            for k in range(100_000):
                once(k)

        backend = CpuBackend()
        threading.Thread(target=compile, daemon=True).start()
        time.sleep(0.1)
        for k in range(5):
            child = os.fork()
            if child == 0:
                once(10**6 + k)
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("end", flush=True)
    """,
        tmp_path,
    )
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (0, "end\n", "")


@pytest.mark.expensive
def test_a_child_takes_what_absent_threads_held(tmp_path: Any) -> None:
    """Locks that other threads hold at the fork are waited for, or are free in the child."""
    run = _python(
        """
        from stackgrad.backends.forks import free_in_child
        from stackgrad.backends.llvm.compiler_lock import LOCK
        from stackgrad.launch.specializations import TRACING
        small, order, held = free_in_child(threading.Lock()), [], threading.Event()

        def hold() -> None:
            with small, TRACING, LOCK:
                held.set()
                time.sleep(0.3)
                order.append("done")
            small.acquire()
            time.sleep(60)

        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        for _ in range(2):
            child = os.fork()
            if child == 0:
                free = [lock.acquire(timeout=5) for lock in (small, TRACING)]
                LOCK.acquire()
                recurrence(3)
                os._exit(7 if order and all(free) is True else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            time.sleep(0.2)
        print("end", flush=True)
    """,
        tmp_path,
    )
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (0, "end\n", "")
