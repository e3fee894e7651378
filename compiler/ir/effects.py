"""This module contains EFFECTS, the table of what each class of statement reads and writes, and if it may trap.

An entry describes the statement itself; the functions of this module add the effects of nested blocks. Memory is named
by a pair (space, name), so that the primals and the adjoints of one adstack are two places. Array parameters of
different names are different memory.

Passes that remove code follow two rules. A trap is no effect: an unused value is dropped although computing it could
have trapped. No trap is ever added: a statement that may trap is not moved to a position where it did not execute
before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import nodes as n
from .nodes import STATEMENTS
from .ops import OPS
from .roles import JUMPS
from .statement import Block, Stmt
from .table import Table
from .walk import blocks, walk

EffectPlace = tuple[str, str]
"""A place is a pair (space, name); the space is array, local, stack (primals and depth) or adjoint (of stack slots)."""


@dataclass(frozen=True)
class Effect:
    """An `Effect` describes what statements of one class read and write, and if they may trap, jump or be observed.

    Attributes:
        reads: (space, attribute) pairs of the memory that is read: the attribute of the statement holds the name of the
            local, array or adstack, or None.
        writes: (space, attribute) pairs of the memory that is written.
        declares: True if the statement declares what it writes.
        traps: True if the execution may end the launch (for `Op`: only if its entry in `OPS` says so).
        observable: True if the execution itself counts, even if no statement reads its result.
        jumps: True if the execution leaves the block.
    """

    reads: tuple[EffectPlace, ...] = ()
    writes: tuple[EffectPlace, ...] = ()
    declares: bool = False
    traps: bool = False
    observable: bool = False
    jumps: bool = False


_ARRAY = (("array", "array"),)
_LOCAL = (("local", "var"),)
_STACK = (("stack", "stack"),)
_ADJOINT = (("adjoint", "stack"),)
_STOP = (("local", "stop"),)

EFFECTS: Table[type[Stmt], Effect] = Table(
    "effects", STATEMENTS.values(), about="what the execution reads and writes, and if it may trap"
)
EFFECTS.update({cls: Effect() for cls in (n.Const, n.Arg, n.Shape, n.Cast, n.BitCast, n.If, n.Scope)})
EFFECTS.update({cls: Effect(jumps=True) for cls in JUMPS})
EFFECTS.update(
    {
        n.Op: Effect(traps=True),
        n.Within: Effect(traps=True),
        # Draws are numbered in order of execution: dropping a draw would renumber all later ones.
        n.Random: Effect(observable=True),
        n.Load: Effect(reads=_ARRAY, traps=True),
        n.Store: Effect(writes=_ARRAY, traps=True),
        n.Atomic: Effect(reads=_ARRAY, writes=_ARRAY, traps=True),
        n.Local: Effect(writes=_LOCAL, declares=True),
        n.Get: Effect(reads=_LOCAL),
        n.Set: Effect(writes=_LOCAL),
        n.LocalArray: Effect(writes=_LOCAL, declares=True),
        n.GetElement: Effect(reads=_LOCAL, traps=True),
        n.SetElement: Effect(writes=_LOCAL, traps=True),
        n.SharedArray: Effect(writes=_LOCAL, declares=True),
        n.UpdateElement: Effect(reads=_LOCAL, writes=_LOCAL, traps=True),
        # Other iterations depend on these statements, whether their results are read or not.
        n.Sync: Effect(observable=True),
        n.Collective: Effect(observable=True),
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


# These dictionaries hold the rows by class, because passes look them up at every statement.
_READS = {cls: EFFECTS[cls].reads for cls in EFFECTS}
_WRITES = {cls: EFFECTS[cls].writes for cls in EFFECTS}


def reads(stmt: Stmt) -> tuple[EffectPlace, ...]:
    """Return the locals, arrays and other memory that the statement reads, nested statements excluded."""
    rows = _READS[type(stmt)]
    return tuple([(space, name) for space, field in rows if (name := getattr(stmt, field)) is not None]) if rows else ()


def writes(stmt: Stmt) -> tuple[EffectPlace, ...]:
    """Return the locals, arrays and other memory that the statement writes or declares, nested statements excluded."""
    rows = _WRITES[type(stmt)]
    return tuple([(space, getattr(stmt, field)) for space, field in rows]) if rows else ()


def may_trap(stmt: Stmt) -> bool:
    """Return True if the statement itself may end the launch with an error, on the reference or in debug builds."""
    if isinstance(stmt, n.Op):
        # Real division and remainder give infinities or NaN instead of a trap.
        return OPS[stmt.op].traps and stmt.result.type.is_int
    return EFFECTS[type(stmt)].traps


def is_pure(stmt: Stmt) -> bool:
    """Return True if the results depend on the operands alone and the statement has no effect and no blocks."""
    row = EFFECTS[type(stmt)]
    return not (row.reads or row.writes or row.observable or row.jumps or blocks(stmt))


def all_reads(statements: Iterable[Stmt]) -> set[EffectPlace]:
    """Return the memory that any of the statements, or a statement nested in one, reads."""
    return {place for inner in walk(tuple(statements)) if _READS[type(inner)] for place in reads(inner)}


def all_writes(statements: Iterable[Stmt]) -> set[EffectPlace]:
    """Return the memory that any of the statements, or a statement nested in one, writes or declares."""
    return {place for inner in walk(tuple(statements)) if _WRITES[type(inner)] for place in writes(inner)}


def arrays_written(block: Block) -> set[str]:
    """Return the arrays and temporaries that the block stores to or updates atomically."""
    return {name for space, name in all_writes(block) if space == "array"}
