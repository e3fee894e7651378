"""Iterations that meet at an element: what the order of a parallel task may change.

Additions of many iterations to one element may come in any order. With n terms of total size M, the content of the
element before among them, every order stays within g·M of the exact sum, g = n·u/(1 - n·u): two orders differ by
2·g·M at most, beside the errors of the terms. Everything else that depends on the order poisons: an element that
several iterations touch, one of them writing, and one of them storing, loading, exchanging, multiplying, or using
the old value that its atomic found.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...compiler.ir.nodes import Atomic, Kernel, Load, Stmt, Store, Task
from ...compiler.ir.walk import walk
from ...reference.frame import Vector
from .rules import INF

_NOBODY, _MANY = -1, -2
_COMMUTING = ("add", "min", "max", "bit_and", "bit_or", "bit_xor")


@dataclass(frozen=True)
class Plan:
    """What a task must keep books on. sums: arrays of reals that atomics add to. watched: order may matter.

    ordered: atomics whose effect or old value depends on the order, by result id.
    """

    sums: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()
    ordered: frozenset[int] = frozenset()


@dataclass
class _Uses:
    ops: set[str] = field(default_factory=set)
    atomics: list[Atomic] = field(default_factory=list)
    plain: bool = False


def plan_task(kernel: Kernel, task: Task, used: set[int]) -> Plan:
    """used: ids of values that somebody reads. A serial task has one order."""
    if not task.is_parallel:
        return Plan()
    types, uses = kernel.array_types(), _uses(walk(task.body))
    types |= {f"{name}.grad": type for name, type in types.items()}
    ordered: set[int] = set()
    watched, sums = set(), set()
    for name, use in uses.items():
        real = types[name].dtype.is_real
        mine = {a.result.id for a in use.atomics if a.result.id in used or not _commutes(a.op, real)}
        mine |= {a.result.id for a in use.atomics} if len(use.ops) > 1 else set()
        ordered |= mine
        if mine or use.plain and use.atomics:
            watched.add(name)
        if real and "add" in use.ops:
            sums.add(name)
    return Plan(frozenset(sums), frozenset(watched), frozenset(ordered))


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
                use.plain = True
    return found


class Ledger:
    """Books on one array during one task. owner: the only iteration that touched an element, or nobody, or many."""

    def __init__(self, content: Vector, errors: Vector | None, sums: bool) -> None:
        size = content.size
        self.owner = np.full(size, _NOBODY, np.int64)
        self.written = np.zeros(size, bool)
        self.ordered = np.zeros(size, bool)
        self.terms: Vector | None = None
        if sums:
            base = np.zeros(size) if errors is None else errors
            self.terms, self.spread = np.zeros(size), base.copy()
            self.mass = np.abs(content.astype(np.float64)) + base

    def touch(self, index: Vector, iterations: Vector, written: bool, ordered: bool) -> None:
        """Every lane touches one element."""
        before = self.owner[index]
        self.owner[index] = iterations
        crowd = (self.owner[index] != iterations) | (before != _NOBODY) & (before != iterations)
        if crowd.any():
            self.owner[index[crowd]] = _MANY
        if written:
            self.written[index] = True
        if ordered:
            self.ordered[index] = True

    def add(self, index: Vector, size: Vector, e: Vector) -> None:
        """Terms of at most this size, with these errors, one a lane."""
        assert self.terms is not None
        np.add.at(self.terms, index, 1.0)
        np.add.at(self.mass, index, size + e)
        np.add.at(self.spread, index, e)

    def restart(self, index: Vector, size: Vector, e: Vector) -> None:
        """The elements hold something new."""
        if self.terms is not None:
            self.terms[index], self.spread[index], self.mass[index] = 0.0, e, size + e

    def conflict(self) -> int | None:
        """An element whose content, or what somebody found there, depends on the order of iterations."""
        bad = (self.owner == _MANY) & self.written & self.ordered
        return int(np.argmax(bad)) if bad.any() else None

    def summed(self, u: float, most: float) -> tuple[Vector, Vector]:
        """Elements that many iterations added to, and their errors. most: the greatest finite number."""
        shared = np.flatnonzero(self.owner == _MANY)
        if self.terms is None:
            return shared[:0], shared[:0].astype(np.float64)
        spread, mass, roundings = self.spread[shared], self.mass[shared], self.terms[shared] * u
        e = spread + 2 * roundings / np.maximum(1 - roundings, 0.0) * mass
        e = np.where(roundings > 0, e, spread)
        return shared, np.where(mass + e < most, e, INF)
