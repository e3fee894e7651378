"""This module contains mutants of forward mode: tangents lost, kept too long, or taken from the wrong operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....compiler.ad import tangent_statements as statements
from ....compiler.ad.tangent import TangentSweep
from ....compiler.ad.tangent_statements import TANGENT, Handler
from ....compiler.ir import nodes as n
from ....compiler.ir.statement import Stmt, Value
from ....compiler.ir.table import Table
from .planting import Mutant, Plant, patched, patched_row


def _handled(kind: type[Stmt], change: Callable[[Handler], Handler], table: Table[Any, Any] = TANGENT) -> Plant:
    return patched_row(table, kind, change(table[kind]))


def _constant_store_keeps() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(s: TangentSweep, stmt: n.Store) -> None:
            right(s, stmt) if stmt.value in s.tangents else s.b.emit(stmt)

        return wrong

    return _handled(n.Store, change)


def _emitted_alone(kind: type[Stmt], where: Callable[[TangentSweep, Any], bool] = lambda s, stmt: True) -> Plant:
    """Return a mutant that emits statements of one class without the statements that compute their tangents."""

    def change(right: Handler) -> Handler:
        return lambda s, stmt: s.b.emit(stmt) if where(s, stmt) else right(s, stmt)

    return _handled(kind, change)


def _loser_moves() -> Plant:
    """Return a mutant that exchanges the tangents of the operands of min and max."""
    right = TangentSweep.along

    def wrong(self: TangentSweep, op: str, args: tuple[Value, ...], result: Value) -> Value | None:
        if op not in ("min", "max"):
            return right(self, op, args, result)
        kept = self.tangents
        swapped = {v: kept.get(other) for v, other in zip(args, reversed(args))}
        self.tangents = {v: tangent for v, tangent in {**kept, **swapped}.items() if tangent is not None}
        try:
            return right(self, op, args, result)
        finally:
            self.tangents = kept

    return patched(TangentSweep, "along", wrong)


def _last_update_moves() -> Plant:
    def wrong(s: TangentSweep, stmt: n.Atomic, dual: str) -> None:
        old = s.b.load(dual, stmt.indices, stmt.value.type)
        s.b.emit(stmt)
        s.tangents[stmt.result] = old
        s.b.store(dual, stmt.indices, s.of(stmt.value))

    return patched(statements, "_read_modify_write", wrong)


MUTANTS = (
    Mutant(
        "tangent-store-lost",
        "Forward mode stores values and leaves the tangent of the element as it was.",
        "a store replaces the tangent of the element",
        lambda: _emitted_alone(n.Store),
        "tangent",
    ),
    Mutant(
        "tangent-survives-constant",
        "A store of a constant leaves the tangent of the element.",
        "overwriting by a constant ends a tangent",
        _constant_store_keeps,
        "tangent",
    ),
    Mutant(
        "tangent-sum-lost",
        "Forward mode adds to an element and not to its tangent.",
        "an atomic add adds tangents",
        lambda: _emitted_alone(n.Atomic, lambda s, stmt: stmt.op == "add"),
        "tangent",
    ),
    Mutant(
        "tangent-local-stale",
        "In loops and branches, a local keeps the tangent that it had before.",
        "a set replaces the tangent of the variable",
        lambda: _emitted_alone(n.Set, lambda s, stmt: len(s.b._open) > 2),
        "tangent",
    ),
    Mutant(
        "tangent-of-loser",
        "The tangent of a minimum or maximum is that of the other operand.",
        "an extreme moves with the operand that it is",
        _loser_moves,
        "tangent",
    ),
    Mutant(
        "tangent-of-last-update",
        "A product or extreme in memory moves as what it was last updated with.",
        "the tangent of an update is that of its operation",
        _last_update_moves,
        "tangent",
    ),
)
