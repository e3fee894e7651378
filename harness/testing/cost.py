"""This module estimates the cost of a launch on an oracle, and defines limits above which oracles are not run.

The cost is found by one run on the reference. Oracles execute the forward kernel statement by statement. JAX executes
all iterations in lockstep, at about 170 µs per statement and 20 ns per statement and lane. Dual numbers execute one
iteration after the other, at about 2.5 µs per statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ...backends.base import Draws, Scalars
from ...compiler.analysis.affine import Affine, IndexForms, is_own
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.nodes import Atomic
from ...compiler.ir.roles import ACCESSES
from ...compiler.ir.statement import Value
from ...compiler.ir.walk import used_values, walk_task
from ...reference.launch import WIDTH, run
from ...reference.order import Order
from .outcome import Arrays

JAX_STATEMENTS = 10_000
JAX_WORK = 50_000_000
DUAL_WORK = 400_000
"""Limits on executed statements (JAX_STATEMENTS) and on statements times lanes (the other two).

Each limit amounts to a few seconds. JAX keeps 8 bytes for each unit of work.
"""


@dataclass(frozen=True)
class LaunchCost:
    """A `LaunchCost` holds the number of statements and lanes that a launch executes.

    Attributes:
        statements: the number of executed statements; a statement counts once for all lanes that run in lockstep.
        lanes: the number of iterations of the widest task.
        serializes: True if lanes may depend on each other. Then lockstep is no legal order, and an oracle may have to
            run the lanes one by one.
    """

    statements: int
    lanes: int
    serializes: bool

    @property
    def work(self) -> int:
        """Return the work of the launch: the number of statements times the number of lanes."""
        return self.statements * min(self.lanes, WIDTH)

    def jax_refusal(self) -> str | None:
        """Return the reason why the launch is too costly for the JAX oracle, or None if the launch is cheap enough."""
        statements = self.work if self.serializes else self.statements
        if statements > JAX_STATEMENTS:
            how = " one lane after the other" if self.serializes else ""
            return f"{statements} statements{how}, JAX is asked up to {JAX_STATEMENTS}"
        if self.work > JAX_WORK:
            return f"{self.statements} statements x {self.lanes} lanes, JAX is asked up to {JAX_WORK}"
        return None

    def dual_refusal(self) -> str | None:
        """Return the reason why the launch is too costly for the dual-number oracle, or None if it is cheap enough."""
        work = self.statements * max(1, min(self.lanes, WIDTH))
        return f"{work} steps, dual numbers are asked up to {DUAL_WORK}" if work > DUAL_WORK else None


def measure_cost(kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> LaunchCost:
    """Run a kernel of stage `tasks` on copies of the arrays and count its statements and lanes.

    Raises:
        StackgradError: the launch failed.
    """
    lanes = [1]

    def chunks(total: int, width: int) -> Iterator[tuple[int, int]]:
        # The interpreter asks an order about every parallel task, so the largest task is seen.
        lanes.append(total)
        for start in range(0, total, width):
            yield start, min(start + width, total)

    copies = {name: array.copy() for name, array in arrays.items()}
    report = run(kernel, copies, scalars, draws=draws, order=Order("measured", chunks))
    return LaunchCost(report.executed, max(lanes), any(map(may_serialize, kernel.tasks)))


def may_serialize(task: Task) -> bool:
    """Return True if an iteration of the task may depend on effects of another iteration.

    This can happen through the old value of an atomic, or through accesses of different kinds to one element.
    """
    if not task.is_parallel:
        return False
    forms, used = IndexForms(task), used_values(walk_task(task))
    accesses: dict[str, list[_Access]] = {}
    for stmt in walk_task(task):
        if isinstance(stmt, ACCESSES):
            indices = tuple(forms.form(v) for v in stmt.indices)
            kind = stmt.op if isinstance(stmt, Atomic) and stmt.result not in used else type(stmt).__name__
            accesses.setdefault(stmt.array, []).append((kind, indices))
    pairs = (pair for found in accesses.values() for pair in combinations_with_replacement(found, 2))
    return any((a[0] != b[0] or a[0] in _ORDERED) and not lanes_apart(a[1], b[1], task) for a, b in pairs)


_Access = tuple[str, tuple[Affine, ...]]
_ORDERED = ("Store", "Atomic")
"""Kinds of access that do not commute with themselves: stores, and atomics whose old value is used."""


def lanes_apart(a: tuple[Affine, ...], b: tuple[Affine, ...], task: Task) -> bool:
    """Return True if two accesses certainly touch different elements whenever different iterations make them.

    Either every axis of the box decides an index in the same way in both accesses, as in (i, j, 0) and (i, j, k). Or
    some index is the same in all iterations and differs between the accesses, as in (s, i) and (s + 1, 0) for an
    argument s.

    Args:
        a: the index forms of the first access.
        b: the index forms of the second access.
        task: the parallel task of both.
    """
    if is_own(tuple(x for x, y in zip(a, b) if x == y), task):
        return True
    return any(
        x.terms == y.terms and x.constant != y.constant and not any(isinstance(s, Value) for s in x.symbols())
        for x, y in zip(a, b)
    )
