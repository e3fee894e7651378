"""Which values, locals and temporaries carry a gradient: varied (they depend on an input that has one) and useful
(an output that has one depends on them). A fixed point over the whole kernel, per value, per local, per array.

Integers, booleans, comparisons and casts to integers are never active.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Kernel, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import walk_kernel
from .rules import VJP

Thing = Value | tuple[str, str]
"""A value, ("local", name), ("array", name), ("stack", name): primals, or ("adjoint", name): adjoints of an adstack."""


@dataclass(frozen=True)
class Activity:
    """values, locals: what is active. arrays: arrays and temporaries that have an adjoint."""

    values: frozenset[Value]
    locals: frozenset[str]
    arrays: frozenset[str]

    def operand(self, stmt: n.Op, position: int) -> bool:
        """Whether the adjoint of the result flows into this operand."""
        return stmt.result in self.values and stmt.args[position] in self.values and VJP[stmt.op][position] is not None


def find_activity(kernel: Kernel) -> Activity:
    """Activity of a kernel of stage structured."""
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
    """Everything that depends on these arrays. A derivative ends in arrays that are neither these nor temporaries."""
    carriers = sources | {("array", t.name) for t in kernel.temps}
    edges = [e for stmt in walk_kernel(kernel) for e in flow(stmt) if all(_carries(end, carriers) for end in e)]
    return _closure(sources, edges)


def sources_of(kernel: Kernel, array: str) -> frozenset[str]:
    """Arrays with an adjoint on which what a kernel writes to an array depends, perhaps among them itself. Any stage.

    The content that a sum is added to is none: the kernel leaves it there.
    """
    roots = {("array", a) for a, t in kernel.array_types().items() if t.grad and t.dtype.is_real}
    carriers = roots | {("array", t.name) for t in kernel.temps} | {("array", array)}
    edges = [e for stmt in walk_kernel(kernel) for e in flow(stmt) if all(_carries(end, carriers) for end in e)]
    written = {a for a, b in edges if b == ("array", array)}
    found = _closure(written, [(b, a) for a, b in edges])
    return frozenset(name for _, name in roots if ("array", name) in found)


def _carries(thing: Thing, carriers: set[tuple[str, str]]) -> bool:
    """Arrays without a gradient carry none: a derivative ends where it is stored there."""
    return not isinstance(thing, tuple) or thing[0] != "array" or thing in carriers


def _closure(roots: Iterable[Thing], edges: list[tuple[Thing, Thing]]) -> set[Thing]:
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
    return all(t.is_real for t in types)


def flow(stmt: Stmt) -> list[tuple[Thing, Thing]]:
    """Pairs (from, to) along which derivatives flow through a statement."""
    if isinstance(stmt, n.Op):
        rules = VJP[stmt.op]
        return [(a, stmt.result) for a, rule in zip(stmt.args, rules) if rule and _real(a.type, stmt.result.type)]
    if isinstance(stmt, n.Cast):
        return [(stmt.arg, stmt.result)] if _real(stmt.arg.type, stmt.result.type) else []
    if isinstance(stmt, (n.Get, n.GetElement)):
        return [(("local", stmt.var), stmt.result)] if _real(stmt.result.type) else []
    if isinstance(stmt, (n.Set, n.SetElement)):
        return [(stmt.value, ("local", stmt.var))] if _real(stmt.value.type) else []
    if isinstance(stmt, n.Load):
        return [(("array", stmt.array), stmt.result)] if _real(stmt.result.type) else []
    if isinstance(stmt, n.Store):
        return [(stmt.value, ("array", stmt.array))] if _real(stmt.value.type) else []
    if isinstance(stmt, n.Atomic) and _real(stmt.value.type):
        return [(stmt.value, ("array", stmt.array)), (("array", stmt.array), stmt.result)]
    return _stack_flow(stmt)


def _stack_flow(stmt: Stmt) -> list[tuple[Thing, Thing]]:
    if isinstance(stmt, (n.StackPush, n.StackAccumulate)) and _real(stmt.value.type):
        return [(stmt.value, ("stack" if isinstance(stmt, n.StackPush) else "adjoint", stmt.stack))]
    if isinstance(stmt, (n.StackTop, n.StackTopAdjoint)) and _real(stmt.result.type):
        return [(("stack" if isinstance(stmt, n.StackTop) else "adjoint", stmt.stack), stmt.result)]
    return []
