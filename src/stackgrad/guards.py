"""What a traced kernel took from Python objects, so that a change of it is seen at the next launch.

Invariant: a guard keeps neither the objects alive nor what it found there, unless it is a number, a text or a NumPy
array; what is not seen in this way is looked at anew before each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from .backends.cpu.pins import Pin, pin_cell, pin_global
from .compiler.frontend.reads import NUMBERS, Evaluation, NameRead, PartRead, Read, listed
from .compiler.frontend.snapshots import Elements, Identity, Number, Snapshot, attributes, fresh, reference, snapshot
from .compiler.frontend.source import MISSING

_PACKAGE = f"{__name__.partition('.')[0]}.compiler."


class _Outer:
    """A name outside of a function."""

    __slots__ = ("function", "name", "cell")

    def __init__(self, function: FunctionType, name: str) -> None:
        free = function.__code__.co_freevars
        self.function, self.name = reference(function), name
        self.cell = free.index(name) if name in free else -1

    def now(self) -> Any:
        """What it means; MISSING if it means nothing, or Python's own name."""
        function = self.function()
        if function is None:
            return MISSING
        if self.cell < 0:
            return function.__globals__.get(self.name, MISSING)
        try:
            return function.__closure__[self.cell].cell_contents
        except ValueError:
            return MISSING


class NameGuard:
    """What a name outside of a function means."""

    __slots__ = ("_outer", "_then")

    def __init__(self, read: NameRead) -> None:
        self._outer = _Outer(read.function, read.name)
        self._then = snapshot(read.found)

    def holds(self) -> bool:
        """Whether it means what it did."""
        return self._then.holds(self._outer.now())

    def pin(self) -> Pin | None:
        """How machine code sees that the name means the very same object; None if that has to be looked into."""
        function, now = self._outer.function(), self._outer.now()
        if now is MISSING or not isinstance(self._then, (Number, Identity)):
            return None
        if self._outer.cell < 0:
            return pin_global(function, self._outer.name, now)
        return pin_cell(function, self._outer.cell, now)


class PartGuard:
    """What an object gives when it is looked at in one way."""

    __slots__ = ("_owner", "_look", "_then")

    def __init__(self, read: PartRead, then: Snapshot, owner: Callable[[], Any]) -> None:
        self._owner, self._look, self._then = owner, read.look, then

    def holds(self) -> bool:
        """Whether it gives what it did; an object that died gives nothing."""
        owner = self._owner()
        if owner is None:
            return False
        try:
            return self._then.holds(self._look(owner))
        except Exception:  # whatever a property raises: the trace that follows says it at its line
            return False

    def pin(self) -> Pin | None:
        """Machine code does not look into objects."""
        return None


class EvaluationGuard:
    """What a static expression gives that calls what nobody can look into: it is evaluated again."""

    __slots__ = ("_outer", "_bound", "_code", "_then")

    def __init__(self, read: Evaluation, then: Snapshot) -> None:
        self._outer = [_Outer(read.function, name) for name in read.outer]
        self._bound = {name: _held(value) for name, value in read.bound.items()}
        self._code, self._then = read.code, then

    def holds(self) -> bool:
        """Whether it gives what it did."""
        try:
            return self._then.holds(self.evaluated())
        except Exception:  # the trace that follows says it at its line
            return False

    def evaluated(self) -> Any:
        """What it gives now."""
        namespace = {name: held() for name, held in self._bound.items()}
        for outer in self._outer:
            found = outer.now()
            if found is not MISSING:
                namespace[outer.name] = found
        return listed(eval(self._code, namespace))

    def pin(self) -> Pin | None:
        """Machine code evaluates nothing."""
        return None


Guard = NameGuard | PartGuard | EvaluationGuard


def _held(value: Any) -> Callable[[], Any]:
    """Gives an object again; nothing of the program is kept alive by it. A dead one is None."""
    if isinstance(value, (*NUMBERS, np.ndarray)) or type(value).__module__.startswith(_PACKAGE):
        return lambda: value
    if type(value) in (list, tuple):
        parts = [_held(part) for part in value]
        return lambda: type(value)(part() for part in parts)
    if type(value) is dict:
        named = {key: _held(part) for key, part in value.items()}
        return lambda: {key: part() for key, part in named.items()}
    return reference(value)


# ---- making ---------------------------------------------------------------------------------------------------------


def guards_of(reads: Iterable[Read]) -> tuple[Guard, ...]:
    """Guards of what a trace has read."""
    made: dict[Any, Guard] = {}
    fresh_objects: dict[int, Any] = {}
    for read in reads:
        if isinstance(read, NameRead):
            made.setdefault((id(read.function), read.name), NameGuard(read))
        elif isinstance(read, Evaluation):
            then = _lasting(read.found, EvaluationGuard(read, Number(None)).evaluated, fresh_objects)
            made[id(read)] = EvaluationGuard(read, then)
        elif (id(read.owner), read.name) not in made:
            owner = reference(read.owner)
            if id(read.owner) in fresh_objects:
                if read.name in attributes(read.owner):
                    continue  # it is seen where the object comes from
                owner = _kept(read.owner)
            then = _lasting(read.found, partial(read.look, read.owner), fresh_objects)
            made[id(read.owner), read.name] = PartGuard(read, then, owner)
    return tuple(made.values())


def _kept(owner: Any) -> Callable[[], Any]:
    return lambda: owner


def _lasting(found: Any, again: Callable[[], Any], fresh_objects: dict[int, Any]) -> Snapshot:
    """What is like an object, and like what is given in its place if it is made anew whenever one looks."""
    then = snapshot(found)
    if isinstance(then, (Number, Elements)) or then.holds(again()):
        return then
    made, inside = fresh(found)
    fresh_objects |= inside
    return made


def hold(guards: Iterable[Guard]) -> bool:
    """Whether all is as it was."""
    return all([guard.holds() for guard in guards])
