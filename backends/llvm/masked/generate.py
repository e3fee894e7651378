"""This module generates the masked code of a kernel: it chooses tasks and numbers of lanes, and writes functions."""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ....compiler.ir.depth import with_stack_room
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.roles import LOOPS
from ....compiler.ir.statement import Block
from ....compiler.ir.walk import blocks, walk
from ...base import Options
from ...codegen.emit import MASKED_SITES, ModuleState
from ...codegen.gates import selection
from ...codegen.target import Target
from ..module import Generated
from ..profitability import is_profitable, runs_along_rows
from .compaction import selecting_function
from .function import lower_exits_of, masked_function

LANES = 64
FEWER = ((24, LANES), (64, 32), (1 << 62, 16))
"""(most bytes that an iteration carries around its loops, lanes): what registers do not hold goes to memory each round.

Measured on AVX-512: 0.27 against 0.30 ns a step at 24 bytes for 64 and 32 lanes, 0.71 against 0.66 at 48, and at 96
bytes 3.1, 1.6 and 1.5 for 64, 32 and 16 lanes.
"""
WITHOUT_MASKS = 32
"""Most lanes of a machine that keeps masks in vectors.

With 64 lanes, LLVM takes three to five times as long over AVX2 code that is no faster where lanes diverge.
"""
MANY_STATEMENTS = 500
FEW_LANES = 16
"""A task with more statements than this gets few lanes, so that a vector of f32 takes one register and not four.

Its values do not stay in registers in either case. Measured on AVX-512 with tasks of 2,700 to 4,400 statements, the
steps and the gradient of a material-point method: LLVM took 0.3 to 1.6 s for each with 16 lanes, 2.0 to 7.5 s with 64.
"""
NEAR = 1 << 15
"""Bytes of local arrays of a block that the first-level cache holds."""
LOCAL_MEMORY = 1 << 17
"""Most bytes that the local arrays of a block may take of the stack of a thread."""


def eligible(kernel: Kernel, index: int, target: Target | None = None) -> bool:
    """Return True if a task can have masked code: it is parallel, does not print, and has no large local arrays.

    Args:
        kernel: Kernel of the task.
        index: Index of the task.
        target: The machine, if masked code is wanted only where it is estimated to be faster; None if it always is.
    """
    task = kernel.tasks[index]
    if not task.is_parallel or any(isinstance(s, n.Print) for s in walk(task.body)):
        return False
    if _local_bytes(kernel, index) * 4 > LOCAL_MEMORY:
        return False
    return target is None or is_profitable(task, target.vector_masks)


def _local_bytes(kernel: Kernel, index: int) -> int:
    """Return the number of bytes that the local arrays of one iteration occupy."""
    arrays = (s for s in walk(kernel.tasks[index].body) if isinstance(s, n.LocalArray))
    return sum(s.size * s.dtype.size for s in arrays)


def lanes_of(kernel: Kernel, index: int, options: Options, target: Target) -> int:
    """Return the number of lanes in one block of a task's masked code."""
    if options.lanes:
        return options.lanes
    carried, local = _carried_bytes(kernel.tasks[index].body), _local_bytes(kernel, index)
    lanes = next(lanes for most, lanes in FEWER if carried <= most)
    if not target.vector_masks:
        lanes = min(lanes, WITHOUT_MASKS)
    if sum(1 for _ in walk(kernel.tasks[index].body)) > MANY_STATEMENTS:
        lanes = min(lanes, FEW_LANES)
    while lanes > 16 and local * lanes > NEAR or lanes > 4 and local * lanes > LOCAL_MEMORY:
        lanes //= 2
    return lanes


def _carried_bytes(body: Block) -> int:
    """Return the bytes of the scalar locals of a task whose values pass from one trip of a loop to the next."""
    depths: dict[str, tuple[int, int]] = {}
    carried: dict[str, int] = {}

    def visit(block: Block, depth: int) -> None:
        for stmt in block:
            if isinstance(stmt, n.Local):
                depths[stmt.var] = depth, stmt.dtype.size
            # A local that is set deeper in loops than it is declared keeps its value from trip to trip.
            elif isinstance(stmt, n.Set) and depths[stmt.var][0] < depth:
                carried[stmt.var] = depths[stmt.var][1]
            for inner in blocks(stmt):
                visit(inner, depth + isinstance(stmt, LOOPS))

    visit(body, 0)
    return sum(carried.values())


def lanes_by_task(kernel: Kernel, options: Options, target: Target) -> dict[int, int]:
    """Return the number of lanes of each task that has masked code under these options."""
    if options.lanes == 0:
        return {}
    judged = target if options.lanes is None else None
    tasks = [k for k in range(len(kernel.tasks)) if eligible(kernel, k, judged)]
    return {k: lanes_of(kernel, k, options, target) for k in tasks}


def _function(m: ModuleState, index: int, lanes: int) -> None:
    """Write the masked function of a task, over blocks of neighboring iterations or of iterations that a scan lists."""
    task = lower_exits_of(m.kernel, index)
    found = selection(task, runs_along_rows(task))
    if found is None:
        masked_function(m, index, lanes)
    else:
        selecting_function(m, index, found, lanes)


@with_stack_room
def generate_masked(kernel: Kernel, options: Options, target: Target) -> Generated:
    """Return LLVM IR with a function `masked.N` for every eligible task N.

    The sites are numbered from MASKED_SITES on.
    """
    state = ModuleState(kernel, options, target, first_site=MASKED_SITES)
    for index, lanes in lanes_by_task(kernel, options, target).items():
        _function(state, index, lanes)
    return Generated(kernel, str(state.module), state.layout, tuple(state.sites))
