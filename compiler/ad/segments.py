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
both sweeps, and if its state is that of locals: it ends with its range, draws no random number, and uses no local array
and no copy of a tape that changes in the loop or later. The classic lowering, whose locals live on adstacks, has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import HintWarning, warn
from ..ir import nodes as n
from ..ir.cached import cached_property
from ..ir.effects import arrays_written
from ..ir.kernels import Kernel
from ..ir.roles import ACCESSES, LOCAL_DECLARATIONS
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
    """Return the loops of a task that get checkpoints, by the path of their bodies. Warn of wishes that are ignored.

    Args:
        structure: The structure of the task.
        plan: The plan of the task.
        length: The number of trips in a segment of a loop that does not say its own; 0 for no checkpoints.
        copied: Arrays of which the forward sweep accesses copies.
        kernel: The kernel of the task.
    """
    finder = _SegmentFinder(structure, plan, copied, kernel)
    found: dict[BlockPath, SegmentedLoop] = {}
    for path, position, loop in _loops(structure):
        wanted = loop.segment or length
        body = (*path, (position, "body"))
        if not wanted or not finder.saves(body):
            continue
        obstacle = "it stands inside of another loop or branch" if path else finder.obstacle(loop, body)
        if obstacle is None:
            found[body] = SegmentedLoop(wanted, finder.state(loop, position))
        elif loop.segment:
            _warn(kernel, loop, obstacle)
    return found


def _loops(structure: Structure) -> Iterator[tuple[BlockPath, int, n.For]]:
    """Yield each `for` loop of a task, with its block and its position there."""
    for place in structure.occurrences():
        if isinstance(place.stmt, n.For):
            yield place.path, place.position, place.stmt


def _warn(kernel: Kernel, loop: n.For, reason: str) -> None:
    """Warn that a loop keeps the values of all trips although it asks for checkpoints."""
    span = kernel.span(loop.loc)
    where = f"{span.file}:{span.line}: " if span else ""
    text = f"{where}`checkpoint` has no effect in kernel '{kernel.name}': the gradient keeps the values of all trips"
    warn(f"{text}, because {reason}", HintWarning)


class _SegmentFinder:
    """Decide for the loops at the root of one task whether they can have checkpoints, and of what.

    Attributes:
        structure: The structure of the task.
        plan: The plan of the task.
        copied: Arrays of which the forward sweep accesses copies.
        kernel: The kernel of the task.
        taken: The statements of each loop at the root that the reverse sweep needs, by the id of its index.
    """

    def __init__(self, structure: Structure, plan: SavingPlan, copied: Collection[str], kernel: Kernel) -> None:
        self.structure = structure
        self.plan = plan
        self.copied = copied
        self.kernel = kernel

    @cached_property
    def taken(self) -> dict[int, Block]:
        """Return the statements of each loop at the root that the reverse sweep needs, by the id of its index."""
        return _needed_loops(self.structure, self.plan.taken, self.kernel)

    def saves(self, path: BlockPath) -> bool:
        """Return True if values of a loop are saved."""
        places = [*self.plan.saved.values(), *(block for block, _ in self.plan.restored)]
        return any(place[: len(path)] == path for place in places)

    def obstacle(self, loop: n.For, path: BlockPath) -> str | None:
        """Return the reason why a loop at the root of the task cannot have checkpoints, or None if it can."""
        if loop.stop:
            return "it may end early"
        if any(isinstance(s, n.Random) for s in walk(loop.body)):
            return "it draws random numbers, which come in the order of execution"
        if self.plan.restored or self._finds_changed_elements(loop, path[0][0]):
            return "it changes a vector or an array of its iteration, or reads one that changes later"
        later = arrays_written(self.structure.task.body[path[0][0] :])
        if not _arrays_used(loop.body).isdisjoint(later.intersection(self.copied)):
            return "it uses an array of which the tape keeps a copy, and which changes in the loop or later"
        if self._decides_pushes(path, self.state(loop, path[0][0])):
            return "what it computes decides how many values one of its trips saves"
        return None

    def _finds_changed_elements(self, loop: n.For, position: int) -> bool:
        """Return True if a second sweep of a loop could find other elements of local arrays than the first one did."""
        declared = _declared(loop.body)
        used = {s.var for s in walk(loop.body) if isinstance(s, (n.GetElement, n.SetElement))} - declared
        later = walk(self.structure.task.body[position:])
        return any(isinstance(s, n.SetElement) and s.var in used for s in later)

    def state(self, loop: n.For, position: int) -> dict[str, Scalar]:
        """Return the locals that a loop reads and that the loop, or a statement after it, writes, with their types."""
        needed = self.taken.get(loop.index.id, ())
        declared = _declared(needed)
        read = {s.var: s.result.type for s in walk(needed) if isinstance(s, n.Get) and s.var not in declared}
        written = {s.var for s in walk(self.structure.task.body[position:]) if isinstance(s, n.Set)}
        return {var: dtype for var, dtype in read.items() if var in written}

    def _decides_pushes(self, path: BlockPath, state: Collection[str]) -> bool:
        """Return True if the state at the beginning of a segment may decide how much the segment pushes.

        The sizes of adstacks are found before a launch, when the states are not known.
        """
        places = [place for place in self.plan.saved.values() if place[:1] == path]
        holders = [self.structure.holder(p) for p in {p[:k] for p in places for k in range(2, len(p) + 1)}]
        if any(isinstance(s, n.While) or isinstance(s, n.For) and s.stop for s in holders):
            return True
        loop = self.structure.holder(path)
        assert isinstance(loop, n.For)
        deciding = {v for s in holders for v in operands(s)}
        needed = _needed_loops(self.structure, deciding, self.kernel).get(loop.index.id, ())
        return any(isinstance(s, n.Get) and s.var in state for s in walk(needed))


def _needed_loops(structure: Structure, values: Collection[Value], kernel: Kernel) -> dict[int, Block]:
    """Return the statements of each loop at the root on which the given values depend, by the id of its index."""
    task = replace(structure.task, body=_without_stores(structure.task.body))
    alone = replace(kernel, tasks=(task,))
    kept = remove_dead_code(alone, keep_temps=[t.name for t in kernel.temps], keep_values=values)
    return {s.index.id: s.body for s in kept.tasks[0].body if isinstance(s, n.For)}


def _without_stores(block: Block) -> Block:
    """Return the statements of a block at its root without those that only have an effect; inner blocks as well."""
    kept = [s for s in block if not isinstance(s, (n.Store, n.Print, n.Assert))]
    return tuple(map_blocks(s, _without_stores) for s in kept)


def _declared(block: Block) -> set[str]:
    """Return the locals that a block and the blocks inside of it declare."""
    return {s.var for s in walk(block) if isinstance(s, LOCAL_DECLARATIONS)}


def _arrays_used(block: Block) -> set[str]:
    """Return the arrays that a block and the blocks inside of it access."""
    return {s.array for s in walk(block) if isinstance(s, ACCESSES)}
