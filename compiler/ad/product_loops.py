"""This module makes parallel loops that multiply into shared elements serial, so that their gradient is defined.

The derivative of a product by one factor is the product of all other factors. The gradient can compute this product
only if the factors have an order. So the gradient of the loop visits its points in row-major order. The kernel itself
stays parallel; its product is rounded in another order.

Invariant: a task is made serial only if its iterations are independent except for sums, products and extremes whose old
values are not used, so that every order of the iterations has the same effect.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.roles import ACCESSES
from ..ir.walk import used_values, walk
from .own_arrays import own_arrays
from .serialize import serialize

COMMUTING = ("add", "mul", "min", "max")


def serialize_products(kernel: Kernel) -> Kernel:
    """Return the kernel (stage structured) in which loops that multiply into shared elements are serial.

    Raises:
        NotDifferentiable: One of these loops draws random numbers.
    """
    tasks = tuple(_serial(kernel, task) for task in kernel.tasks)
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tasks)


def _serial(kernel: Kernel, task: Task) -> Task:
    """Return the task, made serial if its iterations multiply into shared elements."""
    product = _shared_product(kernel, task)
    return task if product is None else serialize(kernel, task, product, "the gradient visits")


def _shared_product(kernel: Kernel, task: Task) -> n.Atomic | None:
    """Return an atomic product on elements that iterations share, or None if the task can stay parallel.

    The result is None if there is no product of this kind, or if another order of the iterations may have another
    result.
    """
    if not task.is_parallel or not any(isinstance(s, n.Atomic) and s.op == "mul" for s in walk(task.body)):
        return None
    types, own = kernel.array_types(), own_arrays(task)
    shared = [s for s in walk(task.body) if isinstance(s, ACCESSES) and s.array not in own]
    products = [s for s in shared if isinstance(s, n.Atomic) and s.op == "mul" and types[s.array].grad]
    return products[0] if products and _any_order(task, shared) else None


def _any_order(task: Task, shared: list[n.Load | n.Store | n.Atomic]) -> bool:
    """Return True if the iterations of the task have the same effect in every order.

    This is so if each array that iterations share is only read, or is updated by one kind of atomic that commutes.
    """
    used = used_values(walk(task.body))
    ways: dict[str, set[str]] = {}
    for s in shared:
        commutes = isinstance(s, n.Atomic) and s.op in COMMUTING and s.result not in used
        ways.setdefault(s.array, set()).add(s.op if isinstance(s, n.Atomic) and commutes else type(s).__name__)
    return all(len(way) == 1 and way <= {*COMMUTING, "Load"} for way in ways.values())
