"""Manage the ready launches of a kernel, which machine code repeats without Python when a call matches.

Invariant: a ready launch repeats what a launch from Python has just executed, and nothing else: the same specialization
on arrays of the same kinds, with adstack sizes that are known for just this state. Calls that need what machine code
cannot handle (results, random numbers, views, copies of earlier contents, prints, claims) are executed in Python.
Guards are checked in Python before each call. A handle belongs to a cache entry, and ends with it.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends.forks import free_in_child
from ..backends.host.handles import FAILED_NUMBER, FIRST, NEXT, OBJECT
from ..backends.words import address_of
from ..compiler.errors import AdstackOverflow
from ..runtime.guards import Guard, GuardSet, hold
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..backends.base import Arrays, Scalars, Sizes
    from ..backends.host.pinned_names import PinnedName
    from ..backends.host.ready_launch import ExpectedArgument, LaunchArray, ReadyLaunch
    from ..backends.launching.launcher import Launcher
    from .call_cache import Entry

HANDLES = 8
"""Number of launches of one kernel in one direction that stand ready at the same time."""

_FOR_EVER = (1 << 63) - 1
"""Patience with launches that the call does not wait for: such a call is slow only because the device's queue is full.
"""

_NUMBERS = count(1)

_LINGERING: list[ReadyLaunch] = []
"""Handles that were dropped while a launch with them was under way; their memory must stay until it ends."""


_FREE_ARRAYS = 16
"""Number of arrays with which a launch from Python takes about a tenth of the time that a ready launch may take."""

Function = Callable[..., Any]


def patience_of(patience: int, arrays: int) -> int:
    """Return the ticks that a launch may keep the interpreter's lock: about ten times what Python takes to launch it.

    Args:
        patience: The ticks of a launch with few arrays.
        arrays: The number of arrays.
    """
    return patience * max(arrays, _FREE_ARRAYS) // _FREE_ARRAYS


class NativeCall(NamedTuple):
    """Describe a launch from Python so that machine code can repeat it: arguments, arrays, sizes and guards.

    Attributes:
        key: A key that is equal for calls that one handle may serve.
        launcher: The launcher.
        arguments: For each argument, how the trampoline recognizes it.
        held: The arrays, and where machine code finds each of them.
        arrays: The memory of the launch by name.
        scalars: The scalar arguments by name.
        sizes: The adstack sizes for the present state.
        guards: Guards on the Python objects that the kernel read, except those that pinned names cover.
        pins: The pinned names, which machine code itself compares before a launch.
    """

    key: tuple[Any, ...]
    launcher: Launcher
    arguments: list[ExpectedArgument]
    held: list[LaunchArray]
    arrays: Arrays
    scalars: Scalars
    sizes: Sizes
    guards: tuple[Guard, ...]
    pins: list[PinnedName]

    @property
    def first(self) -> int:
        """Return the id of the call's first argument if the trampoline identifies calls by it, else 0."""
        known = self.arguments and self.arguments[0].kind == OBJECT
        return id(self.arguments[0].thing) if known else 0


class Handle:
    """Represent a ready launch in the chain that the trampoline searches for one that fits a call.

    Attributes:
        native: The chain that the handle is part of.
        entry: The cache entry that the handle belongs to.
        key: A key that differs from those of other handles of the entry.
        standing: The memory words that machine code reads for the launch, and the objects that they refer to.
        launcher: The launcher.
        first: The identity of the first argument if calls are recognized by it, else 0.
        guards: Guards that Python must check before a call.
    """

    __slots__ = ("native", "entry", "key", "standing", "launcher", "first", "guards")

    def __init__(self, native: NativeLaunches, entry: Entry, situation: NativeCall, standing: ReadyLaunch) -> None:
        self.native = native
        self.entry = entry
        self.key = situation.key
        self.standing = standing
        self.launcher = situation.launcher
        self.first = situation.first
        self.guards = situation.guards

    def retire(self) -> None:
        """Invalidate the handle, and remove it from the chain as soon as the chain is not in use."""
        self.standing.retire()
        self.native.sweep()


class _Asked(NamedTuple):
    """Hold the guards that Python checks before a call, with the cache entries that depend on each guard."""

    guards: GuardSet
    entries: dict[Entry, dict[Guard, None]]


def _by_first(handles: Sequence[Handle]) -> dict[int, _Asked]:
    """Return the guards to check before a call, by the id of the call's first argument.

    All ready launches for a first argument are valid while all of its guards hold. Guards of launches that are not
    recognized by their first argument apply to every call.
    """
    found: dict[int, dict[Entry, dict[Guard, None]]] = {}
    for one in handles:
        found.setdefault(one.first, {}).setdefault(one.entry, {}).update(dict.fromkeys(one.guards))
    for first, own in found.items():
        for entry, guards in found.get(0, {}).items() if first else ():
            own.setdefault(entry, {}).update(guards)
    return {first: _Asked(GuardSet(g for guards in own.values() for g in guards), own) for first, own in found.items()}


