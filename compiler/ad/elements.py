"""Reads of local arrays that find in the reverse sweep what they found in the forward sweep.

A local array declared at the root of a task lives through both sweeps, and the reverse sweep finds it as the forward
sweep left it. So a read may be made again if no write to the array can follow it: later in the text, or in a later trip
of a common loop.
"""
from __future__ import annotations

from ..ir import nodes as n
from ..ir.nodes import Value
from .structure import Occurrence, Structure, comes_after, common_block


def lasting_reads(structure: Structure) -> set[Value]:
    """Results of reads of elements that nothing overwrites afterwards."""
    at_root = {var for var, path in structure.declared.items() if path == ()}
    sites = [o for o in structure.occurrences() if isinstance(o.stmt, (n.GetElement, n.SetElement))]
    writes = [o for o in sites if isinstance(o.stmt, n.SetElement)]
    return {
        read.stmt.result
        for read in sites
        if isinstance(read.stmt, n.GetElement) and read.stmt.var in at_root
        if not any(w.stmt.var == read.stmt.var and may_follow(w, read, structure) for w in writes)  # type: ignore[attr-defined]
    }


def may_follow(later: Occurrence, earlier: Occurrence, structure: Structure) -> bool:
    """Whether `later` may run after `earlier` within one execution of the task's body."""
    return bool(structure.loops(common_block(later.path, earlier.path))) or comes_after(later, earlier, structure)
