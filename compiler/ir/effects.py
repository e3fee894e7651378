"""EFFECTS: what executing a statement reads, writes and may trap on; one row per statement class.

A row speaks of the statement itself; what its blocks do is the business of the walks below. Places are named by a
space and a name, so that the primals and the adjoints of one adstack are two places. Array parameters of different
names are different memory.

Passes that remove code follow two rules: a trap is no effect (an unused value is dropped although computing it could
have trapped), and no trap is ever added (what may trap is not moved to where it did not execute before).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import nodes as n
from .nodes import STATEMENTS, Block, Stmt
from .ops import OPS
from .table import Table
from .walk import blocks, walk

Place = tuple[str, str]
"""(space, name): the space is array, local, stack (primals and depth) or adjoint (of the slots of a stack)."""


@dataclass(frozen=True)
class Effect:
    """Effects of one statement class.

    reads, writes: (space, field) pairs; the field holds the name of the place, or None.
    declares: the write creates the place. traps: may end the launch (for Op: if its row of OPS says so).
    observable: the execution itself counts, whether or not anything reads what it made. jumps: leaves the block.
    """

    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    declares: bool = False
    traps: bool = False
    observable: bool = False
    jumps: bool = False


_ARRAY = (("array", "array"),)
_LOCAL = (("local", "var"),)
_STACK = (("stack", "stack"),)
_ADJOINT = (("adjoint", "stack"),)
_STOP = (("local", "stop"),)

EFFECTS: Table[type[Stmt], Effect] = Table("effects", STATEMENTS.values())
EFFECTS.update({cls: Effect() for cls in (n.Const, n.Arg, n.Shape, n.Cast, n.BitCast, n.If, n.Scope)})
EFFECTS.update({cls: Effect(jumps=True) for cls in (n.Break, n.Continue, n.Return)})
EFFECTS.update(
    {
        n.Op: Effect(traps=True),
        n.Random: Effect(observable=True),  # draws are numbered in order of execution: a missing one renames the rest
        n.Load: Effect(reads=_ARRAY, traps=True),
        n.Store: Effect(writes=_ARRAY, traps=True),
        n.Atomic: Effect(reads=_ARRAY, writes=_ARRAY, traps=True),
        n.Local: Effect(writes=_LOCAL, declares=True),
        n.Get: Effect(reads=_LOCAL),
        n.Set: Effect(writes=_LOCAL),
        n.LocalArray: Effect(writes=_LOCAL, declares=True),
        n.GetElement: Effect(reads=_LOCAL, traps=True),
        n.SetElement: Effect(writes=_LOCAL, traps=True),
        n.For: Effect(reads=_STOP),
        n.While: Effect(reads=_STOP),
        n.Assert: Effect(traps=True, observable=True),
        n.Print: Effect(observable=True),
        n.StackAlloca: Effect(writes=_STACK + _ADJOINT, declares=True),
        n.StackPush: Effect(writes=_STACK + _ADJOINT, traps=True),
        n.StackPop: Effect(reads=_STACK, writes=_STACK + _ADJOINT, traps=True),
        n.StackTop: Effect(reads=_STACK, traps=True),
        n.StackTopAdjoint: Effect(reads=_STACK + _ADJOINT, traps=True),
        n.StackAccumulate: Effect(reads=_STACK + _ADJOINT, writes=_ADJOINT, traps=True),
    }
)


# Rows looked up once by class, since passes ask for them at every statement.
_READS = {cls: EFFECTS[cls].reads for cls in EFFECTS}
_WRITES = {cls: EFFECTS[cls].writes for cls in EFFECTS}


def reads(stmt: Stmt) -> tuple[Place, ...]:
    """Places the statement itself reads."""
    rows = _READS[type(stmt)]
    return tuple([(space, name) for space, field in rows if (name := getattr(stmt, field)) is not None]) if rows else ()


def writes(stmt: Stmt) -> tuple[Place, ...]:
    """Places the statement itself writes or declares."""
    rows = _WRITES[type(stmt)]
    return tuple([(space, getattr(stmt, field)) for space, field in rows]) if rows else ()


def may_trap(stmt: Stmt) -> bool:
    """Whether executing the statement itself may end the launch, on the reference or under debug."""
    if isinstance(stmt, n.Op):
        return OPS[stmt.op].traps and stmt.result.type.is_int
    return EFFECTS[type(stmt)].traps


def is_pure(stmt: Stmt) -> bool:
    """Whether the statement is a function of its operands alone: same operands, same results, nothing else."""
    row = EFFECTS[type(stmt)]
    return not (row.reads or row.writes or row.observable or row.jumps or blocks(stmt))


def is_pinned(stmt: Stmt) -> bool:
    """Whether the execution itself counts, so that the statement stays even if nothing reads what it made."""
    row = EFFECTS[type(stmt)]
    return row.observable or row.jumps


def all_reads(statements: Iterable[Stmt]) -> set[Place]:
    """Places read by these statements or anything nested in them."""
    return {place for inner in walk(tuple(statements)) if _READS[type(inner)] for place in reads(inner)}


def all_writes(statements: Iterable[Stmt]) -> set[Place]:
    """Places written or declared by these statements or anything nested in them."""
    return {place for inner in walk(tuple(statements)) if _WRITES[type(inner)] for place in writes(inner)}


def arrays_written(block: Block) -> set[str]:
    """Arrays and temporaries that the block stores to or updates atomically."""
    return {name for space, name in all_writes(block) if space == "array"}


def arrays_read(block: Block) -> set[str]:
    """Arrays and temporaries that the block loads or updates atomically."""
    return {name for space, name in all_reads(block) if space == "array"}
