"""This module contains mutants of code in which the threads of a CUDA block cooperate.

They show on an emulated grid that has blocks and warps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....backends.codegen import ir
from ....backends.codegen.builder import IRBuilder
from ....backends.codegen.emit import ModuleState
from ....backends.cuda import chunks, warp
from .planting import Mutant, Plant, patched

BLOCKS = "cuda-emulated-blocks"


def _barriers_left_out(helper: str, which: int) -> Plant:
    """Return a mutant that omits the first or the second barrier of a device function."""
    right, seen = warp.barrier, list[str]()

    def wrong(m: ModuleState, b: IRBuilder) -> None:
        name = b.function.ref
        if name.startswith(f'@"{helper}'):
            seen.append(name)
            if seen.count(name) == which:
                return
        right(m, b)

    return patched(warp, "barrier", wrong)


def _oneself_counted() -> Plant:
    right = warp.special_register

    def wrong(m: ModuleState, b: IRBuilder, name: str) -> ir.LLVMValue:
        return right(m, b, "lanemask.le" if name == "lanemask.lt" else name)

    return patched(warp, "special_register", wrong)


def _stride_of_one_round() -> Plant:
    right = chunks.ChunkLoop._place

    def wrong(self: Any, e: Any, *args: Any) -> None:
        right(self, e, *args)
        self._stride = self._width

    return patched(chunks.ChunkLoop, "_place", wrong)


def _mutant(name: str, description: str, rule: str, plant: Callable[[], Plant]) -> Mutant:
    return Mutant(name, description, rule, plant, "values", BLOCKS)


MUTANTS: Sequence[Mutant] = (
    _mutant(
        "block-sum-early",
        "The first warp adds up the sums of the others before they have written them.",
        "what another warp wrote is read behind a barrier",
        lambda: _barriers_left_out("sg.block.reduce", 1),
    ),
    _mutant(
        "block-rank-of-next",
        "A lane puts what passes one place too far into the list of its block.",
        "the place of an entry is the number of those before it",
        _oneself_counted,
    ),
)

OF_MANY_WARPS: Sequence[Mutant] = (
    _mutant(
        "block-counts-early",
        "A block adds up what passes in its warps before all of them have counted.",
        "what another warp wrote is read behind a barrier",
        lambda: _barriers_left_out("sg.block.list", 1),
    ),
    _mutant(
        "block-list-early",
        "Threads take iterations from the list of their block before it is complete.",
        "what another warp wrote is read behind a barrier",
        lambda: _barriers_left_out("sg.block.list", 2),
    ),
    _mutant(
        "block-chunks-overlap",
        "Each block goes on with the chunk behind its own, which is that of another block.",
        "an iteration belongs to one chunk of one block",
        _stride_of_one_round,
    ),
)
"""Mutants that only tests find, because gated loops of generated programs have too few iterations.

They do not fill several warps or chunks.
"""