class NativeLaunches:
    """Hold the ready launches of one kernel and direction, as a chain that the trampoline searches.

    Attributes:
        function: The builtin function that runs the launches, made by `builtin`; None before `builtin` is called.
    """

    __slots__ = ("function", "_guards", "_root", "_handles", "_lock", "__weakref__")

    def __init__(self) -> None:
        self.function: Function | None = None
        self._guards: Mapping[int, _Asked] = {}
        self._root: array[int] | None = None
        self._handles: dict[int, Handle] = {}
        self._lock = free_in_child(threading.Lock())

    def __del__(self, first: int = FIRST, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """Empty the chain when this object dies, because the builtin function that searches it may live longer.

        Globals are passed as defaults: they may be gone when the interpreter ends.
        """
        if self._root is not None:
            self._root[first] = 0
            if not is_ending():
                _LINGERING.extend(one.standing for one in self._handles.values() if one.standing.is_taken)

    @property
    def launched(self) -> int:
        """Return the number of launches by the present handles, counted for each from when it was made or renewed."""
        return sum(one.standing.launched for one in self._handles.values())

    @property
    def handles(self) -> tuple[Handle, ...]:
        """Return the present handles, the oldest first."""
        return tuple(self._handles.values())

    def builtin(self, slow: Function, raiser: Function) -> Function | None:
        """Return a builtin function that launches matching calls in machine code, and calls `slow` for all others.

        Args:
            slow: The function for other calls. It is kept alive.
            raiser: A function that is called when a launch has failed; it must call `fail`. It is kept alive.

        Returns:
            The function, or None if this machine can have no ready launches.
        """
        from ..backends.host.trampoline import new_root, trampoline

        machine = trampoline()
        if machine is None:
            return None
        self._root = new_root(RUNTIME.words)
        self.function = machine.builtin(self._root, slow, raiser)
        return self.function

    def holds(self, args: tuple[Any, ...]) -> bool:
        """Return True if all guards on calls with this first argument hold.

        Cache entries whose guards do not hold are dropped.
        """
        asked = self._guards.get(id(args[0]) if args else 0) or self._guards.get(0)
        if asked is None:
            return False
        if asked.guards.holds():
            return True
        for entry, guards in asked.entries.items():
            if not hold(guards):
                entry.drop()
        return False

    # -- handles --------------------------------------------------------------------------------------------

    def stand(self, entry: Entry, situation: NativeCall) -> bool | None:
        """Drop entries whose guards fail, then prepare a ready launch for calls like the given one.

        Args:
            entry: The entry of the call.
            situation: The description of the call.

        Returns:
            True if there was a handle for such calls and it has launched since it was made or renewed, False if it has
                not launched; None if there was no handle.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for handle in self.handles:
                if not hold(handle.guards):
                    handle.entry.drop()
            self._sweep()
            return None if entry.is_dropped else self._stand(entry, situation)
        finally:
            self._lock.release()

    def _stand(self, entry: Entry, situation: NativeCall) -> bool | None:
        """Prepare or renew a ready launch; return None for a new one, else True if it was used since its renewal."""
        found, was_worth = entry.handles.get(situation.key), None
        if found is not None and found.native is self:
            was_worth = found.standing.launched > 0
            if found.guards != situation.guards:  # A name may have moved to where machine code cannot look.
                found.guards = situation.guards
                self._link()
        else:
            if found is not None:  # What needed no guards needs them now, or the other way round.
                found.retire()
            found = self._make(entry, situation)
        standing = found.standing
        if standing.stand(
            RUNTIME.generation, situation.held, situation.arrays, situation.scalars, situation.sizes, situation.pins
        ):
            situation.launcher.stand(standing.number, situation.sizes)
        return was_worth

    def _make(self, entry: Entry, situation: NativeCall) -> Handle:
        """Make a new handle, and put it first in the chain."""
        from ..backends.host.ready_launch import ReadyLaunch
        from ..backends.host.trampoline import trampoline

        machine = trampoline()
        assert machine is not None, "there is a chain"
        while len(self._handles) >= HANDLES:
            self._unlink(next(iter(self._handles.values())))
        launcher, number = situation.launcher, next(_NUMBERS)
        executable: Any = launcher.compile()
        patience, arrays = machine.patience, len(situation.held)
        if arrays > _FREE_ARRAYS:
            patience = patience_of(patience, arrays)
        standing = ReadyLaunch(
            executable,
            launcher.stats.words,
            number,
            launcher.is_sized,
            patience if RUNTIME.remote is None else _FOR_EVER,
            situation.arguments,
            situation.held,
        )
        made = self._handles[number] = entry.handles[situation.key] = Handle(self, entry, situation, standing)
        self._link()
        return made

    def sweep(self) -> None:
        """Remove handles that no call can match any more, unless another thread is changing the chain."""
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def _sweep(self) -> None:
        for handle in self.handles:
            if handle.standing.is_orphan:
                self._unlink(handle)

    def _unlink(self, handle: Handle) -> None:
        """Remove a handle from the chain and from its cache entry; its memory is kept while a launch uses it."""
        standing = handle.standing
        del self._handles[standing.number]
        self._link()
        if handle.entry.handles.get(handle.key) is handle:
            del handle.entry.handles[handle.key]
        handle.launcher.stand(standing.number, None)
        _LINGERING[:] = [one for one in _LINGERING if one.is_taken]
        if standing.is_taken:
            _LINGERING.append(standing)

    def _link(self) -> None:
        """Link the handles, newest first, in memory that the trampoline reads, and collect their guards."""
        assert self._root is not None
        following = 0
        for one in self._handles.values():
            one.standing.words[NEXT] = following
            following = address_of(one.standing.words)
        self._root[FIRST] = following
        self._guards = _by_first([one for one in self._handles.values() if one.guards])

    def fail(self, memory: Callable[[], tuple[Arrays, Scalars]]) -> None:
        """Raise the error of the ready launch that has failed in machine code.

        Args:
            memory: A function that returns the arrays and scalars of that launch.
        """
        assert self._root is not None
        number = self._root[FAILED_NUMBER]
        known = {one.standing.number: one.standing for one in self._handles.values()}
        standing = known.get(number) or next(one for one in _LINGERING if one.number == number)
        handle = self._handles.get(number)
        sizes = standing.sizes
        try:
            standing.refuse()
        except AdstackOverflow as overflow:
            if handle is None:
                raise
            arrays, scalars = memory()
            raise handle.launcher.explain(overflow, sizes, arrays, scalars) from overflow
