"""Lower `if` and `while` to the structured constructs of SPIR-V (entries of LOWER); for_loops.py lowers `for`."""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ..codegen import ir
from .emit import Emitter
from .for_loops import read_trips, stop_condition, trip_counter
from .opaque_values import hidden_truth
from .statements import LOWER, lower_block


@LOWER.row(n.If)
def _if(e: Emitter, stmt: n.If) -> None:
    cond = e.operand(stmt.cond)
    if stmt.orelse:
        e.b.if_else(cond, lambda: lower_block(e, stmt.then), lambda: lower_block(e, stmt.orelse))
        return
    with e.b.if_then(cond):
        lower_block(e, stmt.then)


@LOWER.row(n.While)
def _while(e: Emitter, stmt: n.While) -> None:
    """Emit a `while` loop, and hide its condition from the driver's compiler."""
    b = e.b
    ran = trip_counter(e, stmt.trips)

    def test() -> ir.LLVMValue:
        lower_block(e, stmt.condition)
        return hidden_truth(b, e.operand(stmt.test))

    def body() -> None:
        if ran is not None:
            ran.set(b.add(ran.get(), e.word(1)))
        lower_block(e, stmt.body)

    b.loop(test, body, lambda: stop_condition(e, stmt))
    read_trips(e, stmt.trips, ran)
