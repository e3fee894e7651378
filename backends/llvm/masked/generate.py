"""The masked module of a kernel: which tasks have masked code, with how many lanes, and the code."""
from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.nodes import Kernel
from ....compiler.ir.walk import walk
from ...base import Options
from ..emit import MASKED_SITES, ModuleState
from ..module import Generated
from ..target import Target
from .compaction import selecting_function
from .function import lowered, masked_function, runs_along_rows
from .selection import selection

LANES = 64
LOCAL_MEMORY = 1 << 17
"""Most bytes that the local arrays of a block may take of the stack of a thread."""


def eligible(kernel: Kernel, index: int) -> bool:
    """Whether a task has masked code: it is parallel, prints nothing, and its local arrays are not vast."""
    task = kernel.tasks[index]
    if not task.is_parallel:
        return False
    return not any(isinstance(s, n.Print) for s in walk(task.body)) and _local_bytes(kernel, index) * 4 <= LOCAL_MEMORY


def _local_bytes(kernel: Kernel, index: int) -> int:
    """Bytes of the local arrays of one iteration."""
    arrays = (s for s in walk(kernel.tasks[index].body) if isinstance(s, n.LocalArray))
    return sum(s.size * s.dtype.size for s in arrays)


def lanes_of(kernel: Kernel, index: int, options: Options) -> int:
    """Lanes of a block of an eligible task."""
    if options.lanes:
        return options.lanes
    lanes = LANES
    while lanes > 4 and _local_bytes(kernel, index) * lanes > LOCAL_MEMORY:
        lanes //= 2
    return lanes


def lanes_by_task(kernel: Kernel, options: Options) -> dict[int, int]:
    """Lanes of each task that has masked code under these options."""
    if options.lanes == 0:
        return {}
    return {k: lanes_of(kernel, k, options) for k in range(len(kernel.tasks)) if eligible(kernel, k)}


def _function(m: ModuleState, index: int, lanes: int) -> None:
    """Blocks of neighbours, or of iterations that a scan selects, where it can tell something worth knowing."""
    task = lowered(m.kernel, index)
    found = selection(task, runs_along_rows(task))
    if found is None:
        masked_function(m, index, lanes)
    else:
        selecting_function(m, index, found, lanes)


def generate_masked(kernel: Kernel, options: Options, target: Target) -> Generated:
    """LLVM IR with a function `masked.N` for every eligible task N. The sites are numbered from MASKED_SITES on."""
    state = ModuleState(kernel, options, target, first_site=MASKED_SITES)
    for index, lanes in lanes_by_task(kernel, options).items():
        _function(state, index, lanes)
    return Generated(kernel, str(state.module), state.layout, tuple(state.sites))
