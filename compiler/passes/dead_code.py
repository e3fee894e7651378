"""This pass removes statements whose execution has no observable consequence.

    local x: f32                      local x: f32
    set x, %0        // overwritten   set x, %1
    set x, %1                         %2: f32 = get x
    %2: f32 = get x                   store a[%3], %2
    %4: f32 = exp %2 // unused
    store a[%3], %2

Two analyses alternate until neither finds anything. *Marking* starts at observable statements (stores to arrays,
asserts, prints, draws, returns) and marks what they need: operands, everything that writes a place that is read,
enclosing statements, and the jumps of a loop that stays. Marking ignores order, so cycles through locals, stacks and
temporaries that feed only themselves vanish. *Liveness* follows order: it drops a `set` that no path reads, and also
the values that only this `set` used, so that a chain of them disappears at once.

A trap is no effect: an unused division, load or element read is removed although it could have trapped.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..analysis.needed_statements import FLOW, JUMPS, NeededMarker
from ..ir import nodes as n
from ..ir.effects import EFFECTS, EffectPlace, reads, writes
from ..ir.kernels import Kernel
from ..ir.roles import ACCESSES, LOOP_JUMPS, SCALAR_ASSIGNMENTS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import NESTED, OPERANDS, RESULTS, kept_block, replace_fields, walk, walk_kernel, walk_task

Exits = tuple[tuple[int, int], ...]
_STAYS = JUMPS | NESTED | {cls for cls in EFFECTS if EFFECTS[cls].writes or EFFECTS[cls].observable} - {n.Set}
_DROPPED = frozenset(EFFECTS) - _STAYS
"""These statements are removed if nothing reads their result, or the local that they set."""
_STEPS = FLOW | {n.Set, n.Local}
"""These statements change the set of live locals."""


def remove_dead_code(kernel: Kernel, keep_temps: Collection[str] = (), keep_values: Collection[Value] = ()) -> Kernel:
    """Return the kernel without dead statements and unused temporaries, or the same object if there are none.

    Tasks stay even if they are empty, because their numbers are keys of random draws and of the rows of adstacks.

    Args:
        kernel: a kernel of any stage.
        keep_temps: temporaries that are read from outside the kernel.
        keep_values: values that are read from outside the kernel.
    """
    private = {("array", t.name) for t in kernel.temps if t.name not in keep_temps}
    marked, _ = _mark_kernel(kernel, private, keep_values)
    if n.Set in map(type, walk_kernel(marked)):
        marked = _alternate(marked, private, keep_values, _foreign_values(kernel), _crossing_locals(kernel))
    return _drop_temps(marked, private)


def _alternate(
    kernel: Kernel, private: Collection[EffectPlace], keep: Collection[Value], foreign: set[Value], crossing: set[str]
) -> Kernel:
    """Return the kernel after removing dead stores and unneeded statements in turn until nothing more is removed.

    Marking can find more dead statements only after liveness has dropped some, and liveness only after a round that
    removed reads of locals or control flow.

    Args:
        kernel: kernel after a first marking.
        private: locals, adstacks and temporaries that only this kernel uses.
        keep: values that are read from outside the kernel.
        foreign: values that a task uses and another one defines.
        crossing: locals that several tasks use.
    """
    while True:
        swept, more = _sweep_kernel(kernel, foreign.union(keep), crossing)
        if swept is kernel:
            return kernel
        kernel, flow_cut = _mark_kernel(swept, private, keep)
        if not (more or flow_cut):
            return kernel


# ---- marking ------------------------------------------------------------------------------------------------


def _mark_kernel(kernel: Kernel, private: Collection[EffectPlace], keep: Collection[Value]) -> tuple[Kernel, bool]:
    """Return the kernel with only the needed statements, and True if this removed control flow."""
    marking = NeededMarker(private)
    found = [(marking.enter(task.bounds), marking.enter(task.body)) for task in kernel.tasks]
    marking.spread([*keep, *(v for task in kernel.tasks for v in (*task.begin, *task.end))])
    made = [
        (marking.rebuild(bounds, task.bounds), marking.rebuild(body, task.body))
        for task, (bounds, body) in zip(kernel.tasks, found)
    ]
    return _with_blocks(kernel, made), marking.flow_cut


def _with_blocks(kernel: Kernel, made: list[tuple[Block, Block]]) -> Kernel:
    """Return the kernel with new bounds and body for each task, or the same kernel if all of them are unchanged."""
    tasks = tuple(
        task if bounds is task.bounds and body is task.body else replace(task, bounds=bounds, body=body)
        for task, (bounds, body) in zip(kernel.tasks, made)
    )
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tasks)


# ---- liveness -----------------------------------------------------------------------------------------------


class _Liveness:
    """This class removes dead stores to locals by backward liveness analysis of one block.

    The effect of a block on the live locals is f(L) = A | (L - K). For a loop that leaves to `after`, the least
    solution of head = f(head | after) is therefore f(after): a first walk over the body gives the set at its end, and a
    second walk rewrites the body. In the first walk every `get` counts; in the rewriting walk only one whose value is
    used.

    Args:
        block: statements to clean.
        live_values: values that are used after the block.
        shared: locals that other tasks use too; they, and locals declared elsewhere, are live at every exit.
    """

    def __init__(self, block: Block, live_values: Collection[Value], shared: Collection[str]) -> None:
        self._used = set(live_values)
        self._bits: dict[str, int] = {}
        self._outer = 0
        self.dropped_get = False
        for name in _outer_locals(block, shared):
            self._outer |= self._bit(name)

    def run(self, block: Block) -> Block:
        """Return the block without dead stores, or the same object if there are none."""
        return self._sweep(block, self._outer, (), True)[0]

    def _bit(self, name: str | None) -> int:
        """Return the bit that represents a local in the live set, or 0 for None."""
        return 0 if name is None else self._bits.setdefault(name, 1 << len(self._bits))

    def _sweep(self, block: Block, live: int, frames: Exits, rewrite: bool) -> tuple[Block, int]:
        """Return the block, without dead stores if `rewrite` is true, and the locals that are live before the block.

        Args:
            block: statements to walk backward.
            live: locals that are live after the block.
            frames: for each enclosing frame, innermost last, what is live after `break` and after `continue`.
            rewrite: False to compute liveness only.
        """
        if not rewrite:
            for stmt in reversed(block):
                if type(stmt) in _STEPS:
                    live = self._step(stmt, live, frames, False)[1]
            return block, live
        made: list[Stmt] = []
        for stmt in reversed(block):
            cls = type(stmt)
            # A dropped statement does not add its operands to the used values, so chains of dead statements go at once.
            if cls in _DROPPED and self._is_dead(stmt, live):
                self.dropped_get |= cls is n.Get
                continue
            self._used.update(OPERANDS[cls](stmt))
            if cls in _STEPS:
                stmt, live = self._step(stmt, live, frames, True)
            made.append(stmt)
        made.reverse()
        return kept_block(block, made), live

    def _is_dead(self, stmt: Stmt, live: int) -> bool:
        """Return True if a statement is a `set` of a local that is not live, or if none of its results is used."""
        if isinstance(stmt, n.Set):
            return not live & self._bit(stmt.var)
        return self._used.isdisjoint(RESULTS[type(stmt)](stmt))

    def _step(self, stmt: Stmt, live: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        """Return the statement, rewritten if `rewrite` is true, and the set of locals live before the statement."""
        if isinstance(stmt, SCALAR_ASSIGNMENTS):
            return stmt, live & ~self._bit(stmt.var)
        if isinstance(stmt, n.Get):
            return stmt, live | self._bit(stmt.var)
        # A return leaves all frames, so only locals that are visible outside the block stay live.
        if isinstance(stmt, n.Return):
            return stmt, self._outer
        if isinstance(stmt, LOOP_JUMPS):
            inside = stmt.depth <= len(frames)
            return stmt, frames[-stmt.depth][isinstance(stmt, n.Continue)] if inside else self._outer
        if isinstance(stmt, n.If):
            then, before_then = self._sweep(stmt.then, live, frames, rewrite)
            orelse, before_else = self._sweep(stmt.orelse, live, frames, rewrite)
            return _changed(stmt, then=then, orelse=orelse), before_then | before_else
        if isinstance(stmt, n.Scope):
            body, live = self._sweep(stmt.body, live, (*frames, (live, live)), rewrite)
            return _changed(stmt, body=body), live
        if isinstance(stmt, n.For):
            return self._step_for(stmt, live, frames, rewrite)
        if isinstance(stmt, n.While):
            return self._step_while(stmt, live, frames, rewrite)
        return stmt, live

    def _step_for(self, stmt: n.For, after: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        latch = after | self._bit(stmt.stop)
        if rewrite:
            # The first walk over the body finds what the next trip reads at its head.
            latch |= self._sweep(stmt.body, latch, (*frames, (after, latch)), False)[1]
        body, before = self._sweep(stmt.body, latch, (*frames, (after, latch)), rewrite)
        return _changed(stmt, body=body), after | before

    def _step_while(self, stmt: n.While, after: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        latch = after | self._bit(stmt.stop)
        if rewrite:
            latch |= self._step_while(stmt, after, frames, False)[1]
        inside = (*frames, (after, latch))
        body, before_body = self._sweep(stmt.body, latch, inside, rewrite)
        # The condition runs before the body and before the exit, so both of their live sets reach its end.
        condition, before = self._sweep(stmt.condition, after | before_body, inside, rewrite)
        return _changed(stmt, condition=condition, body=body), before


def _outer_locals(block: Block, shared: Collection[str]) -> list[str]:
    """Return the locals that the block uses and that are declared elsewhere or shared with other tasks."""
    declared, used = set(), set()
    for stmt in walk(block):
        cls = type(stmt)
        if cls is n.Local:
            declared.add(stmt.var)  # type: ignore[attr-defined]
        elif cls is n.Get or cls is n.Set:
            used.add(stmt.var)  # type: ignore[attr-defined]
    return sorted(name for name in used | declared if name not in declared or name in shared)


def _changed(stmt: Stmt, **new: Any) -> Stmt:
    """Return the statement with the given attributes replaced, or the same object if all of them are unchanged."""
    return stmt if all(getattr(stmt, k) is block for k, block in new.items()) else replace_fields(stmt, **new)


def _sweep_kernel(kernel: Kernel, foreign: set[Value], crossing: set[str]) -> tuple[Kernel, bool]:
    """Return the kernel without dead stores to locals, and True if reads of locals became dead and were removed too."""
    more = False

    def sweep(block: Block, ends: tuple[Value, ...] = ()) -> Block:
        nonlocal more
        # Every value of a marked block is used, so only a `set` can be dead.
        if n.Set not in map(type, walk(block)):
            return block
        liveness = _Liveness(block, foreign.union(ends), crossing)
        made = liveness.run(block)
        more |= liveness.dropped_get
        return made

    made = [(sweep(t.bounds, (*t.begin, *t.end)), sweep(t.body)) for t in kernel.tasks]
    return _with_blocks(kernel, made), more


# ---- what crosses tasks -------------------------------------------------------------------------------------


_TOUCH_LOCALS = frozenset(
    cls for cls in EFFECTS if any(space == "local" for space, _ in (*EFFECTS[cls].reads, *EFFECTS[cls].writes))
)


def _foreign_values(kernel: Kernel) -> set[Value]:
    """Return the values that are defined in one task and used in another."""
    found: set[Value] = set()
    for task in kernel.tasks if len(kernel.tasks) > 1 else ():
        own = {v.id for stmt in walk_task(task) for v in RESULTS[type(stmt)](stmt)}
        found.update(v for stmt in walk_task(task) for v in OPERANDS[type(stmt)](stmt) if v.id not in own)
        found.update(v for v in (*task.begin, *task.end) if v.id not in own)
    return found


def _crossing_locals(kernel: Kernel) -> set[str]:
    """Return the names of the locals that more than one task uses; stage `source` permits this for serial tasks."""
    seen: set[str] = set()
    crossing: set[str] = set()
    for task in kernel.tasks if len(kernel.tasks) > 1 else ():
        touching = [stmt for stmt in walk_task(task) if type(stmt) in _TOUCH_LOCALS]
        names = {name for stmt in touching for space, name in (*reads(stmt), *writes(stmt)) if space == "local"}
        crossing |= names & seen
        seen |= names
    return crossing


def _drop_temps(kernel: Kernel, private: Collection[EffectPlace]) -> Kernel:
    """Return the kernel without the temporaries in `private` that no access of the kernel names."""
    if not kernel.temps:
        return kernel
    used = {s.array for s in walk_kernel(kernel) if isinstance(s, ACCESSES)}
    temps = tuple(t for t in kernel.temps if t.name in used or ("array", t.name) not in private)
    return kernel if len(temps) == len(kernel.temps) else replace(kernel, temps=temps)
