"""What reverse mode refuses, each with line, reason and cure: never a silently wrong gradient."""
from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping

from ..errors import Diagnostic, NotDifferentiable
from ..ir import nodes as n
from ..ir.nodes import Kernel, Value
from ..ir.types import ArrayType
from ..ir.walk import used_values, walk_kernel, walk_task
from .activity import Activity
from .risk import Risk, RiskAnalysis

HAND_CALLED = (
    "take the gradient under sg.ad.Tape, which keeps what the kernel overwrites; or store to another field:"
    " a gradient called by hand is taken with memory as the kernel left it"
)

OTHER_WAYS = {
    "mul": "multiply into a field that the loop neither reads nor writes otherwise, or make the loop serial",
    "exchange": "make the loop serial, where a store does the same",
    "cas": "make the loop serial, where an `if` and a store do the same",
}
"""What to do instead of an atomic without derivative, by its operation."""


def check_kernel(kernel: Kernel, activity: Activity, risks: RiskAnalysis) -> None:
    """Refuse what no transform can do. Stage structured."""
    wrong = [*_adjoint_clashes(kernel), *_atomics(kernel, activity, risks)]
    if wrong:
        raise NotDifferentiable(wrong)


class StateOverwritten(NotDifferentiable):
    """The gradient reads what the kernel overwrites. found: each such load, and what there is to say of it."""

    def __init__(self, found: list[tuple[Risk, Diagnostic]]) -> None:
        super().__init__(list(dict.fromkeys(diagnostic for _, diagnostic in found)))
        self.found = found


def check_state(
    grad: Kernel, forward: Kernel, at_risk: Mapping[Value, Risk], copies: Collection[str], cured: Container[Risk]
) -> None:
    """Refuse a grad kernel that still reads elements that the forward kernel overwrites. Run after dead code.

    copies: arrays that hold what the forward sweep of the grad kernel has made of the state before the launch; cured:
    risks of which they take care. What is read there decides what is stored there, so all reads of them count.
    """
    found: list[tuple[Risk, Diagnostic]] = []
    used = used_values(walk_kernel(grad)) if copies else set()
    for stmt in walk_kernel(grad):
        if isinstance(stmt, n.Load) or isinstance(stmt, n.Atomic) and stmt.result in used:
            risk = at_risk.get(stmt.result)
            if risk and not (stmt.array in copies and risk in cured):
                found.append((risk, _overwritten(forward, risk)))
    if found:
        raise StateOverwritten(found)


def _overwritten(kernel: Kernel, risk: Risk) -> Diagnostic:
    where = kernel.span(risk.write.loc)
    place = f" (line {where.line})" if where else ""
    name = risk.load.array.lstrip("$")
    if risk.distance:
        apart = risk.distance[0] if len(risk.distance) == 1 else risk.distance
        reason = (
            f"iteration i of this parallel loop reads the element of '{name}' that iteration i + {apart} writes{place}:"
            " the iterations are not independent"
        )
        cure = "make the loop serial (an inner loop), or write to another field"
    elif risk.load.result == getattr(risk.write, "result", None):
        reason = f"the gradient needs what this atomic on '{name}' returned, which is not kept"
        cure = "store what it returned to a field, and use that in a kernel of its own"
    elif risk.across:
        reason = (
            f"the gradient needs the value of '{name}' read here, which another iteration of this parallel loop may"
            f" overwrite{place}: nothing says that they touch different elements"
        )
        cure = "keep the value in a local instead of reading it back, or store to another field"
    else:
        reason = f"the gradient needs the value of '{name}' read here, which the kernel may overwrite later{place}"
        cure = HAND_CALLED
    return Diagnostic(reason, cure, kernel.span(risk.load.loc))


def _adjoint_clashes(kernel: Kernel) -> Iterator[Diagnostic]:
    """A kernel that handles x.grad itself cannot also have it updated by its own reverse."""
    own = {f"{p.name}.grad" for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad}
    for stmt in walk_kernel(kernel):
        array = getattr(stmt, "array", "")
        if array in own:
            yield Diagnostic(f"'{array}' is used in a kernel that is differentiated with respect to '{array[:-5]}'",
                             "copy the gradient to a field without gradient first", kernel.span(stmt.loc))  # fmt: skip


def _atomics(kernel: Kernel, activity: Activity, risks: RiskAnalysis) -> Iterator[Diagnostic]:
    used = used_values(walk_kernel(kernel))
    for t, task in enumerate(kernel.tasks):
        for stmt in walk_task(task):
            if not isinstance(stmt, n.Atomic) or stmt.array not in activity.arrays:
                continue
            span = kernel.span(stmt.loc)
            if stmt.result in used and stmt.result in activity.values:
                yield Diagnostic(f"the old value that this atomic on '{stmt.array}' returns depends on the order"
                                 " of iterations", "do not use it, or make the loop serial", span)  # fmt: skip
            elif stmt.op in ("min", "max"):
                yield from _unclear_winner(kernel, stmt, risks.final_value_risk(stmt, t), "written")
                yield from _unclear_winner(kernel, stmt, risks.read_between(stmt, t, activity.values), "read")
            elif stmt.op != "add":
                name = stmt.array.lstrip("$")
                yield Diagnostic(f"the gradient of an atomic {stmt.op} needs the values it overwrote in '{name}'",
                                 f"use a local and store it once, or {OTHER_WAYS[stmt.op]}", span)  # fmt: skip


def _unclear_winner(kernel: Kernel, atomic: n.Atomic, other: n.Stmt | None, access: str) -> Iterator[Diagnostic]:
    """The winner is who holds the final value: not if something else changes it, or uses what it was before."""
    if other is not None:
        where = kernel.span(other.loc)
        line = f" (line {where.line})" if where else ""
        yield Diagnostic(f"'{atomic.array.lstrip('$')}' is {access} again after this atomic {atomic.op}{line},"
                         " so who won cannot be told", "keep the result of the atomic in a field of its own that a"
                         " later loop reads", kernel.span(atomic.loc))  # fmt: skip
