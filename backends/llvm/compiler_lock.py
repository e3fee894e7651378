"""Who is inside LLVM: one thread at a time, and no other one while the process forks or ends."""

from __future__ import annotations

import atexit
import threading
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from llvmlite.binding import ffi

from ..forks import hold_while_forking


class CompilerLock:
    """A lock that its holder may take again, and that a waiting thread gets before its holder gets it anew.

    A thread that compiles without end lets go of the lock for moments alone. Whoever waits stands in the turnstile
    meanwhile, so that the thread must queue behind: a fork waits for one compilation, not for luck.
    """

    def __init__(self) -> None:
        self._turnstile, self._lock = threading.Lock(), threading.Lock()
        self._owner, self._depth = 0, 0

    def acquire(self) -> None:
        """Wait for the lock."""
        me = threading.get_ident()
        if self._owner != me:
            with self._turnstile:
                self._lock.acquire()
            self._owner = me
        self._depth += 1

    def release(self) -> None:
        """Give it back, as often as it was taken."""
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._lock.release()

    def renew(self) -> None:
        """In a forked child, whose only thread holds the lock: who stood in the turnstile is not there."""
        self._turnstile = threading.Lock()
        self._owner = threading.get_ident()
        self.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


LOCK = CompilerLock()


class _Calls:
    """llvmlite's own lock, around each of its calls: also of those that throw away what nobody needs, on any thread."""

    def __init__(self) -> None:
        self._own: AbstractContextManager[object] = getattr(ffi.lib, "_lock", nullcontext())

    def acquire(self) -> None:
        """Wait for it."""
        self._own.__enter__()

    def release(self) -> None:
        """Give it back."""
        self._own.__exit__(None, None, None)


LOCK, _CALLS = CompilerLock(), _Calls()

hold_while_forking(LOCK, 1)
hold_while_forking(_CALLS, 2)
atexit.register(_CALLS.acquire)
atexit.register(LOCK.acquire)
