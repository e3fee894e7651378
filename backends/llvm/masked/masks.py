"""This module emits control flow under masks: a block of lanes runs each branch that one of its lanes takes.

`mask` holds the lanes that are active in the open block. Its invariant, which uniform loads and stores rely on: at
least one lane is active, except inside an arm that is merged (see `_merged`). Conditions and trip counts that are
uniform are plain branches. Where they diverge, each arm runs under the lanes that take it, and is skipped if no lane
takes it; a loop goes on while a lane is active. `level` counts the divergent constructs around: what is declared at the
present level may be overwritten in all lanes at once, as the inactive lanes never read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....compiler.ir import nodes as n
from ....compiler.ir.roles import SCALAR_USES, STRUCTURED, VALUES
from ....compiler.ir.statement import Block, Stmt
from ....compiler.ir.table import Table
from ...codegen import ir
from ...codegen.libcall import LIBRARY
from ..branching.control import trap_with
from .lanes import LaneEmitter

Row = Callable[[LaneEmitter, Any], None]
CONTROL = STRUCTURED
MASKED_CONTROL: Table[type[Stmt], Row] = Table(
    "masked control", CONTROL, about="the masks of a statement of control flow in code for lanes"
)

MERGED = 10
"""Most statements of an if without effects that runs without a branch around it, because a branch would cost more."""
_LIGHT = (*VALUES, *SCALAR_USES, n.Local)
_HEAVY = frozenset({*LIBRARY, "div", "sqrt", "rsqrt", "inv", "rcp", "floordiv", "mod"})


class Masks:
    """Hold the mask and the open basic block of one function of masked code, and emit its control flow.

    Attributes:
        e: Emitter of the function.
        rows: Table entries of the statements that are not control flow.
        mask: Lanes that are active in the open block.
        level: Number of divergent constructs around the open block.
        roomy: Adstacks known to have room for the pushes being emitted.
    """

    def __init__(self, e: LaneEmitter, rows: Table[type[Stmt], Row], mask: ir.LLVMValue) -> None:
        self.e = e
        self.rows = rows
        self.mask = mask
        self.level = 0
        self.roomy: frozenset[str] = frozenset()

    def block(self, body: Block) -> None:
        """Emit the statements of an IR block in order."""
        function, lines = self.e.function, self.e.m.module.lines
        around = function.mark
        for stmt in body:
            lines.at(function, stmt.loc)
            row = MASKED_CONTROL.get(type(stmt)) or self.rows[type(stmt)]
            row(self.e, stmt)
        function.mark = around

    @contextmanager
    def under(self, mask: ir.LLVMValue) -> Iterator[None]:
        """Restrict the mask to `mask`, a subset of the active lanes, for the code that the `with` block emits."""
        outer = self.mask
        self.mask = mask
        self.level += 1
        yield
        self.mask = outer
        self.level -= 1

    def append(self, name: str) -> ir.BasicBlock:
        """Append a basic block to the function and return it. Emission does not move to the new block."""
        return self.e.function.append_basic_block(name)

    def go(self, target: ir.BasicBlock) -> None:
        """Emit a branch to the basic block `target`, and continue to emit there."""
        self.e.b.branch(target)
        self.e.b.position_at_end(target)

    def trap_if(self, bad: ir.LLVMValue, site: int, first: ir.LLVMValue, second: ir.LLVMValue) -> None:
        """Emit a trap if the scalar `bad` is true: record an error with two numbers and end the launch."""
        self.trap_with(bad, site, lambda: (first, second))

    def trap_with(self, bad: ir.LLVMValue, site: int, numbers: Callable[[], tuple[ir.LLVMValue, ir.LLVMValue]]) -> None:
        """Emit a trap if the scalar `bad` is true. The two numbers of the error are computed only in that case."""
        trap_with(self.e, bad, site, numbers)


# ---- branches -----------------------------------------------------------------------------------------------


@MASKED_CONTROL.row(n.If)
def _if(e: LaneEmitter, stmt: n.If) -> None:
    if not e.u.diverges(stmt):
        _plain_if(e, stmt)
        return
    cond, outer = e.vector(stmt.cond), e.flow.mask
    opposite = e.b.xor(cond, e.const(cond, True))
    # Both arms are emitted one after the other, each under the lanes that take it.
    for arm, taken in ((stmt.then, cond), (stmt.orelse, opposite)):
        if arm:
            _arm(e, arm, e.b.and_(outer, taken))


def _arm(e: LaneEmitter, arm: Block, mask: ir.LLVMValue) -> None:
    """Emit one branch of an `if` whose condition differs by lane, for the lanes that take this branch."""
    merged = _merged(arm)
    done = e.flow.append("endif")
    if not merged:
        inside = e.flow.append("if")
        e.b.cbranch(e.any(mask), inside, done)
        e.b.position_at_end(inside)
    with e.flow.under(mask):
        e.flow.block(arm)
    e.flow.go(done)


def _merged(arm: Block) -> bool:
    """Return True if a branch of an `if` is so cheap that its code runs even when no lane takes it."""
    light = all(isinstance(s, _LIGHT) and not (isinstance(s, n.Op) and s.op in _HEAVY) for s in arm)
    return light and len(arm) <= MERGED


def _plain_if(e: LaneEmitter, stmt: n.If) -> None:
    """Emit an `if` whose condition is equal in all lanes."""
    flow = e.flow
    then, done = flow.append("then"), flow.append("endif")
    orelse = flow.append("else") if stmt.orelse else done
    e.b.cbranch(e.operand(stmt.cond), then, orelse)
    e.b.position_at_end(then)
    flow.block(stmt.then)
    e.b.branch(done)
    if stmt.orelse:
        e.b.position_at_end(orelse)
        flow.block(stmt.orelse)
        e.b.branch(done)
    e.b.position_at_end(done)
