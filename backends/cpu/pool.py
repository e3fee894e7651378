"""The pool of this process: worker threads for large tasks, made when a launch first wants them.

There is one. Its code is never taken down while the process lives, since workers sleep inside it; when the interpreter
ends they are joined. A forked child has none of the threads and starts with no workers.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading

from ...compiler.ir.nodes import Kernel
from ..forks import free_in_child
from ..llvm.layout import Layout
from ..llvm.module import Generated
from .jit import NativeCode
from .pool_code import pool_code
from .pool_platform import Platform, platform_of

ENTRIES = ("sg.pool.run", "sg.pool.stop", "sg.pool.forget", "sg.pool.workers", "sg.pool.jobs")

_NO_KERNEL = Kernel("pool", (), ())
_LOCK = free_in_child(threading.Lock())


class Pool:
    """A pool of its own. run: address of `sg.pool.run(function, block, total, grain, threads, poll) -> status`."""

    def __init__(self, on: Platform, spin_worker: int = 2000, spin_launcher: int = 500) -> None:
        text = pool_code(on, spin_worker, spin_launcher)
        self._code = NativeCode(Generated(_NO_KERNEL, text, Layout(), ()), 0, ENTRIES)  # a tenth of the time to make
        self.run = self._code.addresses["sg.pool.run"]
        self._stop = ctypes.CFUNCTYPE(None)(self._code.addresses["sg.pool.stop"])
        self._forget = ctypes.PYFUNCTYPE(None)(self._code.addresses["sg.pool.forget"])
        self._workers = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._code.addresses["sg.pool.workers"])
        self._jobs = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._code.addresses["sg.pool.jobs"])
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._code))  # never unloaded: workers sleep in it
        atexit.register(self._stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @property
    def workers(self) -> int:
        """Threads made so far."""
        return int(self._workers())

    @property
    def jobs(self) -> int:
        """Runs that had the workers to themselves."""
        return int(self._jobs())

    def stop(self) -> None:
        """End the workers, unless a launch goes on; later launches run on their own threads."""
        self._stop()


_made: list[Pool] = []


def pool() -> Pool:
    """The pool of the process."""
    with _LOCK:
        if not _made:
            _made.append(Pool(platform_here()))
        return _made[0]


def platform_here() -> Platform:
    """What a pool stands on here; nothing, where the C library has no POSIX threads."""
    found = platform_of(sys.platform, platform.machine())
    needed = ("pthread_create", "sem_init") if found.signals == "semaphore" else ("pthread_create",)
    try:
        library = ctypes.CDLL(None)
        return found if all(hasattr(library, name) for name in needed) else Platform("none")
    except (OSError, TypeError):
        return Platform("none")
