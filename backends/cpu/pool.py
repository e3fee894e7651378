"""This module manages the thread pool of the process, which is created when a launch first needs it.

There is one pool. Its code (pool_code.py) stays loaded while the process lives, since workers sleep inside it; the
workers are joined when the interpreter ends. A forked child has none of the threads and starts with no workers.

Idle workers watch `epoch`, which counts jobs, for a while, and then sleep. `sleepers` counts the workers that are about
to sleep. A launching thread that takes a worker off this count owes it one post. A worker that finds a new job before
it sleeps takes itself off the count, or accepts the post if it has been taken off already.

A launch never waits for the pool's lock: if another thread, or a launch around this one, holds the lock, the launch
runs on its own thread.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading

from ...compiler.ir.kernels import Kernel
from ..codegen.layout import BlockLayout
from ..forks import free_in_child
from ..host.jit import NativeCode
from ..llvm.module import Generated
from .pool_code import pool_code
from .pool_platform import Platform, platform_of

ENTRIES = ("sg.pool.run", "sg.pool.stop", "sg.pool.forget", "sg.pool.workers", "sg.pool.jobs")

_NO_KERNEL = Kernel("pool", (), ())
_LOCK = free_in_child(threading.Lock())


class ThreadPool:
    """Represent the worker threads of the process, which share the iterations of a parallel task.

    Attributes:
        run: Address of `sg.pool.run(function, block, total, grain, threads, poll) -> status`.
    """

    def __init__(self, on: Platform, spin_worker: int = 2000, spin_launcher: int = 500) -> None:
        text = pool_code(on, spin_worker, spin_launcher)
        # Effort 0 takes a tenth of the time to make the code.
        self._code = NativeCode(Generated(_NO_KERNEL, text, BlockLayout(), ()), 0, ENTRIES)
        self.run = self._code.addresses["sg.pool.run"]
        self._stop = ctypes.CFUNCTYPE(None)(self._code.addresses["sg.pool.stop"])
        self._forget = ctypes.PYFUNCTYPE(None)(self._code.addresses["sg.pool.forget"])
        self._workers = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._code.addresses["sg.pool.workers"])
        self._jobs = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._code.addresses["sg.pool.jobs"])
        # The code is never unloaded, because workers sleep in it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._code))
        atexit.register(self._stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @property
    def workers(self) -> int:
        """Return the number of worker threads that the pool has created so far."""
        return int(self._workers())

    @property
    def jobs(self) -> int:
        """Return the number of tasks that ran on the pool's workers; the pool runs one task at a time."""
        return int(self._jobs())

    def stop(self) -> None:
        """End the worker threads unless a launch is running; later launches run on the calling thread only."""
        self._stop()


_made: list[ThreadPool] = []


def pool() -> ThreadPool:
    """Return the pool of the process; the first call makes it."""
    with _LOCK:
        if not _made:
            _made.append(ThreadPool(platform_here()))
        return _made[0]


def platform_here() -> Platform:
    """Return the properties of this operating system and processor on which the code of the thread pool depends.

    `signals` of the result is "none" if the C library has no POSIX threads; then all tasks run on the calling thread.
    """
    found = platform_of(sys.platform, platform.machine())
    needed = ("pthread_create", "sem_init") if found.signals == "semaphore" else ("pthread_create",)
    try:
        library = ctypes.CDLL(None)
        return found if all(hasattr(library, name) for name in needed) else Platform("none")
    except (OSError, TypeError):
        return Platform("none")
