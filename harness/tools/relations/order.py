"""Check the relation that a kernel whose parallel loops run in reverse order gives the same results.

    parallel i in b .. e { B }    →    parallel i in b .. e { i' = b + (e - 1 - i); B with i' }

On the reference the halves of each task run in the opposite order too. Kernels whose iterations see what other
iterations leave are not checked. In kernels that draw random numbers only the order changes, because a number belongs
to its iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.statement import Value
from ....compiler.ir.walk import next_id, rename_block, used_values, walk, walk_kernel
from ....compiler.passes.split_tasks import PORTABLE
from ....reference.backend import ReferenceBackend
from ....reference.order import ChunkRange, Order
from ..fuzz.reference_run import FUEL
from ..fuzz.result import JudgedComparison
from .chain import LaunchChain, RelationExecutor
from .kernels import BlockCopier, contains_statements
from .pairs import ChainPair


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdicts on a kernel against the same kernel with reversed parallel loops.

    Args:
        chain: A chain of the kernel.
        on: The executor that is checked.
        draw: Not used, because there is only one reversed order.
        forward: True to compare values too.
    """
    if not any(task.is_parallel for task in chain.kernel.tasks) or sees_order(chain.kernel):
        return
    if on.name == "reference":
        there = replace(on, backend=ReferenceBackend(HALVES, FUEL))
        yield from ChainPair("permuted", chain, chain).compare(on, forward, there)
    kernel = reverse_order(chain.kernel)
    if kernel is not None:
        yield from ChainPair("permuted", chain, chain.of(kernel)).compare(on, forward)


def sees_order(kernel: Kernel) -> bool:
    """Return True if some result may depend on the order of iterations, through the old value of an atomic."""
    used = used_values(walk_kernel(kernel))
    atomics = (s for task in kernel.tasks if task.is_parallel for s in walk(task.body) if isinstance(s, n.Atomic))
    return any(s.result in used or s.op in ("exchange", "cas") for s in atomics)


def _halves(total: int, width: int) -> Iterator[ChunkRange]:
    middle = total // 2
    for begin, end in ((middle, total), (0, middle)):
        for start in range(begin, end, width):
            yield start, min(start + width, end)


HALVES = Order("halves", _halves)
"""Order that runs the second half of the iterations before the first half."""


def reverse_order(kernel: Kernel) -> Kernel | None:
    """Return the kernel with parallel tasks run from last to first index; None if draws or loaded bounds forbid it.

    The result is None if iterations draw random numbers, or a bound is read from memory.
    """
    if contains_statements(kernel, n.Random):
        return None
    bounds = [stmt for task in kernel.tasks for stmt in walk(task.bounds)]
    if not all(isinstance(stmt, PORTABLE) for stmt in bounds):
        return None
    tasks = []
    number = next_id(kernel)
    for task in kernel.tasks:
        made, number = _mirrored(kernel, task, number)
        tasks.append(made)
    return replace(kernel, tasks=tuple(tasks))


def _mirrored(kernel: Kernel, task: Task, number: int) -> tuple[Task, int]:
    """Return a task that runs its iterations from the last index to the first, and the next free value number."""
    copies = BlockCopier(kernel)
    copies.next_id = number
    known: dict[Value, Value] = {}
    # The bounds are not visible in the body, so the body computes them again.
    again = copies.copy(task.bounds, known)
    b = Builder(copies.next_id)
    b.loc = task.loc
    swapped: dict[Value, Value] = {}
    for index, begin, end in zip(task.indices, task.begin, task.end):
        last = b.op("sub", known.get(end, end), b.const(1, end.type))
        swapped[index] = b.op("add", known.get(begin, begin), b.op("sub", last, index))
    return replace(task, body=(*again, *b.take(), *rename_block(task.body, swapped))), b.next_id
