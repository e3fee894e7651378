"""Make forks of the process safe: a fork waits for registered locks, and the child renews registered state.

A lock that guards work in progress (a trace, LLVM) is held while the process forks, so that the child finds this work
done. A lock that guards little is made free in the child, because the thread that may have held it does not exist
there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakMethod, WeakSet


class Lock(Protocol):
    """Define the interface of a lock that is held while the process forks."""

    def acquire(self) -> object:
        """Wait for the lock and take it."""

    def release(self) -> object:
        """Give the lock back."""


_L = TypeVar("_L")
_held: list[tuple[int, Lock]] = []
_freed: WeakSet[object] = WeakSet()
_renewals: list[WeakMethod[Callable[[], object]]] = []


def hold_while_forking(lock: Lock, place: int) -> None:
    """Make forks of the process wait for a lock; if there are several, they are taken in ascending order of `place`."""
    _held.append((place, lock))
    _held.sort(key=lambda entry: entry[0])


def free_in_child(lock: _L) -> _L:
    """Return a lock of `threading` that will be free in a forked child."""
    _freed.add(lock)
    return lock


def renew_in_child(renew: Callable[[], object]) -> None:
    """Register a method that each forked child calls after releasing its locks, as long as its object exists."""
    _renewals[:] = [known for known in _renewals if known() is not None]
    _renewals.append(WeakMethod(renew))


def _before() -> None:
    """Acquire all registered locks; the process calls this function before it forks."""
    for _, lock in _held:
        lock.acquire()


def _after() -> None:
    """Release all registered locks in the parent process after a fork."""
    for _, lock in reversed(_held):
        lock.release()


def _in_child() -> None:
    """Release all registered locks in a forked child, and call the methods that renew its state."""
    for lock in list(_freed):
        # The standard library does the same with its own locks.
        lock._at_fork_reinit()  # type: ignore[attr-defined]
    for _, lock in reversed(_held):
        renew = getattr(lock, "renew", lock.release)
        renew()
    for known in _renewals:
        action = known()
        if action is not None:
            action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
