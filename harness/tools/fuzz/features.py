"""Measure features of a case: the loops in its kernel's text, their trip counts, and its gradient's adstacks."""

from __future__ import annotations

from ....backends.base import Sizes
from ....backends.launching.launcher import Launcher
from ....compiler.ad.activity import reached_from
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.nodes import Atomic, Load
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import Scalar, adjoint_type, f16
from ....compiler.ir.walk import results, walk_kernel
from ...testing.launch import GRAD


def loop_nest(kernel: Kernel) -> int:
    """Return the depth of the deepest nest of serial loops."""
    return max((_nest(task.body) for task in kernel.tasks), default=0)


def _nest(block: Block) -> int:
    return max((_depth(stmt) for stmt in block), default=0)


def _depth(stmt: Stmt) -> int:
    inner = max((_nest(getattr(stmt, name)) for name, role in n.ROLES[type(stmt)] if role == "block"), default=0)
    return inner + isinstance(stmt, n.For | n.While)


def statements(kernel: Kernel) -> int:
    """Return the number of statements of a kernel."""
    return sum(1 for _ in walk_kernel(kernel))


def tags(kernel: Kernel) -> frozenset[str]:
    """Return the features that occur in a kernel; coverage counts the cases of each feature.

    Examples are `statement While`, `atomic add`, `sin f32` (an operation and its operands' type) and `loop step`.
    """
    found = {f"tasks {'many' if len(kernel.tasks) > 1 else 'one'}"}
    for task in kernel.tasks:
        found.add("task serial" if not task.is_parallel else f"task axes {len(task.indices)}")
    for stmt in walk_kernel(kernel):
        found.add(f"statement {type(stmt).__name__}")
        found |= _tags(stmt)
    return frozenset(found)


def _tags(stmt: Stmt) -> set[str]:
    if isinstance(stmt, n.Op):
        return {f"{stmt.op} {stmt.args[-1].type}"}
    if isinstance(stmt, n.Cast):
        return {f"cast {stmt.arg.type} {stmt.result.type}"}
    if isinstance(stmt, n.Atomic):
        return {f"atomic {stmt.op}"}
    if isinstance(stmt, n.For):
        nest = "loop nested" if _nest(stmt.body) else "loop flat"
        return {nest, *({"loop step"} if stmt.step != 1 else ()), *({"loop until"} if stmt.stop else ())}
    return {"gate"} if isinstance(stmt, n.If) and not stmt.orelse else set()


def real_types(kernel: Kernel) -> set[Scalar]:
    """Return the types of the reals that a kernel computes with."""
    return {v.type for stmt in walk_kernel(kernel) for v in results(stmt) if v.type.is_real}


def wrong_types(kernel: Kernel, gradient: Kernel) -> str:
    """Return a text that lists real types which a grad kernel should not have, or "" if there are none.

    An adjoint has the type of its value, or f32 for a value in f16. No value that depends on an adjoint array may be
    f16.
    """
    known = real_types(kernel)
    added = real_types(gradient) - known - {adjoint_type(dtype) for dtype in known}
    if added:
        return f"values of type {', '.join(sorted(map(str, added)))} that the kernel does not have"
    adjoints = {s.array for s in walk_kernel(gradient) if isinstance(s, Load | Atomic) and s.array.endswith(GRAD)}
    reached = reached_from(gradient, {("array", name) for name in adjoints})
    halves = sorted(v.id for v in reached if isinstance(v, Value) and v.type == f16)
    return f"the adjoint %{halves[0]} is in half precision" if halves else ""


def sizes_of(launcher: Launcher) -> Sizes:
    """Return the capacities of the adstacks of the last launch."""
    return Sizes({s.name: s.capacity for use in launcher.usage() for s in use.stacks})
