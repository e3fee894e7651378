"""Calls remembered by the identity of their objects: the same arrays again cost little more than their numbers.

Invariant: what is remembered keeps no argument alive. Memory is held by views that own nothing; they are used only
while the caller holds the very arrays they were made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .backends.launcher import NO_DRAWS
from .backends.owners import owner_of
from .fields.array import Array
from .guards import hold
from .session import stamp

if TYPE_CHECKING:
    from .backends.base import Scalars
    from .backends.launcher import Launcher
    from .leaves import Foreign
    from .program import Binding
    from .specialise import Specialisation

Reference = Callable[[], Any]


class Direction:
    """One direction of a remembered call: its launcher on memory, and the arrays whose versions matter."""

    __slots__ = ("launcher", "memory", "written", "versions")

    def __init__(
        self, binding: Binding, launcher: Launcher, memory: Mapping[str, np.ndarray], written: tuple[Array, ...]
    ) -> None:
        self.launcher = launcher
        self.memory = {name: detached(array) for name, array in memory.items()}
        self.written = [weakref.ref(array) for array in written]
        bound = [binding.lookup(name) for name in launcher.versioned]
        arrays = [weakref.ref(array) for array in bound if isinstance(array, Array)]
        self.versions = arrays if len(arrays) == len(bound) else None

    def run(self, scalars: Scalars, memory: Mapping[str, np.ndarray]) -> None:
        """Launch once, unwatched."""
        versions = self.versions
        known = None if versions is None else tuple([ref().version for ref in versions])  # type: ignore[union-attr]
        try:
            self.launcher.run(memory, scalars, NO_DRAWS, known)
        finally:
            for ref in self.written:
                array = ref()
                if array is not None:
                    array.version = stamp()


class Recent:
    """One call that can be repeated: its program on the same arrays, with other numbers."""

    __slots__ = ("special", "objects", "leaves", "forward", "reverse")

    def __init__(self, special: Specialisation, objects: list[Any], leaves: list[Array | Foreign], binding: Binding):
        self.special = special
        self.objects = [(reference(o), None if not isinstance(o, np.ndarray) else (o.shape, o.dtype)) for o in objects]
        self.leaves = [weakref.ref(leaf) for leaf in leaves if isinstance(leaf, Array)]
        self.forward = Direction(binding, binding.program.forward, binding.memory, binding.written)
        self.reverse: Direction | None = None

    def remember_reverse(self, binding: Binding) -> None:
        """Remember the gradient too."""
        backward = binding.prepare_grad()
        self.reverse = Direction(binding, backward.launcher, backward.memory, backward.written)

    def fits(self, objects: list[Any]) -> bool:
        """Whether these are the same objects, and what the kernel took from them is as it was.

        Raises StaleFieldError for a field that was destroyed.
        """
        for (ref, form), found in zip(self.objects, objects):
            if ref() is not found or form is not None and (found.shape != form[0] or found.dtype != form[1]):
                return False
        for leaf in self.leaves:
            leaf().check_alive()  # type: ignore[union-attr]
        self.special.check_alive()
        return hold(self.special.guards)

    def launch(self, numbers: list[Any]) -> Any:
        """Run the kernel, unwatched; gives its result."""
        special, memory = self.special, self.forward.memory
        scalars = dict(zip(special.scalars, numbers))
        if special.reader is None:
            self.forward.run(scalars, memory)
            return None
        memory = {**memory, **special.reader.make()}
        self.forward.run(scalars, memory)
        return special.reader.read(memory)

    def launch_grad(self, numbers: list[Any]) -> None:
        """Run the gradient, unwatched."""
        assert self.reverse is not None
        self.reverse.run(dict(zip(self.special.scalars, numbers)), self.reverse.memory)


def reference(value: Any) -> Reference:
    """A weak reference, or a strong one to what is no object of the program's own, as a number."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class _Memory:
    """The interface of an array's memory, without the array. refers_to: gives who owns the memory, None if nobody."""

    __slots__ = ("__array_interface__", "refers_to")

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.refers_to: Reference = weakref.ref(owner) if hasattr(type(owner), "__weakref__") else lambda: None


def detached(array: np.ndarray) -> np.ndarray:
    """A view of the array that does not keep it alive."""
    return np.asarray(_Memory(array.__array_interface__, owner_of(array)))
