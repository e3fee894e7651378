"""This module contains mutants of masked code: wrong masks and trip counts, wrong slots, sums and polynomials."""

from __future__ import annotations

from typing import Any

from ....backends.codegen import ir
from ....backends.codegen.polynomials import evaluate
from ....backends.codegen.polynomials.coefficients import COEFFICIENTS
from ....backends.codegen.types import I8, I64, const
from ....backends.llvm.masked import adstack, atomics, loops
from ....backends.llvm.masked.adstack import LaneStack
from ....backends.llvm.masked.lanes import LaneEmitter
from ....backends.llvm.masked.masks import MASKED_CONTROL
from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar
from .planting import Mutant, Plant, patched, patched_row

WORST = 1.0 + 2.0**-12
"""Factor of the wrong coefficient."""


def _all_lanes_combined() -> Plant:
    right = atomics._combined

    def wrong(e: LaneEmitter, stmt: n.Atomic, t: Scalar) -> ir.LLVMValue:
        kept, e.flow.mask = e.flow.mask, const(e.mask_type, True)
        made = right(e, stmt, t)
        e.flow.mask = kept
        return made

    return patched(atomics, "_combined", wrong)


def _mask_of_the_last_round() -> Plant:
    right = MASKED_CONTROL[n.For]

    def wrong(e: LaneEmitter, stmt: n.For) -> None:
        right(e, stmt)
        if e.u.diverges(stmt):
            counts = loops.counts_of(e, stmt, I64)
            longest = e.splat(e.reduce("umax", counts))
            e.flow.mask = e.b.and_(e.flow.mask, e.b.icmp_unsigned("==", counts, longest))

    return patched_row(MASKED_CONTROL, n.For, wrong)


def _rounds_of_the_lane_across() -> Plant:
    right = loops.counts_of

    def wrong(e: LaneEmitter, stmt: n.For, word: ir.IntType) -> ir.LLVMValue:
        counts = right(e, stmt, word)
        if not stmt.descending:
            return counts
        others = e.b.shuffle(counts, range(e.lanes - 1, -1, -1))
        return e.b.select(e.flow.mask, others, const(others.type, 0))

    return patched(loops, "counts_of", wrong)


def _slots_of_one_lane() -> Plant:
    def wrong(e: LaneEmitter, s: LaneStack, number: ir.LLVMValue) -> ir.LLVMValue:
        wide = number if number.type == I64 else e.b.zext(number, I64)
        return e.b.gep(s.base, e.b.mul(wide, const(I64, s.stack.slot_bytes)), I8)

    return patched(adstack, "_slot", wrong)


def _zero_is_neutral() -> Plant:
    right = atomics._neutral

    def wrong(op: str, t: Scalar) -> float | int:
        return 0 if op in ("min", "max") else right(op, t)

    return patched(atomics, "_neutral", wrong)


def _wrong_coefficient() -> Plant:
    def bent(row: tuple[float, ...]) -> tuple[float, ...]:
        return (*row[:1], row[1] * WORST, *row[2:])

    table: Any = {name: {t: bent(row) for t, row in rows.items()} for name, rows in COEFFICIENTS.items()}
    return patched(evaluate, "COEFFICIENTS", table)


MUTANTS = (
    Mutant(
        "tail-lanes-active",
        "Lanes without an iteration take part in what all lanes add to one element.",
        "a lane that is not active contributes the neutral element",
        _all_lanes_combined,
        "values",
    ),
    Mutant(
        "mask-not-restored",
        "Behind a loop only those lanes go on that were in its last round.",
        "the mask behind a loop is the one before it",
        _mask_of_the_last_round,
        "values",
    ),
    Mutant(
        "lane-across",
        "In a reversed loop each lane makes the rounds of the lane at the other end of the block.",
        "a lane runs its own iterations",
        _rounds_of_the_lane_across,
    ),
    Mutant(
        "slots-overlap",
        "A slot of an adstack begins one lane after the slot below it.",
        "a slot has room for all lanes before the next one begins",
        _slots_of_one_lane,
    ),
    Mutant(
        "own-add-lost",
        "Lanes that add to one element read it before any of them has written.",
        "an update without turns needs an element of the lane's own",
        lambda: patched(atomics, "_is_own", lambda *args: True),
    ),
    Mutant(
        "zero-is-neutral",
        "A lane that is not active contributes zero to a minimum or maximum.",
        "a lane that is not active contributes the neutral element",
        _zero_is_neutral,
        "values",
    ),
    Mutant(
        "wrong-coefficient",
        "The second coefficient of every polynomial is wrong in the twelfth bit.",
        "an inlined function is as exact as its row in the table of operations says",
        _wrong_coefficient,
        "values",
    ),
)
