"""This module finds the values, locals and arrays of a kernel that are active.

A value is varied if it depends on an input that has a gradient. It is useful if an output that has a gradient depends
on it. It is active if it is both. The two sets are fixed points over the whole kernel, with one entry for each value,
local, array and adstack.

Integers, booleans, comparisons and casts to integers are never active.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.roles import LOCAL_READS, LOCAL_WRITES, STACK_READS
from ..ir.statement import Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import walk_kernel
from .rules import VJP

Thing = Value | tuple[str, str]
"""A thing is a value, or a pair of a kind and a name.

The kinds are "local", "array", "stack" (the primals of an adstack) and "adjoint" (the adjoints of an adstack).
"""


@dataclass(frozen=True)
class Activity:
    """Represent the result of the activity analysis: the active values, locals and arrays of one kernel.

    Attributes:
        values: Active values.
        locals: Names of active locals and local arrays.
        arrays: Names of the arrays with a gradient, and of the temporaries that carry one. Each of them has an adjoint.
    """

    values: frozenset[Value]
    locals: frozenset[str]
    arrays: frozenset[str]

    def operand(self, stmt: n.Op, position: int) -> bool:
        """Return True if the operand at this position gets a share of the adjoint of the result of `stmt`."""
        return stmt.result in self.values and stmt.args[position] in self.values and VJP[stmt.op][position] is not None


def find_activity(kernel: Kernel) -> Activity:
    """Return the active values, locals and arrays of a kernel of stage structured."""
    roots = {("array", a) for a, t in kernel.array_types().items() if t.grad and t.dtype.is_real}
    carriers = roots | {("array", t.name) for t in kernel.temps}
    edges = [e for stmt in walk_kernel(kernel) for e in flow(stmt) if all(_carries(end, carriers) for end in e)]
    varied = _closure(roots, edges)
    useful = _closure(roots, [(b, a) for a, b in edges])
    active = varied & useful
    return Activity(
        frozenset(v for v in active if isinstance(v, Value)),
        frozenset(v[1] for v in active if isinstance(v, tuple) and v[0] == "local"),
        frozenset(v[1] for v in active if isinstance(v, tuple) and v[0] == "array"),
    )


def reached_from(kernel: Kernel, sources: set[tuple[str, str]]) -> set[Thing]:
    """Return all values, locals and arrays to which derivatives flow from the arrays in `sources`.

    A derivative ends at a store to an array that is neither one of these arrays nor a temporary.
    """
    carriers = sources | {("array", t.name) for t in kernel.temps}
    edges = [e for stmt in walk_kernel(kernel) for e in flow(stmt) if all(_carries(end, carriers) for end in e)]
    return _closure(sources, edges)


def sources_of(kernel: Kernel, array: str) -> frozenset[str]:
    """Return the arrays with a gradient on which the values that a kernel writes to `array` depend.

    The result may contain `array` itself. The old value that an atomic adds to does not count, because the kernel
    leaves it in the array. The kernel may be of any stage.
    """
    roots = {("array", a) for a, t in kernel.array_types().items() if t.grad and t.dtype.is_real}
    carriers = roots | {("array", t.name) for t in kernel.temps} | {("array", array)}
    edges = [e for stmt in walk_kernel(kernel) for e in flow(stmt) if all(_carries(end, carriers) for end in e)]
    written = {a for a, b in edges if b == ("array", array)}
    found = _closure(written, [(b, a) for a, b in edges])
    return frozenset(name for _, name in roots if ("array", name) in found)


def _carries(thing: Thing, carriers: set[tuple[str, str]]) -> bool:
    """Return True if derivatives can flow through a value, local or array; an array must be one of the `carriers`."""
    return not isinstance(thing, tuple) or thing[0] != "array" or thing in carriers


def _closure(roots: Iterable[Thing], edges: list[tuple[Thing, Thing]]) -> set[Thing]:
    """Return the nodes of a directed graph that can be reached from the root nodes, including the roots."""
    successors: dict[Thing, list[Thing]] = {}
    for a, b in edges:
        successors.setdefault(a, []).append(b)
    found: set[Thing] = set(roots)
    pending: list[Thing] = list(roots)
    while pending:
        for target in successors.get(pending.pop(), ()):
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


def _real(*types: Scalar) -> bool:
    """Return True if all types are real."""
    return all(t.is_real for t in types)


def flow(stmt: Stmt) -> list[tuple[Thing, Thing]]:
    """Return the (source, target) pairs along which derivatives flow through a statement, without nested blocks."""
    if isinstance(stmt, n.Op):
        rules = VJP[stmt.op]
        return [(a, stmt.result) for a, rule in zip(stmt.args, rules) if rule and _real(a.type, stmt.result.type)]
    if isinstance(stmt, n.Cast):
        return [(stmt.arg, stmt.result)] if _real(stmt.arg.type, stmt.result.type) else []
    if isinstance(stmt, LOCAL_READS):
        return [(("local", stmt.var), stmt.result)] if _real(stmt.result.type) else []
    if isinstance(stmt, LOCAL_WRITES):
        return [(stmt.value, ("local", stmt.var))] if _real(stmt.value.type) else []
    if isinstance(stmt, n.Load):
        return [(("array", stmt.array), stmt.result)] if _real(stmt.result.type) else []
    if isinstance(stmt, n.Store):
        return [(stmt.value, ("array", stmt.array))] if _real(stmt.value.type) else []
    if isinstance(stmt, n.Atomic) and _real(stmt.value.type):
        # An atomic reads the old content and updates it, so derivatives flow both into the array and out of it.
        return [(stmt.value, ("array", stmt.array)), (("array", stmt.array), stmt.result)]
    return _stack_flow(stmt)


def _stack_flow(stmt: Stmt) -> list[tuple[Thing, Thing]]:
    """Return the (source, target) pairs along which derivatives flow through an access to an adstack."""
    if isinstance(stmt, (n.StackPush, n.StackAccumulate)) and _real(stmt.value.type):
        return [(stmt.value, ("stack" if isinstance(stmt, n.StackPush) else "adjoint", stmt.stack))]
    if isinstance(stmt, STACK_READS) and _real(stmt.result.type):
        return [(("stack" if isinstance(stmt, n.StackTop) else "adjoint", stmt.stack), stmt.result)]
    return []
