"""Names of the program and what they stand for, block by block; unique names of the IR.

Invariant: a name lives from its first assignment to the end of the block that holds it, as in the IR.
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
class Variable:
    """A mutable scalar: a Local of the IR."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Argument:
    """A scalar argument of the kernel."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Fixed:
    """A name that cannot be assigned. kind says why: 'loop index', 'static value', 'parameter', 'faulty'."""

    operand: Operand
    kind: str


@dataclass(frozen=True)
class Compound:
    """A vector, matrix, struct or sequence in memory: a place for each entry, row by row, or for each member in order.

    A local is a Compound of Variables, an argument one of Arguments; a row or a swizzle of either is one again.
    """

    kind: MatrixType | StructType | PackType
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Reference:
    """A name for a place that was made elsewhere: `self` in a method, a parameter taken by reference."""

    place: Any


Binding = Variable | Argument | Compound | Reference | Fixed


class Scopes:
    """The blocks open in one function, innermost last."""

    def __init__(self) -> None:
        self._chain: list[dict[str, tuple[Binding, int]]] = [{}]
        self._dynamic: list[bool] = [False]
        self.expired: dict[str, int] = {}

    def find(self, name: str) -> Binding | None:
        """What the name stands for here."""
        for names in reversed(self._chain):
            if name in names:
                return names[name][0]
        return None

    def declare(self, name: str, binding: Binding, line: int) -> None:
        """Bind a name in the innermost block."""
        self._chain[-1][name] = (binding, line)

    def rebind(self, name: str, binding: Binding, line: int) -> bool:
        """Change what a name stands for where it was bound; false if a block between may run or not."""
        for depth in range(len(self._chain) - 1, -1, -1):
            if name in self._chain[depth]:
                self._chain[depth][name] = (binding, line)
                return True
            if self._dynamic[depth]:
                return False
        return False

    def visible(self) -> list[str]:
        """Names that can be used here."""
        return [name for names in self._chain for name in names]

    @contextmanager
    def inner(self, dynamic: bool = True, apart: bool = False) -> Iterator[None]:
        """A block: its names expire at its end, remembering the line that made them.

        dynamic: whether the block runs is decided at launch. apart: to Python its names are not those of the function.
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
        """A loop whose iterations are traced one by one, each after a call of what this gives.

        What one of them ended has ended behind the loop; in the next iteration it has not been met yet.
        """
        before, after = dict(self.expired), dict[str, int]()

        def begin() -> None:
            after.update(self.expired)
            self.expired = dict(before)

        yield begin
        self.expired = after | self.expired


class Namer:
    """Gives each local, array and argument of a kernel a name of its own: `v`, `v.1`, `v.2`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """A new name that starts with the given one and that the text form can read back."""
        base = re.sub(r"[^A-Za-z0-9_$.]", lambda m: f"u{ord(m[0]):x}", name)
        if base in ("inf", "nan") or not re.match(r"[A-Za-z_$]", base):
            base = "_" + base
        made = base
        while made in self._used:
            self._counts[base] = self._counts.get(base, 0) + 1
            made = f"{base}.{self._counts[base]}"
        self._used.add(made)
        return made
