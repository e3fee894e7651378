"""Check the relation that a kernel of several tasks, split into two kernels, keeps its values and gradient.

    kernel { A; B }    →    kernel { A }, kernel { B }

Temporaries that A hands to B become arrays of no axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel, Param, Task, Temp
from ....compiler.ir.types import ArrayType, adjoint_type
from ....compiler.ir.walk import walk, walk_task
from ...testing.launch import GRAD
from ..fuzz.result import JudgedComparison
from .chain import LaunchChain, RelationExecutor
from .kernels import contains_statements
from .pairs import ChainPair


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdicts that compare a kernel with its two parts, launched one after the other.

    Args:
        chain: A chain of the kernel.
        on: The executor that is checked.
        draw: Number that selects the task after which the kernel is split.
        forward: True to compare values too.
    """
    halves = split(chain.made[0].plain.kernel, draw)
    if halves is None:
        return
    kernels, crossing = halves
    zeros = {t.name: np.zeros((), t.dtype.dtype) for t in crossing}
    reals = [t for t in crossing if t.dtype.is_real] if chain.seeds else []
    seeds = {t.name + GRAD: np.zeros((), adjoint_type(t.dtype).dtype) for t in reals}
    other = chain.of(*kernels, initial={**chain.initial, **zeros}, seeds={**chain.seeds, **seeds})
    yield from ChainPair("kernel-split", chain, other).compare(on, forward, bits=on.name == "reference")


def split(kernel: Kernel, draw: int) -> tuple[tuple[Kernel, Kernel], tuple[Temp, ...]] | None:
    """Split a kernel after one of its tasks. Return both parts and the temporaries that became arrays.

    The result is None if there is only one task, or if the place of a task in its kernel has a meaning: for its random
    numbers, or for the tasks that a `return` skips.
    """
    if len(kernel.tasks) < 2 or contains_statements(kernel, n.Random):
        return None
    at = 1 + draw % (len(kernel.tasks) - 1)
    first, second = kernel.tasks[:at], kernel.tasks[at:]
    if any(isinstance(s, n.Return) for task in first if not task.is_parallel for s in walk(task.body)):
        return None
    crossing = tuple(t for t in kernel.temps if t.name in _touched(first) & _touched(second))
    arrays = tuple(Param(t.name, ArrayType(t.dtype, 0, t.dtype.is_real)) for t in crossing)
    made = [
        replace(
            kernel,
            name=f"{kernel.name}_{number}",
            params=kernel.params + arrays,
            tasks=tasks,
            temps=tuple(t for t in kernel.temps if t not in crossing and t.name in _touched(tasks)),
        )
        for number, tasks in enumerate((first, second))
    ]
    return (made[0], made[1]), crossing


def _touched(tasks: tuple[Task, ...]) -> set[str]:
    kinds = n.Load | n.Store | n.Atomic
    return {s.array for task in tasks for s in walk_task(task) if isinstance(s, kinds)}
