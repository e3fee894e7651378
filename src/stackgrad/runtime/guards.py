"""Detect changes of Python objects that a trace has read, so that the next launch traces the kernel again.

Invariant: a guard does not keep the objects and values that it has read alive, except numbers, texts and NumPy arrays.
A value that a guard cannot compare without keeping it alive is read again before each launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter, itemgetter
from types import FunctionType
from typing import Any, NamedTuple

from ..backends.host.pinned_names import PinnedName, pin_cell, pin_global
from ..backends.host.pinned_parts import pin_attributes, pin_method
from ..compiler.frontend.parts import class_attribute, is_of_class, module_names, part_names
from ..compiler.frontend.reads import EvaluationRead, NameRead, PartRead, Read, failure, materialize
from ..compiler.frontend.snapshots import (
    ArraySnapshot,
    Identity,
    IdentitySnapshot,
    MethodSnapshot,
    Snapshot,
    ValueSnapshot,
    fresh_snapshot,
    identical,
    reference_to,
    snapshot,
)
from ..compiler.frontend.source import MISSING
from .fresh_objects import NOWHERE, FreshObjects, Reach
from .repeated_reads import evaluation_key

_MOVES = 4
"""Number of times that an attribute is pinned anew before its guard is left to Python."""


class _OuterName:
    """Represent a global or closure variable by name, through a weak reference to the function that uses it.

    Attributes:
        function: A function that returns the function, or None if it has died.
        name: The name.
        cell: The number of the closure cell of the name, or -1 if the name is global.
        names: The global names of the module of the function if the function is a fresh object, else None.
    """

    __slots__ = ("function", "name", "cell", "names")

    def __init__(self, function: FunctionType, name: str, fresh: FreshObjects) -> None:
        free, reach = function.__code__.co_freevars, fresh.reach(function)
        self.function, self.name = reach or reference_to(function), name
        self.cell = free.index(name) if name in free else -1
        self.names = module_names(function) if fresh.is_copied(function) else None

    def now(self) -> Any:
        """Return the present value of the variable, or MISSING if it has none or is a builtin of Python."""
        if self.cell < 0 and self.names is not None:
            return self.names.get(self.name, MISSING)
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

    def __init__(self, read: NameRead, fresh: FreshObjects) -> None:
        self._outer = _OuterName(read.function, read.name, fresh)
        self._then = snapshot(read.found)

    def holds(self) -> bool:
        """Return True if the variable has the same value as during the trace."""
        return self._then.holds(self._outer.now())

    def identity(self) -> Identity | None:
        """Return the object that the global name denotes if no other one makes the guard hold as surely, or None."""
        outer = self._outer
        if outer.cell >= 0 or outer.names is not None or not isinstance(outer.function, weakref.ref):
            return None
        function, now = outer.function(), outer.now()
        return None if function is None or now is MISSING else identical(function, (outer.name,), self._then, now)

    def pin(self) -> PinnedName | None:
        """Return the pinned name of the variable, which machine code can compare, or None if there is none."""
        if self._outer.names is not None:
            return None
        function, now = self._outer.function(), self._outer.now()
        if now is MISSING or not isinstance(self._then, (ValueSnapshot, IdentitySnapshot)):
            return None
        if self._outer.cell < 0:
            return pin_global(function, self._outer.name, now)
        return pin_cell(function, self._outer.cell, now)


class PartGuard:
    """Represent a guard on an attribute, item or length, read during tracing, of an object."""

    __slots__ = ("_owner", "_look", "_then", "_pinned", "_moves")

    def __init__(self, owner: Reach, look: Callable[[Any], Any], then: Snapshot) -> None:
        self._owner, self._look, self._then = owner, look, then
        self._pinned: tuple[tuple[int, int], ...] = ()
        self._moves = 0

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

    def identity(self) -> Identity | None:
        """Return the attributes of the owner that make the guard hold while they are the same objects, or None."""
        if not isinstance(self._look, attrgetter) or not isinstance(self._owner, weakref.ref):
            return None
        owner, names = self._owner(), tuple(self._look.__reduce__()[1])
        try:
            return None if owner is None else identical(owner, names, self._then, self._look(owner))
        except Exception:
            return None

    def pin(self) -> PinnedName | None:
        """Return the pinned attribute, which machine code can compare, or None if it is computed or moves often.

        An equal number that is stored again and again is another object each time, for which a launch would be made
        ready in vain.
        """
        found = self._pinnable()
        if found is not None and found.words != self._pinned:
            if self._moves >= _MOVES:
                return None
            self._pinned, self._moves = found.words, self._moves + 1
        return found

    def _pinnable(self) -> PinnedName | None:
        """Return the attribute as pinned at present, or None if machine code cannot look it up."""
        identity = self.identity()
        if identity is None:
            return None
        if isinstance(self._then, MethodSnapshot):
            name = identity.names[0].partition(".")[0]
            return pin_method(identity.owner, name, *identity.values[1:])
        return pin_attributes(identity.owner, identity.names, identity.values)


class EvaluationGuard:
    """Represent a guard on a compile-time expression, which is evaluated again before each launch."""

    __slots__ = ("_outer", "_bound", "_code", "_then")

    def __init__(self, read: EvaluationRead, then: Snapshot, fresh: FreshObjects) -> None:
        self._outer = [_OuterName(read.function, name, fresh) for name in read.outer]
        self._bound = {name: fresh.held(value) for name, value in read.bound.items()}
        self._code, self._then = read.code, then

    def holds(self) -> bool:
        """Return True if the expression has the same value now as during the trace."""
        return self._then.holds(self.evaluated())

    def evaluated(self) -> Any:
        """Return the value of the expression now, or a tuple that stands for the exception that it raises."""
        namespace = {name: held() for name, held in self._bound.items()}
        for outer in self._outer:
            found = outer.now()
            if found is not MISSING:
                namespace[outer.name] = found
        try:
            return materialize(eval(self._code, namespace))
        except Exception as error:
            return failure(error)

    def pin(self) -> PinnedName | None:
        """Return None: there is no pinned name, because machine code cannot evaluate a Python expression."""
        return None


Guard = NameGuard | PartGuard | EvaluationGuard


# ---- making ---------------------------------------------------------------------------------------------------------


def guards_of(reads: Iterable[Read], places: Mapping[int, tuple[Any, Reach]] = NOWHERE) -> tuple[Guard, ...]:
    """Return guards of all Python objects that a trace has read.

    Args:
        reads: The records of the trace.
        places: Objects, by id, whose parts need no guards because the caller compares them; each has a function that
            returns the object that is now in its place.
    """
    return guards_with(reads, FreshObjects(places))


def guards_with(reads: Iterable[Read], fresh: FreshObjects) -> tuple[Guard, ...]:
    """Return guards of all Python objects that a trace has read, using `fresh` to find objects in place of fresh ones.

    Args:
        reads: The records of the trace.
        fresh: The fresh objects of the trace; this function adds those that the reads create.
    """
    made: dict[Any, Guard] = {}
    for read in reads:
        if isinstance(read, NameRead):
            if not (read.function in fresh and _is_part(read.function, read.name)):
                made.setdefault((id(read.function), read.name), NameGuard(read, fresh))
        elif isinstance(read, EvaluationRead):
            key = evaluation_key(read)
            if key in made:
                continue
            then = _lasting(read.found, EvaluationGuard(read, ValueSnapshot(None), fresh).evaluated, fresh)
            made[key] = EvaluationGuard(read, then, fresh)
        elif (id(read.owner), read.name) not in made:
            guard = _part_guard(read, fresh)
            if guard is not None:
                made[id(read.owner), read.name] = guard
    return tuple(made.values())


def _is_part(function: FunctionType, name: str) -> bool:
    """Return True if the object under a name is compared as a part of the function, which is a fresh object."""
    return name in function.__code__.co_freevars or module_names(function) is None


def _part_guard(read: PartRead, fresh: FreshObjects) -> PartGuard | None:
    """Return a guard on a part of an object, or None if another guard compares the part already."""
    owner = read.owner
    if owner not in fresh:
        then = _lasting(read.found, partial(read.look, owner), fresh)
        return PartGuard(reference_to(owner), read.look, then)
    if read.name in part_names(owner):
        return None
    if isinstance(read.name, str) and is_of_class(owner, read.name):
        look = partial(class_attribute, name=read.name)
        return PartGuard(reference_to(type(owner)), look, snapshot(look(type(owner))))
    reach = fresh.reach(owner)
    assert reach is not None, "the object is fresh"
    return PartGuard(reach, read.look, _lasting(read.found, partial(read.look, owner), fresh))


def _lasting(found: Any, again: Callable[[], Any], fresh: FreshObjects) -> Snapshot:
    """Return a snapshot of a value that was read; a value that each read creates anew is compared by its parts.

    Args:
        found: The value that the trace found.
        again: A function that repeats the read.
        fresh: The fresh objects of the trace; this function adds the value to them if each read creates it anew.
    """
    then = snapshot(found)
    if isinstance(then, (ValueSnapshot, ArraySnapshot)):
        return then
    try:
        other = again()
    except Exception:  # Nothing that later looks give will be what the trace found.
        other = MISSING
    if then.holds(other):
        return then
    made, inside = fresh_snapshot(found, other)
    fresh.add(inside)
    return made


def hold(guards: Iterable[Guard]) -> bool:
    """Return True if all guards hold: no Python object or expression that the trace read has changed."""
    return all([guard.holds() for guard in guards])


# ---- asking together ------------------------------------------------------------------------------------------------
# A set keeps nothing alive that its guards do not. It compares the address of an object only while the object lives.

_FIRST = 8
"""Number of checks of a set after which it prepares to look at all guards of an object at once."""


class _Group(NamedTuple):
    """Represent guards that look at one object.

    Attributes:
        owner: A weak reference to the object, or to a function whose global names are looked at.
        is_names: True for global names of a function.
        look: A function that returns what the guards look at.
        ids: The addresses of the objects that the trace found.
        guards: The guards.
    """

    owner: weakref.ref[Any]
    is_names: bool
    look: Callable[[Any], tuple[Any, ...]]
    ids: tuple[int, ...]
    guards: tuple[Guard, ...]

    def holds(self) -> bool:
        """Return True if all guards of the group hold; they are asked one by one if an address differs."""
        owner = self.owner()
        try:
            found = self.look(owner.__globals__ if self.is_names else owner)  # type: ignore[union-attr]
        # The guard that looks at the failing attribute decides what that means.
        except Exception:
            return hold(self.guards)
        return tuple(map(id, found)) == self.ids or hold(self.guards)


class GuardSet:
    """Represent the guards of a kernel, which are asked before each launch.

    Attributes:
        guards: The guards.
    """

    __slots__ = ("guards", "_asked", "_groups", "_others", "_watched", "__weakref__")

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = tuple(guards)
        self._asked = 0
        self._groups: tuple[_Group, ...] | None = None
        self._others: tuple[Guard, ...] = ()
        self._watched: list[weakref.ref[Any]] = []

    def __bool__(self) -> bool:
        return bool(self.guards)

    def holds(self) -> bool:
        """Return True if all guards hold: no Python object or expression that the trace has read has changed."""
        groups = self._groups
        if groups is None:
            self._asked += 1
            if self._asked == _FIRST:
                self._prepare()
            # Calls of functions are counted here: most kernels are launched a few times.
            return all([guard.holds() for guard in self.guards])
        for group in groups:
            if not group.holds():
                return False
        return hold(self._others)

    def _prepare(self) -> None:
        """Divide the guards into groups that look at one object, and others."""
        looks: dict[tuple[int, bool], list[tuple[Guard, Identity]]] = {}
        others: list[Guard] = []
        for guard in self.guards:
            found = guard.identity() if isinstance(guard, (NameGuard, PartGuard)) else None
            if found is None:
                others.append(guard)
            else:
                is_names = isinstance(guard, NameGuard)
                owner = found.owner.__globals__ if is_names else found.owner
                looks.setdefault((id(owner), is_names), []).append((guard, found))
        self._watched = []
        groups = tuple([self._group(is_names, members) for (_, is_names), members in looks.items()])
        self._others, self._groups = tuple(others), groups

    def _group(self, is_names: bool, members: list[tuple[Guard, Identity]]) -> _Group:
        """Return the group of guards that look at one object, or at the global names of one module."""
        for _, identity in members:
            for thing in (identity.owner, *identity.values):
                self._watch(thing)
        names = [name for _, identity in members for name in identity.names]
        # The getter of one name returns no tuple.
        names += names if len(names) == 1 else []
        ids = [id(value) for _, identity in members for value in identity.values]
        ids += ids if len(ids) == 1 else []
        look = itemgetter(*names) if is_names else attrgetter(*names)
        return _Group(
            weakref.ref(members[0][1].owner), is_names, look, tuple(ids), tuple([guard for guard, _ in members])
        )

    def _watch(self, thing: Any) -> None:
        """Ask all guards one by one from the death of an object on, because its address may be used again."""
        this = weakref.ref(self)

        def forget(_: object) -> None:
            known = this()
            if known is not None:
                known._groups, known._asked = None, _FIRST

        try:
            self._watched.append(weakref.ref(thing, forget))
        except TypeError:
            # A guard keeps an object alive that has no weak references.
            return


NO_GUARDS = GuardSet(())
"""The set of a kernel that reads no Python object."""
