"""serialise_products(kernel): parallel loops that multiply into shared elements, one point after the other.

The derivative by one factor of a product is the product of all others, which only an order of the factors makes out of
what is at hand: so the gradient of such a loop visits its points in row-major order. The kernel itself stays parallel;
its product is rounded in another order.

Invariant: a task is made serial only if its iterations are independent but for sums, products and extremes whose old
values nobody uses, so that every order means the same.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.nodes import Kernel, Task
from ..ir.walk import used_values, walk
from .own_arrays import own_arrays
from .serialise import serialise

COMMUTING = ("add", "mul", "min", "max")


def serialise_products(kernel: Kernel) -> Kernel:
    """Stage structured to structured. Raises NotDifferentiable, located, if a loop in question draws random numbers."""
    tasks = tuple(_serial(kernel, task) for task in kernel.tasks)
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tasks)


def _serial(kernel: Kernel, task: Task) -> Task:
    product = _shared_product(kernel, task)
    return task if product is None else serialise(kernel, task, product, "the gradient visits")


def _shared_product(kernel: Kernel, task: Task) -> n.Atomic | None:
    """The first product into an element that several iterations may share; None if there is none, or orders differ."""
    if not task.is_parallel or not any(isinstance(s, n.Atomic) and s.op == "mul" for s in walk(task.body)):
        return None
    types, own = kernel.array_types(), own_arrays(task)
    shared = [s for s in walk(task.body) if isinstance(s, (n.Load, n.Store, n.Atomic)) and s.array not in own]
    products = [s for s in shared if isinstance(s, n.Atomic) and s.op == "mul" and types[s.array].grad]
    return products[0] if products and _any_order(task, shared) else None


def _any_order(task: Task, shared: list[n.Load | n.Store | n.Atomic]) -> bool:
    """Whether the iterations do the same in every order: what they share and write, they update in one way."""
    used = used_values(walk(task.body))
    ways: dict[str, set[str]] = {}
    for s in shared:
        commutes = isinstance(s, n.Atomic) and s.op in COMMUTING and s.result not in used
        ways.setdefault(s.array, set()).add(s.op if isinstance(s, n.Atomic) and commutes else type(s).__name__)
    return all(len(way) == 1 and way <= {*COMMUTING, "Load"} for way in ways.values())
