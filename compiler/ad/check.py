"""This module raises the errors for kernels that reverse mode cannot differentiate, with line, reason and cure.

These checks make sure that a gradient is never silently wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace

from ..errors import Diagnostic, NotDifferentiable
from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.names import shown_name
from ..ir.roles import ARRAY_READS
from ..ir.statement import Stmt, Value
from ..ir.walk import used_values, walk_kernel, walk_task
from .activity import Activity
from .conflicts import HAND_CALLED
from .marks import MarkedPair
from .risk import HITS, NO, Risk, RiskAnalysis, RiskPair

ORDERED = "take the gradient under sg.ad.Tape, which knows the order that the launch took"
OTHER_WAYS = {
    "mul": "multiply into a field that the loop neither reads nor writes otherwise, or make the loop serial",
    "exchange": "make the loop serial, where a store does the same",
    "cas": "make the loop serial, where an `if` and a store do the same",
}
"""Cure for an atomic that has no derivative, by the operation of the atomic."""


def check_kernel(kernel: Kernel, activity: Activity, risks: RiskAnalysis) -> None:
    """Raise NotDifferentiable for atomics that reverse mode cannot differentiate."""
    wrong = list(_atomics(kernel, activity, risks))
    if wrong:
        raise NotDifferentiable(wrong)


def check_state(
    grad: Kernel,
    forward: Kernel,
    at_risk: Mapping[Value, Risk],
    copies: Collection[str],
    cured: Container[Risk],
    taped: bool,
) -> list[MarkedPair]:
    """Return the access pairs that a marking kernel must check so that `grad` reads the values which `forward` read.

    Raise StateOverwritten if `grad` surely reads an element that `forward` overwrites.

    Args:
        grad: The grad kernel after removal of dead code.
        forward: The kernel that `grad` was made of.
        at_risk: The risks of loads, by the result of the load.
        copies: Names of the arrays that hold copies of the state before the launch.
        cured: Risks that copies remove.
        taped: True if copies are possible. They are better than marks, which may refuse a launch.
    """
    lost = list(lost_reads(grad, at_risk, copies, cured, taped))
    if lost:
        # Copies that this grad kernel does not have serve some of the reads; the others are the reason.
        reasons = [(risk, pair) for risk, pair in lost if not (taped and risk in cured)] or lost
        found = (_overwritten(forward, pair, risk.returned) for risk, pair in reasons)
        raise NotDifferentiable(list(dict.fromkeys(found)))
    return [
        MarkedPair(p, inside=False, across=True) if served else MarkedPair(p, bool(p.inside), p.across)
        for risk, served in _reads_at_risk(grad, at_risk, copies, cured)
        for p in risk.pairs
        if p.across or not served
    ]


def lost_reads(
    grad: Kernel, at_risk: Mapping[Value, Risk], copies: Collection[str], cured: Container[Risk], taped: bool
) -> Iterator[tuple[Risk, RiskPair]]:
    """Yield each load at risk that makes the gradient wrong and that no check at run time can allow, with the cause.

    Args: as for `check_state`.
    """
    for risk, served in _reads_at_risk(grad, at_risk, copies, cured):
        fatal = None if served else _fatal(risk, taped)
        if fatal:
            yield risk, fatal


def _reads_at_risk(
    grad: Kernel, at_risk: Mapping[Value, Risk], copies: Collection[str], cured: Container[Risk]
) -> Iterator[tuple[Risk, bool]]:
    """Yield each load at risk in a grad kernel, and True if a copy of the array still holds the value that was read."""
    # A load that only decides what is stored to a copy counts too. An atomic counts if something uses its result.
    used = used_values(walk_kernel(grad)) if copies else set()
    for stmt in walk_kernel(grad):
        if not isinstance(stmt, ARRAY_READS) or isinstance(stmt, n.Atomic) and stmt.result not in used:
            continue
        risk = at_risk.get(stmt.result)
        if risk is not None:
            yield risk, stmt.array in copies and risk in cured


def _fatal(risk: Risk, taped: bool) -> RiskPair | None:
    """Return the first pair of a load and a write that surely makes the gradient wrong, or None if marks can decide."""
    return next((p for p in risk.pairs if p.distance or p.inside == HITS or p.inside and taped), None)


def find_dependences(
    kernel: Kernel, activity: Activity, risks: RiskAnalysis, at_risk: Mapping[Value, Risk]
) -> list[MarkedPair]:
    """Return the access pairs by which iterations may exchange active values, which marks must check at run time.

    The marking kernel must find no conflict of these pairs, even if the gradient does not need the values: in a
    conflict, the order of iterations decides which value was read.

    Args:
        kernel: The kernel, of stage structured.
        activity: The activity of the kernel.
        risks: The risk analysis of the kernel.
        at_risk: The risks that `risks` found, by the result of the load.

    Returns:
        A `MarkedPair` for each pair whose accesses may touch one element in different iterations.

    Raises:
        NotDifferentiable: Two iterations surely exchange such a value.
    """
    pairs = [p for v in activity.values if v in at_risk for p in at_risk[v].pairs if not at_risk[v].returned]
    sure = [p for p in (*pairs, *risks.races(activity.values)) if p.distance]
    if sure:
        raise NotDifferentiable(list(dict.fromkeys(_overwritten(kernel, p, False) for p in sure)))
    return [MarkedPair(p, inside=False, across=True) for p in pairs if p.across]


def refuse_claims(kernel: Kernel, claims: list[MarkedPair]) -> NotDifferentiable:
    """Return the error for access pairs that marks cannot check because their indices are overwritten too.

    If a copy made before the launch keeps the values that the same iteration overwrites, the message speaks of other
    iterations only.
    """
    pairs = [c.pair if c.inside or not c.across else replace(c.pair, inside=NO) for c in claims]
    return NotDifferentiable(list(dict.fromkeys(_overwritten(kernel, p, False) for p in pairs)))


def _overwritten(kernel: Kernel, pair: RiskPair, returned: bool) -> Diagnostic:
    """Return the error for an access pair whose element is overwritten; it names the write and the reason."""
    where = kernel.span(pair.write.loc)
    place = f" (line {where.line})" if where else ""
    name = shown_name(pair.access.array)
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
    """Return a text such as "i + 2" that names the iteration at this distance from iteration i."""
    if len(distance) == 1:
        return f"i {'-' if distance[0] < 0 else '+'} {abs(distance[0])}"
    return f"i + {distance}"


def _atomics(kernel: Kernel, activity: Activity, risks: RiskAnalysis) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each atomic whose derivative needs overwritten values or an unknown order."""
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
                name = shown_name(stmt.array)
                yield Diagnostic(
                    f"the gradient of an atomic {stmt.op} needs the values it overwrote in '{name}'",
                    f"{ORDERED}; or {OTHER_WAYS[stmt.op]}",
                    span,
                )


def _unclear_winner(kernel: Kernel, atomic: n.Atomic, other: Stmt | None, access: str) -> Iterator[Diagnostic]:
    """Yield an error if the access `other` makes it impossible to tell which iteration won an atomic min or max.

    The winner of an extreme is the iteration that holds the final value. Where this value is changed, or was used
    before, nobody can tell the winner from memory.
    """
    if other is not None:
        where = kernel.span(other.loc)
        line = f" (line {where.line})" if where else ""
        yield Diagnostic(
            f"'{shown_name(atomic.array)}' is {access} again after this atomic {atomic.op}{line},"
            " so who won cannot be told",
            (f"{ORDERED}; or " if access == "written" else "")
            + "keep the result of the atomic in a field of its own that a later loop reads",
            kernel.span(atomic.loc),
        )
