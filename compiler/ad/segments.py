"""Find the loops whose history is kept as checkpoints: the state every k trips, and all values of one segment only.

    forward                                        reverse
    for s in 0 .. segments {                       for s in 0 .. segments descending {
      push state, v                                  set v, top state; pop state
      for j in k s .. min(trips, k s + k) { L } }    for j in k s .. min(trips, k s + k) { F(L) }
                                                     for j in k s .. min(trips, k s + k) descending { L̄ } }

L is the body of the loop, F(L) its forward sweep with all pushes, and L̄ its reverse. The first sweep runs L without
pushes, as often as the loop does. So the reverse finds the same bits as it would without checkpoints: every value is
made by the same operations from the same state. A launch of n trips keeps n / k states, and the values of k trips.

A loop has checkpoints if it stands at the root of its task, where the values and locals that its body uses live through
both sweeps, and if its state is that of locals: it ends with its range, and it writes no element of a local array, or
of a copy that a tape made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ..ir import nodes as n
from ..ir.effects import arrays_written
from ..ir.kernels import Kernel
from ..ir.roles import LOCAL_DECLARATIONS
from ..ir.statement import Block, Value
from ..ir.types import Scalar
from ..ir.walk import map_blocks, operands, walk
from ..passes.dead_code import remove_dead_code
from .plan import SavingPlan
from .structure import BlockPath, Structure


@dataclass(frozen=True)
class SegmentedLoop:
    """Represent a loop whose history is kept as checkpoints.

    Attributes:
        length: The number of trips in a segment; the last segment may have fewer.
        state: The locals that a segment begins with, with their types.
    """

    length: int
    state: Mapping[str, Scalar]


def segmented_loops(
    structure: Structure, plan: SavingPlan, length: int, copied: Collection[str], kernel: Kernel
) -> dict[BlockPath, SegmentedLoop]:
    """Return the loops of a task that get checkpoints, by the path of their bodies.

    Args:
        structure: The structure of the task.
        plan: The plan of the task.
        length: The number of trips in a segment; 0 for no checkpoints.
        copied: Arrays of which the forward sweep accesses copies.
        kernel: The kernel of the task.
    """
    if not length or plan.restored:
        return {}
    found: dict[BlockPath, SegmentedLoop] = {}
    body = structure.task.body
    needed = _needed_loops(structure, plan.taken, kernel)
    for position, stmt in enumerate(body):
        path: BlockPath = ((position, "body"),)
        saves = any(place[:1] == path for place in plan.saved.values())
        if saves and isinstance(stmt, n.For) and _can_be_cut(stmt, copied):
            state = _state(needed.get(stmt.index.id, ()), body, position)
            if not _decides_pushes(structure, plan, path, state, kernel):
                found[path] = SegmentedLoop(length, state)
    return found


def _needed_loops(structure: Structure, values: Collection[Value], kernel: Kernel) -> dict[int, Block]:
    """Return the statements of each loop at the root on which the given values depend, by the id of its index."""
    task = replace(structure.task, body=_without_stores(structure.task.body))
    alone = replace(kernel, tasks=(task,))
    kept = remove_dead_code(alone, keep_temps=[t.name for t in kernel.temps], keep_values=values)
    return {s.index.id: s.body for s in kept.tasks[0].body if isinstance(s, n.For)}


def _decides_pushes(
    structure: Structure, plan: SavingPlan, path: BlockPath, state: Collection[str], kernel: Kernel
) -> bool:
    """Return True if the state at the beginning of a segment may decide how much the segment pushes.

    The sizes of adstacks are found before a launch, when the states are not known.
    """
    inside = {
        place[:length] for place in plan.saved.values() if place[:1] == path for length in range(2, len(place) + 1)
    }
    holders = [structure.holder(place) for place in inside]
    if any(isinstance(s, n.While) or isinstance(s, n.For) and s.stop for s in holders):
        return True
    deciding = {v for s in holders for v in operands(s)}
    loop = structure.holder(path)
    assert isinstance(loop, n.For)
    needed = _needed_loops(structure, deciding, kernel).get(loop.index.id, ())
    return any(isinstance(s, n.Get) and s.var in state for s in walk(needed))


def _without_stores(block: Block) -> Block:
    """Return the statements of a block at its root without those that only have an effect; inner blocks as well."""
    kept = [s for s in block if not isinstance(s, (n.Store, n.Print, n.Assert))]
    return tuple(map_blocks(s, _without_stores) for s in kept)


def _can_be_cut(loop: n.For, copied: Collection[str]) -> bool:
    """Return True if the state of a loop between two trips is that of scalar locals outside of it."""
    declared = _declared((loop,))
    outside = any(isinstance(s, n.SetElement) and s.var not in declared for s in walk(loop.body))
    return not loop.stop and not outside and arrays_written(loop.body).isdisjoint(copied)


def _declared(block: Block) -> set[str]:
    """Return the locals that a block and the blocks inside of it declare."""
    return {s.var for s in walk(block) if isinstance(s, LOCAL_DECLARATIONS)}


def _state(needed: Block, body: Block, position: int) -> dict[str, Scalar]:
    """Return the locals that a loop reads and that the loop, or a statement after it, writes, with their types.

    Args:
        needed: The statements of the loop that the reverse sweep needs.
        body: The statements of the task.
        position: The position of the loop in them.
    """
    declared = _declared(needed)
    read = {s.var: s.result.type for s in walk(needed) if isinstance(s, n.Get) and s.var not in declared}
    written = {s.var for s in walk(body[position:]) if isinstance(s, n.Set)}
    return {var: dtype for var, dtype in read.items() if var in written}
