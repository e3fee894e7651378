"""This module lets one thread at a time into LLVM, and no other thread while the process forks or ends."""

from __future__ import annotations

import atexit
import threading
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from llvmlite.binding import ffi

from ..forks import hold_while_forking


class CompilerLock:
    """Represent a reentrant lock that a waiting thread gets before the thread that released it can take it again.

    A thread that compiles without end releases the lock only for moments. A waiting thread holds the turnstile
    meanwhile, so the compiling thread must queue behind it. A fork therefore waits for one compilation, not for luck.
    """

    def __init__(self) -> None:
        self._turnstile, self._lock = threading.Lock(), threading.Lock()
        self._owner, self._depth = 0, 0

    def acquire(self) -> None:
        """Wait for the lock; a thread that holds the lock may take it again."""
        me = threading.get_ident()
        if self._owner != me:
            with self._turnstile:
                self._lock.acquire()
            self._owner = me
        self._depth += 1

    def release(self) -> None:
        """Release the lock once; it becomes free after as many releases as acquisitions."""
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._lock.release()

    def renew(self) -> None:
        """Make the lock usable in a forked child, whose only thread holds it."""
        # The threads that waited at the turnstile do not exist in the child, so the child gets a new turnstile.
        self._turnstile = threading.Lock()
        self._owner = threading.get_ident()
        self.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


LOCK = CompilerLock()


class _Calls:
    """Represent llvmlite's own lock, which llvmlite holds during each of its calls.

    Some of these calls release objects that are no longer used, and may come from any thread.
    """

    def __init__(self) -> None:
        self._own: AbstractContextManager[object] = getattr(ffi.lib, "_lock", nullcontext())

    def acquire(self) -> None:
        """Wait for llvmlite's own lock and take it."""
        self._own.__enter__()

    def release(self) -> None:
        """Release llvmlite's lock."""
        self._own.__exit__(None, None, None)


LOCK, _CALLS = CompilerLock(), _Calls()

hold_while_forking(LOCK, 1)
hold_while_forking(_CALLS, 2)
atexit.register(_CALLS.acquire)
atexit.register(LOCK.acquire)
