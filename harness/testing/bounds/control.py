"""This module executes branches and loops while errors are bounded; a decision that rounding may flip poisons a run."""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.roles import EXITS
from ....reference.frame import LaneFrame
from ....reference.machine import RUN
from .machine import BOUNDED, BoundedMachine

BOUNDED.update({kind: RUN[kind] for kind in (n.While, *EXITS)})


@BOUNDED.row(n.If)
def _if(m: BoundedMachine, s: n.If, f: LaneFrame) -> LaneFrame | None:
    m.need(s, f, s.cond, "the condition of a branch")
    return RUN[n.If](m, s, f)


@BOUNDED.row(n.For)
def _for(m: BoundedMachine, s: n.For, f: LaneFrame) -> LaneFrame | None:
    m.need(s, f, s.begin, "the begin of a loop")
    m.need(s, f, s.end, "the end of a loop")
    return RUN[n.For](m, s, f)


@BOUNDED.row(n.Assert)
def _assert(m: BoundedMachine, s: n.Assert, f: LaneFrame) -> LaneFrame | None:
    m.need(s, f, s.cond, "an asserted condition")
    return RUN[n.Assert](m, s, f)
