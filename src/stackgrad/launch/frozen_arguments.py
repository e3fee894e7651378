"""Remember the parts of arguments that never change, so that a call with them and with new arrays takes less apart.

A frozen dataclass of fields is the same in each call of a solver, which may have hundreds of arrays in it. Invariant:
what is remembered dies with the argument, and holds while no array in it was destroyed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..backends.words import LIVING
from ..data.fields.array import Array
from ..runtime.session import RUNTIME
from .calls import Call


class FrozenArguments:
    """Remember the parts of frozen objects by the identity of the objects.

    Attributes:
        known: For each object, by id, a weak reference to it and its parts.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[int, tuple[weakref.ref[Any], Call]] = {}

    def parts(self, value: Any) -> Call | None:
        """Return the parts of an object as a call with this one argument, or None if they are not known."""
        found = self.known.get(id(value))
        if found is None or found[0]() is not value:
            return None
        generation = RUNTIME.generation
        for leaf in found[1].leaves:
            if leaf.words[LIVING] != generation:  # type: ignore[union-attr]
                return None
        return found[1]

    def take(self, value: Any, call: Call, take: Callable[[Any, Call], None]) -> None:
        """Append the parts of an object to a call; remember them if a later call will find the same ones.

        Args:
            value: The object.
            call: The call.
            take: A function that appends the parts to a call. It raises ArgumentMismatch if the object does not fit.
        """
        part = Call()
        take(value, part)
        call.join(part)
        if part.is_volatile or part.scalars or not all([isinstance(leaf, Array) for leaf in part.leaves]):
            return
        known, number = self.known, id(value)

        def forget(dead: object) -> None:
            found = known.get(number)
            if found is not None and found[0] is dead:
                del known[number]

        try:
            known[number] = weakref.ref(value, forget), part
        except TypeError:  # An object without weak references could be replaced unseen.
            return
