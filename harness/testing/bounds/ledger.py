"""This module records which iterations touch an element, and bounds the effect of the iteration order on results.

Additions of many iterations to one element may come in any order. Take n terms of total size M, counting the earlier
content of the element as a term. Then every order stays within g·M of the exact sum, g = n·u/(1 - n·u), so two orders
differ by at most 2·g·M, beside the errors of the terms. If there are many stores and nothing else, the element ends
with one of the stored values (see `stores`). Everything else that depends on the order poisons: several iterations
touch an element, one of them writes it, and one of them stores something else than the others, loads, exchanges,
multiplies, or uses the old value that its atomic found.

Adjoints are different. The reverse of a store takes the adjoint of the element and leaves a zero. If several iterations
do that to one element, because several stored to it, the first one takes all. Any other use of an adjoint without
atomics by several iterations is a mistake of the compiler, not of the program, so it is left to the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np

from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.nodes import Atomic, Load, Store
from ....compiler.ir.roles import ACCESSES
from ....compiler.ir.statement import Stmt, Value
from ....compiler.ir.walk import walk
from ....reference.frame import LaneVector
from ..launch import GRAD
from .rules import INF
from .stores import Stores

_NOBODY, _MANY = -1, -2
_COMMUTING = ("add", "min", "max", "bit_and", "bit_or", "bit_xor")


class ElementUse(IntFlag):
    """An `ElementUse` is a set of flags that say if an element was read, stored or updated.

    READ means that the earlier value was used, or that another value was put in its place.
    """

    READ, STORED, UPDATED = 1, 2, 4


@dataclass(frozen=True)
class ArrayNotes:
    """An `ArrayNotes` says which accesses to one array are recorded during a task.

    Attributes:
        sums: True if atomic additions of reals are noted.
        takes: True if only the iterations that take adjoints are noted.
    """

    sums: bool = False
    takes: bool = False


@dataclass(frozen=True)
class NotePlan:
    """A `NotePlan` says for each array which accesses the ledger must record while a task runs.

    Attributes:
        kept: the notes that each array needs.
        ordered: result ids of atomics whose effect or old value depends on the order of iterations.
    """

    kept: Mapping[str, ArrayNotes] = field(default_factory=dict)
    ordered: frozenset[int] = frozenset()


@dataclass
class _Uses:
    ops: set[str] = field(default_factory=set)
    atomics: list[Atomic] = field(default_factory=list)
    plain: list[Load | Store] = field(default_factory=list)

    def stores_meet(self, own: tuple[Value, ...]) -> bool:
        """Return True if several iterations may touch one element and at least one of them stores to it.

        The test is simple: it is False if nothing is stored, or if every index of the task stands at the same place in
        all accesses.
        """
        if not any(isinstance(s, Store) for s in self.plain):
            return False
        columns = list(zip(*(s.indices for s in self.plain)))
        return not all(any(set(column) == {index} for column in columns) for index in own)


def plan_task(kernel: Kernel, task: Task, used: set[int]) -> NotePlan:
    """Return, for each array, the kinds of accesses that a task must record; a serial task needs to record none.

    Args:
        kernel: the kernel that contains the task.
        task: one of its tasks.
        used: ids of values that some statement reads.
    """
    if not task.is_parallel:
        return NotePlan()
    types, uses = kernel.array_types(), _uses(walk(task.body))
    types |= {f"{name}{GRAD}": type.adjoint for name, type in types.items()}
    ordered: set[int] = set()
    kept: dict[str, ArrayNotes] = {}
    for name, use in uses.items():
        real = types[name].dtype.is_real
        mine = {a.result.id for a in use.atomics if a.result.id in used or not _commutes(a.op, real)}
        mine |= {a.result.id for a in use.atomics} if len(use.ops) > 1 else set()
        ordered |= mine
        meet = use.stores_meet(task.indices)
        if use.atomics and (mine or use.plain or "add" in use.ops and real):
            kept[name] = ArrayNotes(sums=real and "add" in use.ops)
        elif meet:
            kept[name] = ArrayNotes(takes=name.endswith(GRAD))
    return NotePlan(kept, frozenset(ordered))


def _commutes(op: str, real: bool) -> bool:
    return op in _COMMUTING or op == "mul" and not real


def _uses(statements: Iterable[Stmt]) -> Mapping[str, _Uses]:
    found: dict[str, _Uses] = {}
    for stmt in statements:
        if isinstance(stmt, ACCESSES):
            use = found.setdefault(stmt.array, _Uses())
            if isinstance(stmt, Atomic):
                use.ops.add(stmt.op)
                use.atomics.append(stmt)
            else:
                use.plain.append(stmt)
    return found


class Ledger:
    """A `Ledger` records for each element of one array which iteration of a task touched it, and how.

    Attributes:
        owner: for each element the only iteration that touched it, or a number for nobody or for many.
        uses: for each element what was done to it, as bits of `ElementUse`.
    """

    def __init__(self, content: LaneVector, errors: LaneVector | None, books: ArrayNotes) -> None:
        size = content.size
        self.owner = np.full(size, _NOBODY, np.int64)
        self.uses = np.zeros(size, np.uint8)
        self.takes = books.takes
        self.stores = Stores(content)
        self.terms: LaneVector | None = None
        if books.sums:
            base = np.zeros(size) if errors is None else errors
            self.terms, self.spread = np.zeros(size), base.copy()
            self.mass = np.abs(content.astype(np.float64)) + base

    def touch(self, index: LaneVector, iterations: LaneVector, use: ElementUse) -> None:
        """Record that lane k, which runs iteration `iterations[k]`, accesses element `index[k]` in the way `use`."""
        before = self.owner[index]
        self.owner[index] = iterations
        # Two lanes of this call met if the write of one was overwritten by the other; earlier calls show in `before`.
        crowd = (self.owner[index] != iterations) | (before != _NOBODY) & (before != iterations)
        if crowd.any():
            self.owner[index[crowd]] = _MANY
        # All lanes of a call set the same bits, so lanes at one element lose nothing.
        self.uses[index] |= np.uint8(use)

    def add(self, index: LaneVector, size: LaneVector, e: LaneVector) -> None:
        """Record that each lane adds a term to one element; `size` bounds its magnitude, and `e` is its error."""
        assert self.terms is not None
        # `np.add.at` counts every lane; `+=` would count several lanes at one element once.
        np.add.at(self.terms, index, 1.0)
        np.add.at(self.mass, index, size + e)
        np.add.at(self.spread, index, e)

    def store(self, index: LaneVector, value: LaneVector, e: LaneVector, content: LaneVector) -> None:
        """Record that each lane has stored a value to an element; `content` holds the new values of the elements."""
        self.stores.note(index, value, e)
        if self.terms is not None:
            # A store replaces everything that was added before.
            e = last_of(index, e)
            self.terms[index], self.spread[index], self.mass[index] = 0.0, e, np.abs(content.astype(np.float64)) + e

    def conflict(self) -> int | None:
        """Return an element whose value, or a read of which, depends on the iteration order; None if there is none."""
        many, stored, read = self.owner == _MANY, self._was(ElementUse.STORED), self._was(ElementUse.READ)
        if self.takes:
            bad = many & stored & read & self.stores.nothing()
        else:
            updated = self._was(ElementUse.UPDATED)
            bad = many & (read & (stored | updated) | stored & (updated | self.stores.differ()))
        return int(np.argmax(bad)) if bad.any() else None

    def _was(self, use: ElementUse) -> LaneVector:
        mask: LaneVector = (self.uses & np.uint8(use)) != 0
        return mask

    def stored(self, content: LaneVector) -> tuple[LaneVector, LaneVector]:
        """Return the elements to which several iterations stored, and their error bounds."""
        shared = np.flatnonzero((self.owner == _MANY) & self._was(ElementUse.STORED) & (not self.takes))
        return shared, self.stores.errors(content, shared)

    def summed(self, u: float, most: float) -> tuple[LaneVector, LaneVector]:
        """Return the elements to which several iterations added, and their error bounds.

        Args:
            u: the unit roundoff of the type of the array.
            most: the greatest finite number of the type.
        """
        shared = np.flatnonzero(self.owner == _MANY)
        if self.terms is None:
            return shared[:0], shared[:0].astype(np.float64)
        spread, mass, roundings = self.spread[shared], self.mass[shared], self.terms[shared] * u
        # Each of two orders lies within g·M of the exact sum, so they differ by at most 2·g·M.
        e = spread + 2 * roundings / np.maximum(1 - roundings, 0.0) * mass
        e = np.where(roundings > 0, e, spread)
        return shared, np.where(mass + e < most, e, INF)


def last_of(index: LaneVector, e: LaneVector) -> LaneVector:
    """Return the error bounds for stored elements; if all lanes store to one element, that of the last lane."""
    return e[-1] if index.ndim == 0 and e.ndim else e
