"""This package contains mutants: known miscompilations that a test switches on to see whether the harness finds them.

    with MUTANTS["sub-without-sign"].planted():
        ...                                         # kernels lowered and compiled here are wrong

The list is closed: each mutant is an entry of the table in one of the modules below. Nothing in the compiler knows of
mutants.
"""

from __future__ import annotations

from . import (
    adjoints,
    blocks,
    extents,
    indices,
    lanes,
    launches,
    loops,
    lowering,
    memory,
    rules,
    saving,
    shaders,
    sizes,
    tangents,
    tapes,
)
from .planting import Mutant, patched, patched_row

__all__ = ["MUTANTS", "Mutant", "patched", "patched_row"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for module in (
        adjoints,
        loops,
        saving,
        memory,
        rules,
        tangents,
        lowering,
        launches,
        lanes,
        sizes,
        shaders,
        blocks,
        indices,
        tapes,
        extents,
    )
    for mutant in module.MUTANTS
}
"""All mutants by name."""
