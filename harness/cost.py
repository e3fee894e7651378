"""What a launch would cost an oracle, found by one run on the reference; and the limits beyond which none is asked.

Oracles execute the forward kernel statement by statement: JAX all iterations in lockstep, at about 170 µs a
statement and 20 ns a statement and lane; dual numbers one iteration after the other, at about 2.5 µs a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ..backends.base import Draws, Scalars
from ..compiler.ir.nodes import Atomic, Kernel, Load, Store, Task, Value
from ..compiler.ir.walk import used_values, walk_task
from ..compiler.passes.affine import Affine, IndexForms, is_own
from ..reference.launch import WIDTH, run
from ..reference.order import Order
from .outcome import Arrays

JAX_STATEMENTS = 10_000
JAX_WORK = 50_000_000
DUAL_WORK = 400_000
"""Limits: statements executed, and statements times lanes. Each is a few seconds; JAX keeps 8 bytes a unit of work."""


@dataclass(frozen=True)
class Cost:
    """statements: executed, once for all lanes that run in lockstep. lanes: of the widest task. serialises: lanes may
    depend on each other, so that lockstep is no legal order and an oracle may have to run them one by one.
    """

    statements: int
    lanes: int
    serialises: bool

    @property
    def work(self) -> int:
        """Statements times lanes."""
        return self.statements * min(self.lanes, WIDTH)

    def jax_refusal(self) -> str | None:
        """Why JAX is not asked, or None."""
        statements = self.work if self.serialises else self.statements
        if statements > JAX_STATEMENTS:
            how = " one lane after the other" if self.serialises else ""
            return f"{statements} statements{how}, JAX is asked up to {JAX_STATEMENTS}"
        if self.work > JAX_WORK:
            return f"{self.statements} statements x {self.lanes} lanes, JAX is asked up to {JAX_WORK}"
        return None

    def dual_refusal(self) -> str | None:
        """Why dual numbers are not asked, or None."""
        work = self.statements * max(1, min(self.lanes, WIDTH))
        return f"{work} steps, dual numbers are asked up to {DUAL_WORK}" if work > DUAL_WORK else None


def measure(kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Cost:
    """Run a kernel of stage tasks on copies and count. Raises what the launch raises."""
    lanes = [1]

    def chunks(total: int, width: int) -> Iterator[tuple[int, int]]:
        lanes.append(total)
        for start in range(0, total, width):
            yield start, min(start + width, total)

    copies = {name: array.copy() for name, array in arrays.items()}
    report = run(kernel, copies, scalars, draws=draws, order=Order("measured", chunks))
    return Cost(report.executed, max(lanes), any(map(may_serialise, kernel.tasks)))


def may_serialise(task: Task) -> bool:
    """Whether lanes of a task may see what others do: by an atomic's old value, or by mixed accesses to one cell."""
    if not task.is_parallel:
        return False
    forms, used = IndexForms(task), used_values(walk_task(task))
    accesses: dict[str, list[_Access]] = {}
    for stmt in walk_task(task):
        if isinstance(stmt, (Load, Store, Atomic)):
            indices = tuple(forms.form(v) for v in stmt.indices)
            kind = stmt.op if isinstance(stmt, Atomic) and stmt.result not in used else type(stmt).__name__
            accesses.setdefault(stmt.array, []).append((kind, indices))
    pairs = (pair for found in accesses.values() for pair in combinations_with_replacement(found, 2))
    return any((a[0] != b[0] or a[0] in _ORDERED) and not lanes_apart(a[1], b[1], task) for a, b in pairs)


_Access = tuple[str, tuple[Affine, ...]]
_ORDERED = ("Store", "Atomic")
"""Kinds of access that do not commute with themselves: stores, and atomics whose old value is used."""


def lanes_apart(a: tuple[Affine, ...], b: tuple[Affine, ...], task: Task) -> bool:
    """Whether the cell of one access in one iteration is surely not that of the other in another iteration.

    Either every axis of the box decides an index alike in both, as in (i, j, 0) and (i, j, k); or some index is the
    same in all iterations and different in the two, as in (s, i) and (s + 1, 0) for an argument s.
    """
    if is_own(tuple(x for x, y in zip(a, b) if x == y), task):
        return True
    return any(
        x.terms == y.terms and x.constant != y.constant and not any(isinstance(s, Value) for s in x.symbols())
        for x, y in zip(a, b)
    )
