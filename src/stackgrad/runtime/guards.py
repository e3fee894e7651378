"""Detect changes of Python objects that a trace has read, so that the next launch traces the kernel again.

Invariant: a guard keeps neither the objects nor the values that it found alive, unless such a value is a number, a text
or a NumPy array. What a guard cannot compare in this way is looked up anew before each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from ..backends.host.pinned_names import PinnedName, pin_cell, pin_global
from ..compiler.frontend.reads import NUMBERS, EvaluationRead, NameRead, PartRead, Read, materialize
from ..compiler.frontend.snapshots import (
    ArraySnapshot,
    IdentitySnapshot,
    Snapshot,
    ValueSnapshot,
    attributes,
    fresh_snapshot,
    reference_to,
    snapshot,
)
from ..compiler.frontend.source import MISSING

_PACKAGE = f"{__name__.partition('.')[0]}.compiler."


class _OuterName:
    """Represent a global or closure variable by name, through a weak reference to the function that uses it.

    Attributes:
        function: A weak reference to the function.
        name: The name.
        cell: The number of the closure cell of the name, or -1 if the name is global.
    """

    __slots__ = ("function", "name", "cell")

    def __init__(self, function: FunctionType, name: str) -> None:
        free = function.__code__.co_freevars
        self.function, self.name = reference_to(function), name
        self.cell = free.index(name) if name in free else -1

    def now(self) -> Any:
        """Return the present value of the variable, or MISSING if it has none or is a builtin of Python."""
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
    """Represent a guard on a global or closure variable: it holds while the value is the one seen during tracing."""

    __slots__ = ("_outer", "_then")

    def __init__(self, read: NameRead) -> None:
        self._outer = _OuterName(read.function, read.name)
        self._then = snapshot(read.found)

    def holds(self) -> bool:
        """Return True if the variable has the same value as during the trace."""
        return self._then.holds(self._outer.now())

    def pin(self) -> PinnedName | None:
        """Return a description by which machine code can check the variable, or None if it cannot."""
        function, now = self._outer.function(), self._outer.now()
        if now is MISSING or not isinstance(self._then, (ValueSnapshot, IdentitySnapshot)):
            return None
        if self._outer.cell < 0:
            return pin_global(function, self._outer.name, now)
        return pin_cell(function, self._outer.cell, now)


class PartGuard:
    """Represent a guard on an attribute, item or length of an object that tracing has read."""

    __slots__ = ("_owner", "_look", "_then")

    def __init__(self, read: PartRead, then: Snapshot, owner: Callable[[], Any]) -> None:
        self._owner, self._look, self._then = owner, read.look, then

    def holds(self) -> bool:
        """Return True if the property has the same value as during the trace, and the object is alive."""
        owner = self._owner()
        if owner is None:
            return False
        try:
            return self._then.holds(self._look(owner))
        # A property may raise anything. The trace that follows raises it again and shows its line.
        except Exception:
            return False

    def pin(self) -> PinnedName | None:
        """Return None, because machine code cannot check properties of objects."""
        return None


class EvaluationGuard:
    """Represent a guard on a compile-time expression, which is evaluated again before each launch."""

    __slots__ = ("_outer", "_bound", "_code", "_then")

    def __init__(self, read: EvaluationRead, then: Snapshot) -> None:
        self._outer = [_OuterName(read.function, name) for name in read.outer]
        self._bound = {name: _held(value) for name, value in read.bound.items()}
        self._code, self._then = read.code, then

    def holds(self) -> bool:
        """Return True if the expression has the same value as during the trace."""
        try:
            return self._then.holds(self.evaluated())
        # The trace that follows raises it again and shows its line.
        except Exception:
            return False

    def evaluated(self) -> Any:
        """Evaluate the compile-time expression of the guard again, and return its value."""
        namespace = {name: held() for name, held in self._bound.items()}
        for outer in self._outer:
            found = outer.now()
            if found is not MISSING:
                namespace[outer.name] = found
        return materialize(eval(self._code, namespace))

    def pin(self) -> PinnedName | None:
        """Return None, because machine code cannot evaluate expressions."""
        return None


Guard = NameGuard | PartGuard | EvaluationGuard


def _held(value: Any) -> Callable[[], Any]:
    """Return a function that returns the value, or None after the value has died; some values it keeps alive."""
    if isinstance(value, (*NUMBERS, np.ndarray)) or type(value).__module__.startswith(_PACKAGE):
        return lambda: value
    if type(value) in (list, tuple):
        parts = [_held(part) for part in value]
        return lambda: type(value)(part() for part in parts)
    if type(value) is dict:
        named = {key: _held(part) for key, part in value.items()}
        return lambda: {key: part() for key, part in named.items()}
    return reference_to(value)


# ---- making ---------------------------------------------------------------------------------------------------------


def guards_of(reads: Iterable[Read]) -> tuple[Guard, ...]:
    """Return guards of all Python objects that a trace has read."""
    made: dict[Any, Guard] = {}
    fresh_objects: dict[int, Any] = {}
    for read in reads:
        if isinstance(read, NameRead):
            made.setdefault((id(read.function), read.name), NameGuard(read))
        elif isinstance(read, EvaluationRead):
            then = _lasting(read.found, EvaluationGuard(read, ValueSnapshot(None)).evaluated, fresh_objects)
            made[id(read)] = EvaluationGuard(read, then)
        elif (id(read.owner), read.name) not in made:
            owner = reference_to(read.owner)
            if id(read.owner) in fresh_objects:
                if read.name in attributes(read.owner):
                    continue  # The guard of the expression that made the object compares this attribute.
                owner = _kept(read.owner)
            then = _lasting(read.found, partial(read.look, read.owner), fresh_objects)
            made[id(read.owner), read.name] = PartGuard(read, then, owner)
    return tuple(made.values())


def _kept(owner: Any) -> Callable[[], Any]:
    """Return a function that returns the object; the function keeps the object alive."""
    return lambda: owner


def _lasting(found: Any, again: Callable[[], Any], fresh_objects: dict[int, Any]) -> Snapshot:
    """Return a snapshot of a value that also equals the new objects that a repeated read may create.

    Args:
        found: The value that the trace found.
        again: A function that looks again.
        fresh_objects: Objects that are made anew at each look, by identity; this function adds to them.
    """
    then = snapshot(found)
    if isinstance(then, (ValueSnapshot, ArraySnapshot)) or then.holds(again()):
        return then
    made, inside = fresh_snapshot(found)
    fresh_objects |= inside
    return made


def hold(guards: Iterable[Guard]) -> bool:
    """Return True if no guard found a change of the Python object or expression that tracing has read."""
    return all([guard.holds() for guard in guards])
