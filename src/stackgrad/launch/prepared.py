"""Prepare the launches that Python makes for a call, and find them by the identity of the call's arguments.

Invariant: a known call keeps no argument alive. It refers to memory by views that do not own it, and uses the views
only while the caller holds the very arrays that they were made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.launching.launcher import NO_DRAWS
from ..backends.owners import owner_of
from ..backends.words import LIVING
from ..data.fields.array import Array
from ..runtime.session import RUNTIME, stamp
from .bound import GRAD
from .directions import copied_states

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..data.leaves import Leaf
    from .call_cache import Entry
    from .directions import BoundGradient
    from .program import Binding

Reference = Callable[[], Any]
Launch = Callable[[Any], Any]
"""A function of the scalars by name that launches a kernel and returns its result."""


class Prepared:
    """Represent a launch prepared for the arrays of one call: the launcher and memory, without scalar arguments.

    Attributes:
        launcher: The launcher of the direction.
        memory: Views of the arrays by name, which do not keep the arrays of the caller alive.
        written: Weak references to the arrays that a launch writes.
        versions: Weak references to the arrays that decide sizes, or None if one of them has no version.
        states: For each parameter that is a state of an adjoint, the name of the adjoint, which a launch copies.
        reader: The reader of the result, or None.
    """

    __slots__ = ("launcher", "memory", "written", "versions", "states", "reader")

    def __init__(self, entry: Entry, binding: Binding, backward: BoundGradient | None) -> None:
        special, side = entry.special, binding if backward is None else backward
        self.launcher = binding.program.forward() if backward is None else backward.launcher
        given = {name.removesuffix(GRAD) for name, _, _ in special.slots}
        self.memory = {
            name: detached(array) if name.removesuffix(GRAD) in given else array for name, array in side.memory.items()
        }
        self.written = [weakref.ref(array) for array in side.written]
        self.states = self.launcher.lowered.states
        bound = [binding.lookup(self.states.get(name, name)) for name in self.launcher.versioned]
        arrays = [weakref.ref(array) for array in bound if isinstance(array, Array)]
        self.versions = arrays if len(arrays) == len(bound) else None
        self.reader = special.reader if backward is None else None

    def launch(self, scalars: Scalars) -> Any:
        """Launch once with these scalar arguments, without notifying tapes and other watchers. Return the result."""
        versions, memory, reader = self.versions, self.memory, self.reader
        known = None if versions is None else tuple([ref().version for ref in versions])  # type: ignore[union-attr]
        if reader is not None:
            memory = {**memory, **reader.make()}
        if self.states:
            memory = {**memory, **copied_states(self.states, memory)}
        try:
            self.launcher.run(memory, scalars, NO_DRAWS, known)
        finally:
            for ref in self.written:
                array = ref()
                if array is not None:
                    array.version = stamp()
        return None if reader is None else reader.read(memory)


class Known:
    """Represent an earlier call with its prepared launches, which serve all calls with the identical arguments.

    Attributes:
        entry: The cache entry for the kinds of its arguments.
        objects: A weak reference to each argument that is not a number, with shape and dtype if it is a NumPy array.
        leaves: For each field or ndarray among the arguments and their parts, its memory words and a weak reference to
            it.
        names: The names of its scalars.
        launches: The functions, of the scalars by name, that launch the kernel and its gradient; None if not prepared.
        watched: Such functions for launches of which watchers must be notified; None unless all calls of the entry
            share one binding.
    """

    __slots__ = ("entry", "objects", "leaves", "names", "launches", "watched")

    def __init__(self, entry: Entry, objects: Sequence[Any], leaves: Sequence[Leaf]) -> None:
        self.entry = entry
        self.objects = [(reference(o), (o.shape, o.dtype) if isinstance(o, np.ndarray) else None) for o in objects]
        self.leaves = [(leaf.words, weakref.ref(leaf)) for leaf in leaves if isinstance(leaf, Array)]
        self.names = entry.special.scalars
        self.launches: list[Launch | None] = [None, None]
        self.watched: tuple[Launch | None, Launch | None] = (None, None)
        binding = entry.special.shared
        if binding is not None:
            self.watched = binding.launch, binding.launch_grad
            if binding.program.has_random:
                self.launches = [*self.watched]

    def is_of(self, objects: Sequence[Any]) -> bool:
        """Return True if the given objects are the arguments of this call, with unchanged shapes and dtypes."""
        for (ref, form), found in zip(self.objects, objects):
            if ref() is not found or form is not None and (found.shape != form[0] or found.dtype != form[1]):
                return False
        return True

    def holds(self) -> bool:
        """Return True if the Python objects that the kernel's trace read are unchanged.

        The caller has checked that the arguments are the same objects as before.

        Raises:
            StaleFieldError: A field was destroyed.
        """
        generation, special = RUNTIME.generation, self.entry.special
        for words, leaf in self.leaves:
            if words[LIVING] != generation:
                leaf().check_alive()  # type: ignore[union-attr]
        for array in special.captured.values():
            if array.words[LIVING] != generation:
                array.check_alive()
        return not special.guards or special.checks.holds()


def reference(value: Any) -> Reference:
    """Return a weak reference to a value, or a strong one if the value, such as a number, allows no weak reference."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class _ArrayInterface:
    """Represent the memory of an array as an object that NumPy can view, without keeping the array alive.

    Attributes:
        refers_to: A function that returns the owner of the memory, or None if there is none.
    """

    __slots__ = ("__array_interface__", "refers_to")

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.refers_to: Reference
        try:
            self.refers_to = weakref.ref(owner)
        except TypeError:
            self.refers_to = lambda: None


def detached(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that does not keep the array alive."""
    return np.asarray(_ArrayInterface(array.__array_interface__, owner_of(array)))
