"""This module contains COLLECTIVES, the table of operations on the values of all iterations of a subgroup or block.

A group has `live` iterations, the first ones of its lanes: the last block of a task may have fewer than the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from .types import Scalar, i32, u1, u32

SUBGROUP = 32
"""Number of lanes of a subgroup on every backend."""

WIDTHS = (1, 2, 4, 8, 16, 32)
"""Numbers of lanes that a group within a subgroup may have."""

DEFAULT_BLOCK = 128
"""Block size of a loop that uses blocks and gives no `block_dim`."""

MOST_THREADS = 1024
"""Greatest number of iterations of a block."""

SYNCS = {"block": True, "subgroup": True, "block_fence": False, "grid_fence": False}
"""For each kind of `Sync`, this table says if iterations wait for each other."""

FOLDS = ("add", "mul", "min", "max", "bit_and", "bit_or", "bit_xor")
"""Operations by which a group reduces or scans its values."""

POSITIONS = ("thread", "block", "live", "lane", "subgroup")
"""Collectives without operands, which say where an iteration stands in its block.

* thread: number of the iteration in its block.
* block: number of the block.
* live: number of iterations of the block.
* lane: number of the iteration in its subgroup.
* subgroup: number of the subgroup in the block.
"""


@dataclass(frozen=True)
class CollectiveInfo:
    """A `CollectiveInfo` describes one collective operation.

    Attributes:
        name: name in IR text.
        kind: position, shuffle, ballot, reduce, inclusive or exclusive.
        of_block: True if the group is the block; False if it is the subgroup.
        fold: operation of a reduction or scan, or empty.
    """

    name: str
    kind: str
    of_block: bool = False
    fold: str = ""

    def result_type(self, types: tuple[Scalar, ...]) -> Scalar | None:
        """Return the type of the result for operands of these types, or None if they do not fit."""
        if self.kind == "position":
            return None if types else i32
        if self.kind == "shuffle":
            return types[0] if len(types) == 2 and types[1] == i32 else None
        if self.kind == "ballot":
            return u32 if types == (u1,) else None
        return types[0] if len(types) == 1 and fold_fits(self.fold, types[0]) else None

    @property
    def is_uniform(self) -> bool:
        """Return True if all iterations of a block get the same result."""
        return self.name in ("block", "live") or self.of_block and self.kind == "reduce"

    @property
    def exchanges(self) -> bool:
        """Return True if the result depends on the operands of other iterations."""
        return self.kind != "position"


def fold_fits(fold: str, dtype: Scalar) -> bool:
    """Return True if a group can reduce values of this type by the operation."""
    return dtype.is_int if fold.startswith("bit_") else not dtype.is_bool


def identity_of(fold: str, dtype: Scalar) -> float | int:
    """Return the number that leaves every value of the type unchanged under the operation."""
    if fold in ("min", "max"):
        if dtype.is_real:
            return float("inf") if fold == "min" else float("-inf")
        return dtype.limits[fold == "min"]
    if fold == "bit_and":
        return -1 if dtype.is_signed else dtype.limits[1]
    if fold == "mul":
        return 1.0 if dtype.is_real else 1
    # Minus zero, because 0.0 + -0.0 is 0.0, which differs from -0.0.
    return -0.0 if fold == "add" and dtype.is_real else 0


def start_of(row: CollectiveInfo, dtype: Scalar) -> float | int:
    """Return the number from which a group folds its values; an exclusive sum begins at 0.0."""
    found = identity_of(row.fold or "bit_or", dtype)
    return 0.0 if row.kind == "exclusive" and row.fold == "add" and dtype.is_real else found


_ROWS = (
    *(CollectiveInfo(name, "position", of_block=name in ("thread", "block", "live")) for name in POSITIONS),
    CollectiveInfo("shuffle", "shuffle"),
    CollectiveInfo("ballot", "ballot"),
    *(
        CollectiveInfo(f"{'block_' if of_block else ''}{kind}_{fold}", kind, of_block, fold)
        for of_block in (False, True)
        for kind in ("reduce", "inclusive", "exclusive")
        for fold in FOLDS
    ),
)

COLLECTIVES: dict[str, CollectiveInfo] = {row.name: row for row in _ROWS}
"""The collective operations by name."""
