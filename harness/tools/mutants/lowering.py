"""This module contains mutants of passes and of code generation, which also change the values of forward kernels."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from ....backends.codegen.emit import ArithEmitter
from ....backends.codegen.ops import LLVM
from ....compiler.analysis.needed_statements import NeededMarker
from ....compiler.ir import nodes as n
from ....compiler.ir.effects import EffectPlace
from ....compiler.ir.statement import Stmt, Value
from ....compiler.ir.types import Scalar
from ....compiler.passes.common_subexpressions import _Merger
from ....compiler.passes.dead_code import Exits, _Liveness
from .planting import Mutant, Plant, patched, patched_row


def _merge_over_stores() -> Plant:
    right = _Merger._renew

    def wrong(self: _Merger, places: Iterable[EffectPlace]) -> None:
        right(self, [place for place in places if place[0] != "array"])

    return patched(_Merger, "_renew", wrong)


def _drop_store_before_loop() -> Plant:
    right = _Liveness._step_for

    def wrong(self: _Liveness, stmt: n.For, after: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        return right(self, stmt, after, frames, rewrite)[0], after

    return patched(_Liveness, "_step_for", wrong)


def _mark_nodes() -> Plant:
    """Return a mutant of dead-code removal that keeps the branches around only the last of several equal stores."""
    right = NeededMarker.spread

    def wrong(self: NeededMarker, live_values: Iterable[Value]) -> None:
        last: dict[Stmt, int] = {}
        for at, stmt in enumerate(self._stmts):
            if isinstance(stmt, (n.Set, n.Store, n.StackPush)) and not stmt.value.type.is_int:
                last[stmt] = at
        self._parents = [self._parents[last.get(stmt, at)] for at, stmt in enumerate(self._stmts)]
        right(self, live_values)

    return patched(NeededMarker, "spread", wrong)


def _signed_for_unsigned() -> Plant:
    right = LLVM["cmp_lt"]

    def wrong(e: ArithEmitter, t: Scalar, x: ir.Value, y: ir.Value) -> ir.Value:
        return right(e, t, x, y) if t.is_real or t.is_signed else e.b.icmp_signed("<", x, y)

    return patched_row(LLVM, "cmp_lt", wrong)


def _truncate_division() -> Plant:
    right = LLVM["floordiv"]

    def wrong(e: ArithEmitter, t: Scalar, x: ir.Value, y: ir.Value) -> ir.Value:
        return right(e, t, x, y) if t.is_real or not t.is_signed else e.b.sdiv(x, y)

    return patched_row(LLVM, "floordiv", wrong)


MUTANTS = (
    Mutant(
        "loads-merged-over-store",
        "A load is taken for one before a store to the array.",
        "a load sees the last store to its element",
        _merge_over_stores,
        "values",
    ),
    Mutant(
        "set-before-loop-dropped",
        "A set that only the body of the following for reads is dead.",
        "a store is dead only if no path reads it",
        _drop_store_before_loop,
        "values",
    ),
    Mutant(
        "nodes-marked",
        "Dead code takes equal statements in several places for one.",
        "passes mark occurrences, never nodes",
        _mark_nodes,
    ),
    Mutant(
        "unsigned-compared-signed",
        "LLVM code compares unsigned integers as signed ones.",
        "cmp_lt is the order of the type",
        _signed_for_unsigned,
        "values",
    ),
    Mutant(
        "division-truncates",
        "LLVM code rounds the quotient of signed integers toward zero.",
        "floordiv rounds toward minus infinity",
        _truncate_division,
        "values",
    ),
)
