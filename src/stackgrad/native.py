"""Launches that stand ready in machine code, for the calls of one kernel in one direction.

Invariant: a standing launch repeats what a launch from Python has just established, and nothing else: the same
specialisation on arrays of the same kinds, sizes that are known for just this state. Whatever it cannot see natively
(results, random numbers, views, copies of before, prints, claims) keeps a call in Python; guards are asked in Python
before each call.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from .backends.cpu.handles import FAILED_NUMBER, FIRST, NEXT, OBJECT
from .backends.forks import free_in_child
from .backends.words import WATCHED, address_of
from .compiler.errors import AdstackOverflow
from .guards import Guard, hold
from .session import RUNTIME

if TYPE_CHECKING:
    from .backends.base import Arrays, Scalars, Sizes
    from .backends.cpu.pins import Pin
    from .backends.cpu.standing import Argument, Held, Standing
    from .backends.launcher import Launcher

HANDLES = 8
"""Launches that stand ready at once, of one kernel in one direction."""

PATIENT = 3
"""Launches from Python before the first stands ready."""

_LONGEST_WAIT = 1024

_FOR_EVER = (1 << 63) - 1
"""Patience with launches that are not waited for: what takes long is the device's queue being full."""

_NUMBERS = count(1)

_LINGERING: list[Standing] = []
"""Dropped while a launch with them was under way."""


Function = Callable[..., Any]


class Situation(NamedTuple):
    """What a call launches, and the state it found. key: equal for calls that one handle may serve.

    sizes: for the present state. pins: names of which machine code sees that they mean what they did. guards: of all
    else that the kernel took from Python objects.
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
        """Identity of the first argument, if calls are told by it; else 0."""
        known = self.arguments and self.arguments[0].kind == OBJECT
        return id(self.arguments[0].thing) if known else 0


class Native:
    """The standing launches of a kernel in one direction.

    `builtin` makes the function through which they are called. guarded: those for which Python asks `holds` before;
    they have a function of their own, which nobody else calls.
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
        """Unlink all handles: the builtin may live on. What is here by name may be gone when the interpreter ends."""
        if self._root is not None:
            self._root[first] = 0
            if not is_ending():
                _LINGERING.extend(one for one in self._standing.values() if one.is_taken)

    def clear(self) -> None:
        """No launch stands ready any more."""
        for key in list(self._standing):
            self._drop(key)
        self._guards = {}
        self._waited, self._wait = 0, PATIENT
        if self.guarded is not None:
            self.guarded.clear()

    @property
    def launched(self) -> int:
        """Launches by the handles that stand now, since each was last made to."""
        return sum(one.launched for one in self._standing.values())

    def is_due(self) -> bool:
        """Whether it is time, after a launch from Python, to let one like it stand ready."""
        if self.guarded is not None:
            return self.guarded.is_due()
        self._waited += 1
        return self._waited >= self._wait and not RUNTIME.words[WATCHED] and self._wait > 0

    @property
    def is_new(self) -> bool:
        """Whether `builtin` was not called yet, or in vain."""
        return self._root is None

    def builtin(self, slow: Function, raiser: Function) -> Function | None:
        """What calls are to go through: it launches what stands ready, and passes everything else on to `slow`.

        raiser: is called when a launch has failed, and calls `fail`. None if launches cannot stand ready here. Both
        are kept alive.
        """
        from .backends.cpu.trampoline import new_root, trampoline

        machine = trampoline()
        if machine is None:
            return None
        self._root = new_root(RUNTIME.words)
        self.function = machine.builtin(self._root, slow, raiser)
        return self.function

    def holds(self, args: tuple[Any, ...]) -> bool:
        """Whether all that launches on this first argument took from Python objects is as it was."""
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
        """What stood ready for this first argument is of another program from now on."""
        self._guards.pop(first, None)
        if self._lock.acquire(blocking=False):
            try:
                told = {key: self._told[one.number][0] for key, one in self._standing.items()}
                for key in [key for key, owner in told.items() if owner in (first, 0)]:
                    self._drop(key)
            finally:
                self._lock.release()

    def settle(self, situation: Situation | None, slow: Function, raiser: Callable[[Native], Function]) -> None:
        """Let calls in this situation be launched natively, with guards or without. slow, raiser: if it has some."""
        if situation is not None and situation.guards and self.guarded is None:
            made = Native()
            if made.builtin(slow, raiser(made)) is not None:
                self.guarded = made
        target = self if situation is not None and not situation.guards else self.guarded
        (target or self).stand(situation if target else None)
        if self.guarded is not None:
            self.guarded._waited = 0

    def stand(self, situation: Situation | None) -> None:
        """Let calls in this situation be launched natively; None: the kernel cannot be."""
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
        for key in [key for key, one in self._standing.items() if one.is_orphan or not self._is_as_it_was(one)]:
            self._drop(key)
        found = self._standing.get(situation.key)
        if found is not None:
            self._wait = 1 if found.launched else min(2 * self._wait, _LONGEST_WAIT)
        else:
            found = self._make(situation)
        self._guard()
        if found is not None and found.stand(
            RUNTIME.generation, situation.held, situation.arrays, situation.scalars, situation.sizes, situation.pins
        ):
            situation.launcher.stand(found.number, situation.sizes)

    def _is_as_it_was(self, standing: Standing) -> bool:
        return hold(self._told[standing.number][1])

    def _guard(self) -> None:
        """Collect the guards by first argument: all that stands ready for it is right while all of them hold.

        Of launches that are not told by their first argument, for every one.
        """
        found: dict[int, dict[Guard, None]] = {}
        for first, guards in self._told.values():
            found.setdefault(first, {}).update(dict.fromkeys(guards))
        common = found.get(0, {})
        self._guards = {first: (*{**guards, **common},) for first, guards in found.items()}

    def _make(self, situation: Situation) -> Standing | None:
        """A new handle at the head of the chain."""
        from .backends.cpu.standing import Standing
        from .backends.cpu.trampoline import trampoline

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
        """Raise the error of the launch that has just failed. memory: what that launch ran on."""
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
