"""This module maps names of the program to their meanings, block by block, and chooses unique names for the IR.

Invariant: a name lives from its first assignment to the end of the block that contains it, as in the IR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..ir.types import Scalar
from .aggregates import MatrixType, PackType, StructType
from .operands import Operand


@dataclass(frozen=True)
class LocalVariable:
    """A `LocalVariable` is the meaning of a name that denotes a scalar local of the IR."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class ArgumentVariable:
    """An `ArgumentVariable` is the meaning of a name that denotes a scalar argument of the kernel."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class FixedName:
    """A `FixedName` is the meaning of a name that cannot be assigned, such as a loop index.

    Attributes:
        operand: operand that the name stands for.
        kind: reason why the name is fixed, such as 'loop index', 'static value', 'parameter' or 'faulty'.
    """

    operand: Operand
    kind: str


@dataclass(frozen=True)
class CompoundVariable:
    """A `CompoundVariable` is a local or argument of several scalars: a vector, matrix, struct or sequence.

    The parts of a local are of class `LocalVariable`, and those of an argument of class `ArgumentVariable`. A row or a
    swizzle of either is again a `CompoundVariable`.

    Attributes:
        kind: type of the vector, matrix, struct or sequence.
        parts: a place for each entry, row by row, or for each member in order.
    """

    kind: MatrixType | StructType | PackType
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class ReferenceName:
    """A `ReferenceName` is an alias of existing memory: `self` in a method, or a parameter passed by reference."""

    place: Any


NameMeaning = LocalVariable | ArgumentVariable | CompoundVariable | ReferenceName | FixedName


class Scopes:
    """This class holds the open blocks of one function, each with its names, innermost last.

    Attributes:
        expired: names whose blocks have ended, with the line of their first assignment.
    """

    def __init__(self) -> None:
        self._chain: list[dict[str, tuple[NameMeaning, int]]] = [{}]
        self._dynamic: list[bool] = [False]
        self.expired: dict[str, int] = {}

    def find(self, name: str) -> NameMeaning | None:
        """Return the meaning that a name has in the innermost open block that binds it, or None if none does."""
        for names in reversed(self._chain):
            if name in names:
                return names[name][0]
        return None

    def declare(self, name: str, binding: NameMeaning, line: int) -> None:
        """Bind a name in the innermost block; `line` is the line of the binding."""
        self._chain[-1][name] = (binding, line)

    def rebind(self, name: str, binding: NameMeaning, line: int) -> bool:
        """Change what a name denotes in the innermost block that bound it, and return True if that was possible.

        It is not possible if only the launch decides whether a block between that block and the current place runs.
        """
        for depth in range(len(self._chain) - 1, -1, -1):
            if name in self._chain[depth]:
                self._chain[depth][name] = (binding, line)
                return True
            # A block that the launch may skip cannot change what is known at compile time after it.
            if self._dynamic[depth]:
                return False
        return False

    def visible(self) -> list[str]:
        """Return the names that can be used at the current place."""
        return [name for names in self._chain for name in names]

    @contextmanager
    def inner(self, dynamic: bool = True, apart: bool = False) -> Iterator[None]:
        """Open a scope for the names of one block; `dynamic` says that only the launch decides if the block runs.

        Args:
            dynamic: True if the launch decides if the block runs.
            apart: True if Python gives the block a scope of its own, as to a comprehension; its names then count as
                unknown
            after the block, and not as locals that have ended.
        """
        self._chain.append({})
        self._dynamic.append(dynamic)
        try:
            yield
        finally:
            self._dynamic.pop()
            made = self._chain.pop()
            if not apart:
                self.expired.update((name, line) for name, (_, line) in made.items())

    @contextmanager
    def iterations(self) -> Iterator[Callable[[], None]]:
        """Yield a function that is called before each unrolled iteration and hides the names of the previous one.

        In the next iteration such a name is new, as in the first one; after the loop it is a local that has ended.
        """
        before, after = dict(self.expired), dict[str, int]()

        def begin() -> None:
            after.update(self.expired)
            self.expired = dict(before)

        yield begin
        self.expired = after | self.expired


class Namer:
    """This class chooses a unique name for each local, array and argument of a kernel: `v`, `v.1`, `v.2`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """Return a new name that starts with the given one and that the text form of the IR can express."""
        # The text form of the IR knows only ASCII letters, so each other character becomes its code point.
        base = re.sub(r"[^A-Za-z0-9_$.]", lambda m: f"u{ord(m[0]):x}", name)
        if base in ("inf", "nan") or not re.match(r"[A-Za-z_$]", base):
            base = "_" + base
        made = base
        while made in self._used:
            self._counts[base] = self._counts.get(base, 0) + 1
            made = f"{base}.{self._counts[base]}"
        self._used.add(made)
        return made
