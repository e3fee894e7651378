"""Iterations that meet at an element: what the order of a parallel task may change.

Additions of many iterations to one element may come in any order. With n terms of total size M, the content of the
element before among them, every order stays within g·M of the exact sum, g = n·u/(1 - n·u): two orders differ by
2·g·M at most, beside the errors of the terms. Many stores and nothing else leave one of the values stored (`stores`).
Everything else that depends on the order poisons: an element that several iterations touch, one of them writing, and
one of them storing something else than the others, loading, exchanging, multiplying, or using the old value that its
atomic found.

Adjoints are different. The reverse of a store takes the adjoint of the element and leaves a zero; where several
iterations do that to one element, as several stored to it, the first one takes all. Any other use of an adjoint without
atomics by several iterations is a mistake of the compiler and not of the program: it is left to the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np

from ...compiler.ir.nodes import Atomic, Kernel, Load, Stmt, Store, Task, Value
from ...compiler.ir.walk import walk
from ...reference.frame import Vector
from ..launch import GRAD
from .rules import INF
from .stores import Stores

_NOBODY, _MANY = -1, -2
_COMMUTING = ("add", "min", "max", "bit_and", "bit_or", "bit_xor")


class Use(IntFlag):
    """What was done to an element. READ: its content before was used, or another value was put in its place."""

    READ, STORED, UPDATED = 1, 2, 4


@dataclass(frozen=True)
class Books:
    """What is to be noted of one array. sums: atomic additions of reals. takes: only who takes adjoints."""

    sums: bool = False
    takes: bool = False


@dataclass(frozen=True)
class Plan:
    """What a task must keep books on, by array. ordered: atomics whose effect or old value depends on the order, by
    result id.
    """

    kept: Mapping[str, Books] = field(default_factory=dict)
    ordered: frozenset[int] = frozenset()


@dataclass
class _Uses:
    ops: set[str] = field(default_factory=set)
    atomics: list[Atomic] = field(default_factory=list)
    plain: list[Load | Store] = field(default_factory=list)

    def stores_meet(self, own: tuple[Value, ...]) -> bool:
        """Whether several iterations may touch one element that one of them stores to, as far as it is easily told: not
        if every index of the task stands at the same place in all accesses.
        """
        if not any(isinstance(s, Store) for s in self.plain):
            return False
        columns = list(zip(*(s.indices for s in self.plain)))
        return not all(any(set(column) == {index} for column in columns) for index in own)


def plan_task(kernel: Kernel, task: Task, used: set[int]) -> Plan:
    """used: ids of values that somebody reads. A serial task has one order."""
    if not task.is_parallel:
        return Plan()
    types, uses = kernel.array_types(), _uses(walk(task.body))
    types |= {f"{name}{GRAD}": type.adjoint for name, type in types.items()}
    ordered: set[int] = set()
    kept: dict[str, Books] = {}
    for name, use in uses.items():
        real = types[name].dtype.is_real
        mine = {a.result.id for a in use.atomics if a.result.id in used or not _commutes(a.op, real)}
        mine |= {a.result.id for a in use.atomics} if len(use.ops) > 1 else set()
        ordered |= mine
        meet = use.stores_meet(task.indices)
        if use.atomics and (mine or use.plain or "add" in use.ops and real):
            kept[name] = Books(sums=real and "add" in use.ops)
        elif meet:
            kept[name] = Books(takes=name.endswith(GRAD))
    return Plan(kept, frozenset(ordered))


def _commutes(op: str, real: bool) -> bool:
    return op in _COMMUTING or op == "mul" and not real


def _uses(statements: Iterable[Stmt]) -> Mapping[str, _Uses]:
    found: dict[str, _Uses] = {}
    for stmt in statements:
        if isinstance(stmt, (Load, Store, Atomic)):
            use = found.setdefault(stmt.array, _Uses())
            if isinstance(stmt, Atomic):
                use.ops.add(stmt.op)
                use.atomics.append(stmt)
            else:
                use.plain.append(stmt)
    return found


class Ledger:
    """Books on one array during one task. owner: the only iteration that touched an element, or nobody, or many."""

    def __init__(self, content: Vector, errors: Vector | None, books: Books) -> None:
        size = content.size
        self.owner = np.full(size, _NOBODY, np.int64)
        self.uses = np.zeros(size, np.uint8)
        self.takes = books.takes
        self.stores = Stores(content)
        self.terms: Vector | None = None
        if books.sums:
            base = np.zeros(size) if errors is None else errors
            self.terms, self.spread = np.zeros(size), base.copy()
            self.mass = np.abs(content.astype(np.float64)) + base

    def touch(self, index: Vector, iterations: Vector, use: Use) -> None:
        """Every lane touches one element."""
        before = self.owner[index]
        self.owner[index] = iterations
        crowd = (self.owner[index] != iterations) | (before != _NOBODY) & (before != iterations)
        if crowd.any():
            self.owner[index[crowd]] = _MANY
        self.uses[index] |= np.uint8(use)

    def add(self, index: Vector, size: Vector, e: Vector) -> None:
        """Terms of at most this size, with these errors, one a lane."""
        assert self.terms is not None
        np.add.at(self.terms, index, 1.0)
        np.add.at(self.mass, index, size + e)
        np.add.at(self.spread, index, e)

    def store(self, index: Vector, value: Vector, e: Vector, content: Vector) -> None:
        """Every lane has stored a value; the elements hold this content now."""
        self.stores.note(index, value, e)
        if self.terms is not None:
            e = last_of(index, e)
            self.terms[index], self.spread[index], self.mass[index] = 0.0, e, np.abs(content.astype(np.float64)) + e

    def conflict(self) -> int | None:
        """An element whose content, or what somebody found there, depends on the order of iterations."""
        many, stored, read = self.owner == _MANY, self._was(Use.STORED), self._was(Use.READ)
        if self.takes:
            bad = many & stored & read & self.stores.nothing()
        else:
            updated = self._was(Use.UPDATED)
            bad = many & (read & (stored | updated) | stored & (updated | self.stores.differ()))
        return int(np.argmax(bad)) if bad.any() else None

    def _was(self, use: Use) -> Vector:
        return (self.uses & np.uint8(use)) != 0

    def stored(self, content: Vector) -> tuple[Vector, Vector]:
        """Elements that many iterations stored to, and their errors."""
        shared = np.flatnonzero((self.owner == _MANY) & self._was(Use.STORED) & (not self.takes))
        return shared, self.stores.errors(content, shared)

    def summed(self, u: float, most: float) -> tuple[Vector, Vector]:
        """Elements that many iterations added to, and their errors. most: the greatest finite number."""
        shared = np.flatnonzero(self.owner == _MANY)
        if self.terms is None:
            return shared[:0], shared[:0].astype(np.float64)
        spread, mass, roundings = self.spread[shared], self.mass[shared], self.terms[shared] * u
        e = spread + 2 * roundings / np.maximum(1 - roundings, 0.0) * mass
        e = np.where(roundings > 0, e, spread)
        return shared, np.where(mass + e < most, e, INF)


def last_of(index: Vector, e: Vector) -> Vector:
    """What stays of the errors of all lanes in the one element that they share."""
    return e[-1] if index.ndim == 0 and e.ndim else e
