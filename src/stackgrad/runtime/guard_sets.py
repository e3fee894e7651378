"""Check all guards of a kernel together: one look at an object compares all of its attributes that a trace has read.

A guard alone takes a third of a microsecond, and a large kernel has hundreds. Most compare an attribute or a global
name with the very object that the trace found, so that their answers are known from the addresses of objects. A guard
whose answer these do not give is asked itself. Invariant: a set keeps nothing alive that its guards do not. An address
is compared only while the object that the trace found there is alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from ..compiler.frontend.snapshots import Identity
from .guards import Guard, NameGuard, PartGuard, hold

_FIRST = 3
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
            return hold(self.guards)
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
