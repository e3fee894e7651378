"""Manage the launches of a kernel that stand ready in machine code, in one direction.

Invariant: a standing launch repeats what a launch from Python has just established, and nothing else: the same
specialization on arrays of the same kinds, with sizes that are known for just this state. What machine code cannot
handle (results, random numbers, views, copies of earlier content, prints, claims) keeps a call in Python. Guards are
checked in Python before each call.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends.forks import free_in_child
from ..backends.host.handles import FAILED_NUMBER, FIRST, NEXT, OBJECT
from ..backends.words import WATCHED, address_of
from ..compiler.errors import AdstackOverflow
from ..runtime.guards import Guard, hold
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..backends.base import Arrays, Scalars, Sizes
    from ..backends.host.pins import Pin
    from ..backends.host.standing import Argument, Held, Standing
    from ..backends.launching.launcher import Launcher

HANDLES = 8
"""Number of launches of one kernel in one direction that stand ready at the same time."""

PATIENT = 3
"""Number of launches from Python before the first launch stands ready."""

_LONGEST_WAIT = 1024

_FOR_EVER = (1 << 63) - 1
"""Patience with launches that the call does not wait for: such a call is slow only because the device's queue is full.
"""

_NUMBERS = count(1)

_LINGERING: list[Standing] = []
"""Handles that were dropped while a launch with them was under way; their memory must stay until it ends."""


Function = Callable[..., Any]


class Situation(NamedTuple):
    """A call that was launched from Python, and the state that it found.

    Attributes:
        key: A key that is equal for calls that one handle may serve.
        launcher: The launcher.
        arguments: The arguments as the trampoline must recognize them.
        held: The arrays, and where each is found.
        arrays: The memory of the launch by name.
        scalars: The scalar arguments by name.
        sizes: The adstack sizes for the present state.
        guards: Guards of what the kernel read from Python objects, unless a pin covers it.
        pins: Names that machine code itself can check to mean what they meant.
    """

    key: tuple[Any, ...]
    launcher: Launcher
    arguments: list[Argument]
    held: list[Held]
    arrays: Arrays
    scalars: Scalars
    sizes: Sizes
    guards: tuple[Guard, ...]
    pins: list[Pin]

    @property
    def first(self) -> int:
        """Return the identity of the first argument if calls are recognized by it, else 0."""
        known = self.arguments and self.arguments[0].kind == OBJECT
        return id(self.arguments[0].thing) if known else 0


class Native:
    """The standing launches of a kernel in one direction.

    Attributes:
        function: The builtin function through which they are called, made by `builtin`.
        guarded: The standing launches whose guards Python checks with `holds` before each call. They have a builtin
            function of their own, which nothing else calls.
    """

    __slots__ = (
        "function",
        "guarded",
        "_guards",
        "_told",
        "_root",
        "_standing",
        "_launchers",
        "_waited",
        "_wait",
        "_lock",
        "__weakref__",
    )

    def __init__(self) -> None:
        self.function: Function | None = None
        self._guards: dict[int, tuple[Guard, ...]] = {}
        self._told: dict[int, tuple[int, tuple[Guard, ...]]] = {}
        self.guarded: Native | None = None
        self._root: array[int] | None = None
        self._standing: dict[tuple[Any, ...], Standing] = {}
        self._launchers: dict[int, Launcher] = {}
        self._waited = 0
        self._wait = PATIENT
        self._lock = free_in_child(threading.Lock())

    def __del__(self, first: int = FIRST, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """Unlink all handles, because the builtin function may live longer.

        Globals are passed as defaults: they may be gone when the interpreter ends.
        """
        if self._root is not None:
            self._root[first] = 0
            if not is_ending():
                _LINGERING.extend(one for one in self._standing.values() if one.is_taken)

    def clear(self) -> None:
        """Drop all standing launches."""
        for key in list(self._standing):
            self._drop(key)
        self._guards = {}
        self._waited, self._wait = 0, PATIENT
        if self.guarded is not None:
            self.guarded.clear()

    @property
    def launched(self) -> int:
        """Return the number of launches by the present handles, each counted since it was last made to stand."""
        return sum(one.launched for one in self._standing.values())

    def is_due(self) -> bool:
        """Return True if, after a launch from Python, it is time to let a launch like it stand ready."""
        if self.guarded is not None:
            return self.guarded.is_due()
        self._waited += 1
        return self._waited >= self._wait and not RUNTIME.words[WATCHED] and self._wait > 0

    @property
    def is_new(self) -> bool:
        """Return True if `builtin` was not called yet, or could not make a function."""
        return self._root is None

    def builtin(self, slow: Function, raiser: Function) -> Function | None:
        """Return a builtin function that launches what stands ready, and passes every other call on to `slow`.

        Args:
            slow: The function for other calls. It is kept alive.
            raiser: A function that is called when a launch has failed; it must call `fail`. It is kept alive.

        Returns:
            The function, or None if launches cannot stand ready on this machine.
        """
        from ..backends.host.trampoline import new_root, trampoline

        machine = trampoline()
        if machine is None:
            return None
        self._root = new_root(RUNTIME.words)
        self.function = machine.builtin(self._root, slow, raiser)
        return self.function

    def holds(self, args: tuple[Any, ...]) -> bool:
        """Return True if everything that launches on this first argument read from Python objects is unchanged."""
        first = id(args[0]) if args else 0
        guards = self._guards.get(first)
        if guards is None:
            first, guards = 0, self._guards.get(0)
        if guards is None:
            return False
        if hold(guards):
            return True
        self._forget(first)
        return False

    def _forget(self, first: int) -> None:
        """Drop what stood ready for this first argument, because it belongs to an outdated program."""
        self._guards.pop(first, None)
        if self._lock.acquire(blocking=False):
            try:
                told = {key: self._told[one.number][0] for key, one in self._standing.items()}
                for key in [key for key, owner in told.items() if owner in (first, 0)]:
                    self._drop(key)
            finally:
                self._lock.release()

    def settle(self, situation: Situation | None, slow: Function, raiser: Callable[[Native], Function]) -> None:
        """Let calls in a situation be launched by machine code, with guards or without.

        Args:
            situation: The situation, or None if the kernel cannot stand ready.
            slow: The function for other calls, if guards are needed.
            raiser: A function that makes the `raiser` of `builtin`, if guards are needed.
        """
        if situation is not None and situation.guards and self.guarded is None:
            made = Native()
            if made.builtin(slow, raiser(made)) is not None:
                self.guarded = made
        target = self if situation is not None and not situation.guards else self.guarded
        (target or self).stand(situation if target else None)
        if self.guarded is not None:
            self.guarded._waited = 0

    def stand(self, situation: Situation | None) -> None:
        """Let calls in a situation be launched by machine code; None means that the kernel cannot be."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._waited = 0
            if situation is None:
                self._wait = _LONGEST_WAIT
            else:
                self._stand(situation)
        finally:
            self._lock.release()

    def _stand(self, situation: Situation) -> None:
        """Make or renew the handle of a situation."""
        for key in [key for key, one in self._standing.items() if one.is_orphan or not self._is_as_it_was(one)]:
            self._drop(key)
        found = self._standing.get(situation.key)
        if found is not None:
            # A handle that has not launched since it stood ready was not worth its preparation: the next waits longer.
            self._wait = 1 if found.launched else min(2 * self._wait, _LONGEST_WAIT)
        else:
            found = self._make(situation)
        self._guard()
        if found is not None and found.stand(
            RUNTIME.generation, situation.held, situation.arrays, situation.scalars, situation.sizes, situation.pins
        ):
            situation.launcher.stand(found.number, situation.sizes)

    def _is_as_it_was(self, standing: Standing) -> bool:
        """Return True if all guards of a handle hold."""
        return hold(self._told[standing.number][1])

    def _guard(self) -> None:
        """Collect the guards by first argument.

        All launches that stand ready for a first argument are right while all of its guards hold. Guards of launches
        that are not recognized by their first argument apply to every call.
        """
        found: dict[int, dict[Guard, None]] = {}
        for first, guards in self._told.values():
            found.setdefault(first, {}).update(dict.fromkeys(guards))
        common = found.get(0, {})
        self._guards = {first: (*{**guards, **common},) for first, guards in found.items()}

    def _make(self, situation: Situation) -> Standing | None:
        """Make a new handle at the head of the chain. Return None if the machine cannot."""
        from ..backends.host.standing import Standing
        from ..backends.host.trampoline import trampoline

        machine = trampoline()
        if machine is None or self._root is None:
            return None
        while len(self._standing) >= HANDLES:
            self._drop(next(iter(self._standing)))
        launcher, number = situation.launcher, next(_NUMBERS)
        executable: Any = launcher.compile()
        made = Standing(
            executable,
            launcher.stats.words,
            number,
            launcher.is_sized,
            machine.patience if RUNTIME.remote is None else _FOR_EVER,
            situation.arguments,
            situation.held,
        )
        self._standing[situation.key], self._launchers[number] = made, launcher
        self._told[number] = situation.first, situation.guards
        self._link()
        return made

    def _drop(self, key: tuple[Any, ...]) -> None:
        """Unlink a handle; its memory stays while a launch with it is under way."""
        dropped = self._standing.pop(key)
        self._link()
        self._launchers.pop(dropped.number).stand(dropped.number, None)
        self._told.pop(dropped.number)
        _LINGERING[:] = [one for one in _LINGERING if one.is_taken]
        if dropped.is_taken:
            _LINGERING.append(dropped)

    def _link(self) -> None:
        """Chain the handles, the newest first."""
        assert self._root is not None
        following = 0
        for one in self._standing.values():
            one.words[NEXT] = following
            following = address_of(one.words)
        self._root[FIRST] = following

    def fail(self, memory: Callable[[], tuple[Arrays, Scalars]]) -> None:
        """Raise the error of the launch that has just failed.

        Args:
            memory: A function that returns the arrays and scalars of that launch.
        """
        assert self._root is not None
        number = self._root[FAILED_NUMBER]
        standing = next(one for one in (*self._standing.values(), *_LINGERING) if one.number == number)
        sizes, launcher = standing.sizes, self._launchers.get(number)
        try:
            standing.refuse()
        except AdstackOverflow as overflow:
            if launcher is None:
                raise
            arrays, scalars = memory()
            raise launcher.explain(overflow, sizes, arrays, scalars) from overflow
