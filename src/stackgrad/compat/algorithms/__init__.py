"""This package contains the parallel algorithms of the peers, in the kernel language: scan, sort, select, reduce.

Each function of a kernel is called at the top level of the kernel, because its loops are tasks of the kernel. The work
is split into at most BLOCKS contiguous blocks of elements, one for each iteration of a parallel loop. Invariant: the
order of operations depends on the number of elements alone, so every backend gives the same result, bit for bit.
"""

from __future__ import annotations

from .compact import reduce_by_key_add, reduce_by_key_scratch_slots, select, select_scratch_slots
from .launched import PrefixSumExecutor, parallel_sort
from .reduce import reduce_add, reduce_max, reduce_min, reduce_scratch_slots
from .scan import exclusive_scan_add, exclusive_scan_max, exclusive_scan_min, exclusive_scan_scratch_slots
from .sort import sort, sort_scratch_slots

__all__ = [
    "PrefixSumExecutor",
    "exclusive_scan_add",
    "exclusive_scan_max",
    "exclusive_scan_min",
    "exclusive_scan_scratch_slots",
    "parallel_sort",
    "reduce_add",
    "reduce_by_key_add",
    "reduce_by_key_scratch_slots",
    "reduce_max",
    "reduce_min",
    "reduce_scratch_slots",
    "select",
    "select_scratch_slots",
    "sort",
    "sort_scratch_slots",
]
