"""This pass evaluates operations on constants at compile time, with the scalar functions of the reference.

    %0: i32 = const 6                     %0: i32 = const 6
    %1: i32 = const 7                     %1: i32 = const 7
    %2: i32 = mul %0, %1                  %2: i32 = const 42
    %3: u1 = cmp_lt %2, %0                %3: u1 = const false
    if %3 { A } else { B }                B
    for %4: i32 in %1 .. %0 { C }         // an empty range

Invariants: a statement that would trap stays, so that it traps in its place. Only operations that every machine rounds
alike are folded: results of a kernel and its gradient are compared, and a sine of the host differs from one of the
device. The pass remove_dead_code removes constants that are no longer used.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...reference.scalar import evaluate, evaluate_bit_cast, evaluate_cast
from ..ir import nodes as n
from ..ir.build import normal_constant
from ..ir.kernels import Kernel
from ..ir.ops import OPS
from ..ir.statement import Stmt, Value
from .rewrite import Rewriter

EXACT = 0.5
"""This number is the error of a correctly rounded result, in ulps."""


def fold_constants(kernel: Kernel) -> Kernel:
    """Return the kernel with constant operations, casts and branches evaluated and empty loops removed.

    The same object is returned if nothing can be folded.
    """
    return _Folder(kernel).run()


class _Folder(Rewriter):
    """This rewriter evaluates statements on constants, and replaces branches and loops by the block that runs."""

    ENTERED = frozenset({n.If, n.For})
    LEFT = frozenset({n.Op, n.Cast, n.BitCast, n.While})

    def enter(self, stmt: Stmt) -> Iterable[Stmt] | None:
        if isinstance(stmt, n.If):
            known = self.constant(stmt.cond)
            return None if known is None else stmt.then if known else stmt.orelse
        if isinstance(stmt, n.For):
            return self._empty_range(stmt)
        return None

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        if isinstance(stmt, n.Op):
            return self._op(stmt)
        if isinstance(stmt, n.Cast):
            known = self.constant(stmt.arg)
            return None if known is None else _const(stmt, evaluate_cast(known, stmt.arg.type, stmt.result.type))
        if isinstance(stmt, n.BitCast):
            known = self.constant(stmt.arg)
            return None if known is None else _const(stmt, evaluate_bit_cast(known, stmt.arg.type, stmt.result.type))
        if isinstance(stmt, n.While) and self.constant(stmt.test) is False:
            return (*stmt.condition, *_no_trips(stmt.trips, stmt.loc))
        return None

    def _op(self, stmt: n.Op) -> Iterable[Stmt] | None:
        """Return the statements that replace an operation on constants, or None to keep the operation."""
        if stmt.op == "select":
            known = self.constant(stmt.args[0])
            if known is not None:
                return self.rename(stmt.result, stmt.args[1] if known else stmt.args[2])
        numbers = []
        for arg in stmt.args:
            known = self.constant(arg)
            if known is None:
                return None
            numbers.append(known)
        # Results that are not correctly rounded differ between machines.
        if stmt.result.type.is_real and OPS[stmt.op].ulps > EXACT:
            return None
        made = evaluate(stmt.op, *numbers, types=tuple(a.type for a in stmt.args))
        return None if made is None else _const(stmt, made)

    def _empty_range(self, stmt: n.For) -> Iterable[Stmt] | None:
        """Return the replacement of a loop that makes no trip, or None to keep a loop that may make one."""
        begin, end = self.constant(stmt.begin), self.constant(stmt.end)
        if begin is None or end is None or (begin < end if stmt.step > 0 else begin > end):
            return None
        return _no_trips(stmt.trips, stmt.loc)


def _const(stmt: n.Op | n.Cast | n.BitCast, value: float | int | bool) -> tuple[Stmt, ...]:
    return (n.Const(stmt.result, normal_constant(value, stmt.result.type), loc=stmt.loc),)


def _no_trips(trips: Value | None, loc: int) -> tuple[Stmt, ...]:
    return (n.Const(trips, 0, loc=loc),) if trips else ()
