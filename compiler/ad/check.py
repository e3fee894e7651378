"""What reverse mode refuses, each with line, reason and cure: never a silently wrong gradient."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace

from ..errors import Diagnostic, NotDifferentiable
from ..ir import nodes as n
from ..ir.nodes import Kernel, Value
from ..ir.types import ArrayType
from ..ir.walk import used_values, walk_kernel, walk_task
from .activity import Activity
from .marks import HAND_CALLED, Claim
from .risk import HITS, NO, Pair, Risk, RiskAnalysis

ORDERED = "take the gradient under sg.ad.Tape, which knows the order that the launch took"
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
    grad: Kernel,
    forward: Kernel,
    at_risk: Mapping[Value, Risk],
    copies: Collection[str],
    cured: Container[Risk],
    taped: bool,
) -> list[Claim]:
    """Refuse a grad kernel that still reads elements that the forward kernel overwrites. Run after dead code.

    copies: arrays that hold what the forward sweep of the grad kernel has made of the state before the launch; cured:
    risks of which they take care. What is read there decides what is stored there, so all reads of them count. taped:
    copies can be had, which are better than a launch that may be refused. Gives the pairs that a launch must clear.
    """
    found: list[tuple[Risk, Diagnostic]] = []
    claims: list[Claim] = []
    used = used_values(walk_kernel(grad)) if copies else set()
    for stmt in walk_kernel(grad):
        if not isinstance(stmt, (n.Load, n.Atomic)) or isinstance(stmt, n.Atomic) and stmt.result not in used:
            continue
        risk = at_risk.get(stmt.result)
        if risk is None:
            continue
        if stmt.array in copies and risk in cured:
            claims += (Claim(p, inside=False, across=True) for p in risk.pairs if p.across)
        elif fatal := _fatal(risk, taped):
            found.append((risk, _overwritten(forward, fatal, risk.returned)))
        else:
            claims += (Claim(p, bool(p.inside), p.across) for p in risk.pairs)
    if found:
        raise StateOverwritten(found)
    return claims


def _fatal(risk: Risk, taped: bool) -> Pair | None:
    """The pair of a load that no marks can clear, or that copies do better."""
    return next((p for p in risk.pairs if p.distance or p.inside == HITS or p.inside and taped), None)


def find_dependences(
    kernel: Kernel, activity: Activity, risks: RiskAnalysis, at_risk: Mapping[Value, Risk]
) -> list[Claim]:
    """Where iterations of a parallel loop may exchange what carries a gradient: refused if they surely do.

    Whether the gradient needs a value or not: the order of iterations decides what was read. Gives the pairs that a
    launch must clear.
    """
    pairs = [p for v in activity.values if v in at_risk for p in at_risk[v].pairs if not at_risk[v].returned]
    sure = [p for p in (*pairs, *risks.races(activity.values)) if p.distance]
    if sure:
        raise NotDifferentiable(list(dict.fromkeys(_overwritten(kernel, p, False) for p in sure)))
    return [Claim(p, inside=False, across=True) for p in pairs if p.across]


def refuse_claims(kernel: Kernel, claims: list[Claim]) -> NotDifferentiable:
    """What no marks can clear, as the indices are overwritten too. Where a copy cures the rest, that is not told."""
    pairs = [c.pair if c.inside or not c.across else replace(c.pair, inside=NO) for c in claims]
    return NotDifferentiable(list(dict.fromkeys(_overwritten(kernel, p, False) for p in pairs)))


def _overwritten(kernel: Kernel, pair: Pair, returned: bool) -> Diagnostic:
    where = kernel.span(pair.write.loc)
    place = f" (line {where.line})" if where else ""
    name = pair.access.array.lstrip("$")
    if pair.distance:
        does = "reads" if isinstance(pair.access, n.Load) else "writes"
        reason = (
            f"iteration i of this parallel loop {does} the element of '{name}' that iteration {_other(pair.distance)}"
            f" writes{place}: the iterations are not independent"
        )
        cure = "make the loop serial (an inner loop), or write to another field"
    elif returned:
        reason = f"the gradient needs what this atomic on '{name}' returned, which is not kept"
        cure = f"{ORDERED}; or store what it returned to a field, and use that in a kernel of its own"
    elif pair.across and pair.inside != HITS:
        reason = (
            f"the gradient needs the value of '{name}' read here, which another iteration of this parallel loop may"
            f" overwrite{place}: nothing says that they touch different elements"
        )
        cure = (
            "keep the value in a local instead of reading it back, store to another field, or say"
            " j = sg.assume_unique(j) of an index that no two iterations share"
        )
    else:
        reason = f"the gradient needs the value of '{name}' read here, which the kernel may overwrite later{place}"
        cure = HAND_CALLED
    return Diagnostic(reason, cure, kernel.span(pair.access.loc))


def _other(distance: tuple[int, ...]) -> str:
    """The iteration at a distance from iteration i, by its index or indices."""
    if len(distance) == 1:
        return f"i {'-' if distance[0] < 0 else '+'} {abs(distance[0])}"
    return f"i + {distance}"


def _adjoint_clashes(kernel: Kernel) -> Iterator[Diagnostic]:
    """A kernel that handles x.grad itself cannot also have it updated by its own reverse."""
    own = {f"{p.name}.grad" for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad}
    for stmt in walk_kernel(kernel):
        array = getattr(stmt, "array", "")
        if array in own:
            yield Diagnostic(
                f"'{array}' is used in a kernel that is differentiated with respect to '{array[:-5]}'",
                "copy the gradient to a field without gradient first",
                kernel.span(stmt.loc),
            )


def _atomics(kernel: Kernel, activity: Activity, risks: RiskAnalysis) -> Iterator[Diagnostic]:
    used = used_values(walk_kernel(kernel))
    for t, task in enumerate(kernel.tasks):
        for stmt in walk_task(task):
            if not isinstance(stmt, n.Atomic) or stmt.array not in activity.arrays:
                continue
            span = kernel.span(stmt.loc)
            if stmt.result in used and stmt.result in activity.values:
                yield Diagnostic(
                    f"the old value that this atomic on '{stmt.array}' returns depends on the order of iterations",
                    f"{ORDERED}; or make the loop serial",
                    span,
                )
            elif stmt.op in ("min", "max"):
                yield from _unclear_winner(kernel, stmt, risks.final_value_risk(stmt, t), "written")
                yield from _unclear_winner(kernel, stmt, risks.read_between(stmt, t, activity.values), "read")
            elif stmt.op != "add":
                name = stmt.array.lstrip("$")
                yield Diagnostic(
                    f"the gradient of an atomic {stmt.op} needs the values it overwrote in '{name}'",
                    f"{ORDERED}; or {OTHER_WAYS[stmt.op]}",
                    span,
                )


def _unclear_winner(kernel: Kernel, atomic: n.Atomic, other: n.Stmt | None, access: str) -> Iterator[Diagnostic]:
    """The winner is who holds the final value: not if something else changes it, or uses what it was before."""
    if other is not None:
        where = kernel.span(other.loc)
        line = f" (line {where.line})" if where else ""
        yield Diagnostic(
            f"'{atomic.array.lstrip('$')}' is {access} again after this atomic {atomic.op}{line},"
            " so who won cannot be told",
            (f"{ORDERED}; or " if access == "written" else "")
            + "keep the result of the atomic in a field of its own that a later loop reads",
            kernel.span(atomic.loc),
        )
