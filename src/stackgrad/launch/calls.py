"""Split the arguments of a call into numbers, arrays, and a key that selects the specialization.

Invariant: two calls with equal keys, and with arrays that are shared in the same way, run the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..data.leaves import ArgumentMismatch, Leaf
from .aliasing import aliases


class Call:
    """Represent the arguments of one call: its numbers, its arrays, and the key that selects a specialization.

    Attributes:
        key: The key of the specialization.
        scalars: The numbers of this launch.
        leaves: The arrays of this launch.
        owners: Objects whose identity is part of the key.
        places: The place of each of these identities in the key.
        is_volatile: True if a later call with the same argument objects may need other arrays or numbers, so that the
            call must not be cached by their identity.
        ends: For each argument, the number of arrays and of numbers in all arguments up to and including it.
        shared: Which arrays are the same memory, see `aliasing.aliases`, or None; set when the call is complete.
    """

    __slots__ = ("key", "scalars", "leaves", "owners", "places", "is_volatile", "ends", "shared")

    def __init__(self) -> None:
        self.key: list[Any] = []
        self.scalars: list[Any] = []
        self.leaves: list[Leaf] = []
        self.owners: list[Any] = []
        self.places: list[int] = []
        self.is_volatile = False
        self.ends: list[tuple[int, int]] = []
        self.shared: tuple[int, ...] | None = None

    def know(self, value: Any) -> None:
        """Add the identity of an object to the key, so that each object selects a specialization of its own."""
        self.places.append(len(self.key))
        self.key.append(id(value))
        self.owners.append(value)

    def join(self, part: Call) -> None:
        """Append the key, numbers and arrays of a part of an argument, which was taken apart alone."""
        at = len(self.key)
        self.places += [at + place for place in part.places]
        self.key += part.key
        self.scalars += part.scalars
        self.leaves += part.leaves
        self.owners += part.owners
        self.is_volatile |= part.is_volatile


class Taker(Protocol):
    """Describe an object that appends the numbers and arrays of one argument to a `Call`."""

    def take(self, value: Any, call: Call) -> None:
        """Append the numbers and arrays of an argument to a call. Raise ArgumentMismatch if it does not fit."""


def take_apart(
    matchers: Sequence[Taker], args: tuple[Any, ...], error: Callable[[int, ArgumentMismatch], Exception]
) -> Call:
    """Split all arguments of a call into numbers, arrays and the specialization's key.

    Args:
        matchers: The matcher of each parameter, which splits its argument.
        args: The arguments in the order of the parameters.
        error: A function that takes the number of an argument that does not fit, and returns the exception to raise.
    """
    call, at = Call(), 0
    try:
        for at, matcher in enumerate(matchers):
            matcher.take(args[at], call)
            call.ends.append((len(call.leaves), len(call.scalars)))
    except ArgumentMismatch as misfit:
        raise error(at, misfit) from None
    if len(call.leaves) > 1:
        call.shared = aliases(call.leaves)
    return call
