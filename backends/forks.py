"""Forks: what they wait for, and what is made new in the child, which has none of the other threads.

A lock that guards work in progress (a trace, LLVM) is held while the process forks, so that the child finds that work
done. A lock that guards little is made free in the child: the thread that may have held it is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakMethod, WeakSet


class Lock(Protocol):
    """What a fork holds."""

    def acquire(self) -> object:
        """Wait for it."""

    def release(self) -> object:
        """Give it back."""


_L = TypeVar("_L")
_held: list[tuple[int, Lock]] = []
_freed: WeakSet[object] = WeakSet()
_renewals: list[WeakMethod[Callable[[], object]]] = []


def hold_while_forking(lock: Lock, place: int) -> None:
    """Forks wait for the lock. place: whoever takes two of them takes the lower one first."""
    _held.append((place, lock))
    _held.sort(key=lambda entry: entry[0])


def free_in_child(lock: _L) -> _L:
    """The lock, of `threading`; in a child it is free."""
    _freed.add(lock)
    return lock


def renew_in_child(renew: Callable[[], object]) -> None:
    """Call a method in children, as long as its object lives. It runs when all locks are free."""
    _renewals[:] = [known for known in _renewals if known() is not None]
    _renewals.append(WeakMethod(renew))


def _before() -> None:
    for _, lock in _held:
        lock.acquire()


def _after() -> None:
    for _, lock in reversed(_held):
        lock.release()


def _in_child() -> None:
    for lock in list(_freed):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does with its own
    for _, lock in reversed(_held):
        renew = getattr(lock, "renew", lock.release)
        renew()
    for known in _renewals:
        action = known()
        if action is not None:
            action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
