"""What a launch would cost an oracle, found by one run on the reference; and the limits beyond which none is asked.

Oracles execute the forward kernel statement by statement: JAX all iterations in lockstep, at about 170 µs a
statement and 20 ns a statement and lane; dual numbers one iteration after the other, at about 2.5 µs a statement.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.base import Draws, Scalars
from ..compiler.ad.driver import own_arrays
from ..compiler.ir.nodes import Atomic, Kernel, Load, Store, Task
from ..compiler.ir.walk import used_values, walk_task
from ..reference.launch import WIDTH, run
from ..reference.order import Order
from .outcome import Arrays

JAX_STATEMENTS = 20_000
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
    """Whether lanes of a task may see what others do: by an atomic's old value, or by mixed accesses to one array."""
    if not task.is_parallel:
        return False
    own, used = own_arrays(task), used_values(walk_task(task))
    kinds: dict[str, set[str]] = {}
    for stmt in walk_task(task):
        if isinstance(stmt, Atomic):
            if stmt.result in used:
                return True
            kinds.setdefault(stmt.array, set()).add(stmt.op)
        elif isinstance(stmt, (Load, Store)):
            kinds.setdefault(stmt.array, set()).add(type(stmt).__name__)
    return any(len(found) > 1 for array, found in kinds.items() if array not in own)
