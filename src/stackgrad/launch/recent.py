"""Remember calls by the identity of their arguments, so that a repeated call costs little more than its numbers.

Invariant: a remembered call keeps no argument alive. It holds memory by views that own nothing, and uses them only
while the caller holds the very arrays that the views were made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.launching.launcher import NO_DRAWS
from ..backends.owners import owner_of
from ..data.fields.array import Array
from ..runtime.guards import hold
from ..runtime.session import stamp

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..backends.launching.launcher import Launcher
    from ..data.leaves import Foreign
    from .program import Binding
    from .specialise import Specialisation

Reference = Callable[[], Any]


class Direction:
    """Represent one direction of a remembered call: its launcher on memory, and the arrays whose versions matter.

    Attributes:
        launcher: The launcher of the direction.
        memory: Views of the arrays by name; they do not keep the arrays alive.
        written: Weak references to the arrays that a launch writes.
        versions: Weak references to the arrays that decide sizes, or None if one of them has no version.
    """

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
        """Launch once, without telling tapes or other watchers.

        Args:
            scalars: The scalar arguments by name.
            memory: The memory of all arrays by name, those of the result included.
        """
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
    """A remembered call: its program on the same arrays can be repeated with other numbers.

    Attributes:
        special: The specialization of the kernel.
        objects: A weak reference to each argument that is not a number, with shape and dtype if it is a NumPy array.
        leaves: Weak references to the fields and ndarrays among the arguments and their parts.
        forward: The forward direction.
        reverse: The gradient, or None until `remember_reverse`.
    """

    __slots__ = ("special", "objects", "leaves", "forward", "reverse")

    def __init__(self, special: Specialisation, objects: list[Any], leaves: list[Array | Foreign], binding: Binding):
        self.special = special
        self.objects = [(reference(o), None if not isinstance(o, np.ndarray) else (o.shape, o.dtype)) for o in objects]
        self.leaves = [weakref.ref(leaf) for leaf in leaves if isinstance(leaf, Array)]
        self.forward = Direction(binding, binding.program.forward, binding.memory, binding.written)
        self.reverse: Direction | None = None

    def remember_reverse(self, binding: Binding) -> None:
        """Remember the gradient of the call too."""
        backward = binding.prepare_grad()
        self.reverse = Direction(binding, backward.launcher, backward.memory, backward.written)

    def fits(self, objects: list[Any]) -> bool:
        """Return True if the objects are those of the call and all that the kernel read from Python is unchanged.

        Raises:
            StaleFieldError: A field among them was destroyed.
        """
        for (ref, form), found in zip(self.objects, objects):
            if ref() is not found or form is not None and (found.shape != form[0] or found.dtype != form[1]):
                return False
        for leaf in self.leaves:
            leaf().check_alive()  # type: ignore[union-attr]
        self.special.check_alive()
        return hold(self.special.guards)

    def launch(self, numbers: list[Any]) -> Any:
        """Run the kernel with these scalar arguments, without telling watchers. Return its result."""
        special, memory = self.special, self.forward.memory
        scalars = dict(zip(special.scalars, numbers))
        if special.reader is None:
            self.forward.run(scalars, memory)
            return None
        memory = {**memory, **special.reader.make()}
        self.forward.run(scalars, memory)
        return special.reader.read(memory)

    def launch_grad(self, numbers: list[Any]) -> None:
        """Run the gradient with these scalar arguments, without telling watchers."""
        assert self.reverse is not None
        self.reverse.run(dict(zip(self.special.scalars, numbers)), self.reverse.memory)


def reference(value: Any) -> Reference:
    """Return a weak reference to a value, or a strong one if the value, such as a number, allows no weak reference."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class _Memory:
    """The array interface of some memory, without the array that owns it.

    Attributes:
        refers_to: A function that returns the owner of the memory, or None if there is none.
    """

    __slots__ = ("__array_interface__", "refers_to")

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.refers_to: Reference = weakref.ref(owner) if hasattr(type(owner), "__weakref__") else lambda: None


def detached(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that does not keep the array alive."""
    return np.asarray(_Memory(array.__array_interface__, owner_of(array)))
