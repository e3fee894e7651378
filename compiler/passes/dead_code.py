"""Removes statements whose execution nothing can tell.

    local x: f32                      local x: f32
    set x, %0        // overwritten   set x, %1
    set x, %1                         %2: f32 = get x
    %2: f32 = get x                   store a[%3], %2
    %4: f32 = exp %2 // unused
    store a[%3], %2

Two analyses alternate until nothing is found. *Marking* starts at what is observable (stores to arrays,
asserts, prints, draws, returns) and marks what that needs: operands, everything that writes a place read, enclosing
statements, the jumps of a loop that stays. It ignores order, so cycles through locals, stacks and temporaries that
feed only themselves vanish. *Liveness* follows order: it drops a `set` that no path reads, and with it the values
that this one alone used, so that a chain of them goes at once.

Invariant: occurrences are marked, never nodes, for equal statements may stand in several places. A trap is no
effect: an unused division, load or element read goes, though it could have trapped.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.effects import EFFECTS, Place, reads, writes
from ..ir.nodes import Block, Kernel, Stmt, Task, Value
from ..ir.walk import blocks, map_blocks, operands, results, walk, walk_task

Keep = Callable[[Stmt], bool]
Exits = tuple[tuple[int, int], ...]
_FRAMES = (n.For, n.While, n.Scope)
_COMPOUND = (n.If, *_FRAMES)
# What is asked of every statement is looked up once. _VALUES: what goes if its result is not used.
_VALUES = frozenset(
    cls for cls in EFFECTS
    if not (EFFECTS[cls].writes or EFFECTS[cls].observable or EFFECTS[cls].jumps or issubclass(cls, _COMPOUND))
)  # fmt: skip
_DECLARE = frozenset(cls for cls in EFFECTS if EFFECTS[cls].declares)
_JUMPS = frozenset(cls for cls in EFFECTS if EFFECTS[cls].jumps)
_PINNED = frozenset(cls for cls in EFFECTS if EFFECTS[cls].observable) | {n.Return}


def remove_dead_code(kernel: Kernel, keep_temps: Collection[str] = ()) -> Kernel:
    """The kernel without dead statements and unused temporaries; the same object if there are none.

    keep_temps: temporaries that somebody reads from outside. Tasks stay, even empty ones: their numbers key the
    random draws and the rows of the adstacks.
    """
    private = {("array", t.name) for t in kernel.temps if t.name not in keep_temps}
    foreign = {v for task in kernel.tasks for v in _foreign_values(task)}
    crossing = _crossing_locals(kernel)
    kernel = _mark_kernel(kernel, private)
    while (swept := _sweep_kernel(kernel, foreign, crossing)) is not kernel:
        kernel = _mark_kernel(swept, private)
    return _drop_temps(kernel, private)


def clean_block(block: Block, live_values: Collection[Value] = (), keep: Keep | None = None,
                private: Collection[Place] = ()) -> Block:  # fmt: skip
    """The body of a task, or a part of one, without dead statements; the same object if there are none.

    live_values: values of the block that are read after it. keep: statements that must stay (with what they need).
    private: places declared elsewhere that only this block uses, e.g. ("array", "$t"). Other places that the block
    does not declare count as read by others.
    """
    block = _mark_block(block, live_values, keep, private)
    while (swept := _Liveness(block, live_values, (), keep).run(block)) is not block:
        block = _mark_block(swept, live_values, keep, private)
    return block


# ---- marking ------------------------------------------------------------------------------------------------


class _Occurrence:
    """A statement at one position. children: occurrences of each nested block; jumps: those that aim at it."""

    __slots__ = ("stmt", "parent", "children", "jumps", "needed")

    def __init__(self, stmt: Stmt, parent: _Occurrence | None) -> None:
        self.stmt = stmt
        self.parent = parent
        self.children: list[list[_Occurrence]] = []
        self.jumps: list[_Occurrence] = []
        self.needed = False


class _Marking:
    """The occurrences of some blocks, and the marks that spread over them.

    Invariant of `spread`: whatever a marked occurrence needs in order to do the same as before is marked.
    """

    def __init__(self, keep: Keep | None, private: Collection[Place]) -> None:
        self._keep = keep
        self._private = set(private)
        self._defs: dict[Value, _Occurrence] = {}
        self._writers: defaultdict[Place, list[_Occurrence]] = defaultdict(list)
        self._declarers: defaultdict[Place, list[_Occurrence]] = defaultdict(list)
        self._read: set[Place] = set()
        self._written: set[Place] = set()
        self.used: set[Value] = set()
        self._all: list[_Occurrence] = []
        self._work: list[_Occurrence] = []

    def enter(self, block: Block, parent: _Occurrence | None = None,
              frames: tuple[_Occurrence, ...] = ()) -> list[_Occurrence]:  # fmt: skip
        """Register the statements of a block; what follows a jump in a nested block is left out."""
        found = []
        for stmt in block:
            at = _Occurrence(stmt, parent)
            found.append(at)
            self._register(at, frames)
            if isinstance(stmt, _COMPOUND):
                inside = (*frames, at) if isinstance(stmt, _FRAMES) else frames
                at.children = [self.enter(inner, at, inside) for inner in blocks(stmt)]
            elif parent and type(stmt) in _JUMPS:
                break
        return found

    def _register(self, at: _Occurrence, frames: tuple[_Occurrence, ...]) -> None:
        stmt = at.stmt
        self._all.append(at)
        for value in results(stmt):
            self._defs[value] = at
        for place in writes(stmt):
            self._writers[place].append(at)
            if type(stmt) in _DECLARE:
                self._declarers[place].append(at)
        if isinstance(stmt, (n.Break, n.Continue)) and stmt.depth <= len(frames):
            frames[-stmt.depth].jumps.append(at)

    def spread(self, live_values: Iterable[Value]) -> None:
        """Mark the roots and all that they need."""
        self._need_values(live_values)
        for at in self._all:
            if self._is_root(at.stmt):
                self._need(at)
        targets = {id(jump) for at in self._all for jump in at.jumps}
        for at in self._all:
            if isinstance(at.stmt, (n.Break, n.Continue)) and id(at) not in targets:
                self._need(at)
        while self._work:
            self._follow(self._work.pop())

    def _is_root(self, stmt: Stmt) -> bool:
        if type(stmt) in _PINNED or self._keep and self._keep(stmt):
            return True
        return any(not self._is_private(place) for place in writes(stmt))

    def _is_private(self, place: Place) -> bool:
        return place in self._private or place in self._declarers

    def _need(self, at: _Occurrence) -> None:
        if not at.needed:
            at.needed = True
            self._work.append(at)

    def _need_values(self, values: Iterable[Value]) -> None:
        for value in values:
            self.used.add(value)
            if value in self._defs:
                self._need(self._defs[value])

    def _follow(self, at: _Occurrence) -> None:
        """A place once read or written needs no second look."""
        self._need_values(operands(at.stmt))
        for place in reads(at.stmt):
            if place not in self._read:
                self._read.add(place)
                self._need_all(self._writers.get(place, ()))
        for place in writes(at.stmt):
            if place not in self._written:
                self._written.add(place)
                self._need_all(self._declarers.get(place, ()))
        self._need_all(at.jumps)
        if at.parent:
            self._need(at.parent)

    def _need_all(self, found: Iterable[_Occurrence]) -> None:
        for at in found:
            self._need(at)


    def rebuild(self, found: list[_Occurrence], block: Block) -> Block:
        """The block with the marked occurrences alone; the same object if all are marked."""
        made = tuple(self._rebuild_stmt(at) for at in found if at.needed)
        return block if len(made) == len(block) and all(a is b for a, b in zip(made, block)) else made

    def _rebuild_stmt(self, at: _Occurrence) -> Stmt:
        if not at.children:
            return at.stmt
        inner: Iterator[list[_Occurrence]] = iter(at.children)
        stmt = map_blocks(at.stmt, lambda block: self.rebuild(next(inner), block))
        if isinstance(stmt, (n.For, n.While)) and stmt.trips and stmt.trips not in self.used:
            return replace(stmt, trips=None)
        return stmt


def _mark_block(block: Block, live_values: Collection[Value], keep: Keep | None, private: Collection[Place]) -> Block:
    marking = _Marking(keep, private)
    found = marking.enter(block)
    marking.spread(live_values)
    return marking.rebuild(found, block)


def _mark_kernel(kernel: Kernel, private: Collection[Place]) -> Kernel:
    marking = _Marking(None, private)
    found = [(marking.enter(task.bounds), marking.enter(task.body)) for task in kernel.tasks]
    marking.spread([v for task in kernel.tasks for v in (*task.begin, *task.end)])
    return _with_blocks(kernel, [
        (marking.rebuild(bounds, task.bounds), marking.rebuild(body, task.body))
        for task, (bounds, body) in zip(kernel.tasks, found)
    ])  # fmt: skip


def _with_blocks(kernel: Kernel, made: list[tuple[Block, Block]]) -> Kernel:
    """The kernel with new (bounds, body) of each task; the same object if none is new."""
    tasks = tuple(
        task if bounds is task.bounds and body is task.body else replace(task, bounds=bounds, body=body)
        for task, (bounds, body) in zip(kernel.tasks, made)
    )
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tasks)


# ---- liveness -----------------------------------------------------------------------------------------------


class _Liveness:
    """Backward liveness: of scalar locals as bit sets, of values as the set of those used.

    The effect of a block on the live locals is f(L) = A | (L - K), so for a loop that leaves to `after` the least
    solution of head = f(head | after) is f(after): one look at the body gives the set at its end, a second walk
    rewrites it. In a look every get counts; in a rewriting walk only one whose value is used.

    live_values: values used behind the block. shared: locals that other tasks use too; they, and those declared
    elsewhere, live at every exit.
    """

    def __init__(
        self, block: Block, live_values: Collection[Value], shared: Collection[str], keep: Keep | None
    ) -> None:
        self._keep = keep
        self._used = set(live_values)
        self._bits: dict[str, int] = {}
        self._outer = 0
        for name in _outer_locals(block, shared):
            self._outer |= self._bit(name)

    def run(self, block: Block) -> Block:
        """The block without dead stores; the same object if there are none."""
        return self._sweep(block, self._outer, (), True)[0]

    def _bit(self, name: str | None) -> int:
        return 0 if name is None else self._bits.setdefault(name, 1 << len(self._bits))

    def _sweep(self, block: Block, live: int, frames: Exits, rewrite: bool) -> tuple[Block, int]:
        """The block and what is live before it. frames: live after `break` and after `continue`, innermost last."""
        made: list[Stmt] = []
        for stmt in reversed(block):
            if rewrite:
                if self._is_dead(stmt, live):
                    continue
                self._used.update(operands(stmt))
            new, live = self._step(stmt, live, frames, rewrite)
            made.append(new)
        made.reverse()
        same = len(made) == len(block) and all(a is b for a, b in zip(made, block))
        return (block if same else tuple(made)), live

    def _is_dead(self, stmt: Stmt, live: int) -> bool:
        """A set of a local that is not live, or a value that is not used."""
        if self._keep and self._keep(stmt):
            return False
        if isinstance(stmt, n.Set):
            return not live & self._bit(stmt.var)
        return type(stmt) in _VALUES and self._used.isdisjoint(results(stmt))

    def _step(self, stmt: Stmt, live: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        if isinstance(stmt, (n.Set, n.Local)):
            return stmt, live & ~self._bit(stmt.var)
        if isinstance(stmt, n.Get):
            return stmt, live | self._bit(stmt.var)
        if isinstance(stmt, n.Return):
            return stmt, self._outer
        if isinstance(stmt, (n.Break, n.Continue)):
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
            latch |= self._sweep(stmt.body, latch, (*frames, (after, latch)), False)[1]
        body, before = self._sweep(stmt.body, latch, (*frames, (after, latch)), rewrite)
        return _changed(stmt, body=body), after | before

    def _step_while(self, stmt: n.While, after: int, frames: Exits, rewrite: bool) -> tuple[Stmt, int]:
        latch = after | self._bit(stmt.stop)
        if rewrite:
            latch |= self._step_while(stmt, after, frames, False)[1]
        inside = (*frames, (after, latch))
        body, before_body = self._sweep(stmt.body, latch, inside, rewrite)
        condition, before = self._sweep(stmt.condition, after | before_body, inside, rewrite)
        return _changed(stmt, condition=condition, body=body), before


def _outer_locals(block: Block, shared: Collection[str]) -> list[str]:
    """Locals that the block uses and that somebody else uses too."""
    declared, used = set(), set()
    for stmt in walk(block):
        if isinstance(stmt, n.Local):
            declared.add(stmt.var)
        elif isinstance(stmt, (n.Get, n.Set)):
            used.add(stmt.var)
    return sorted(name for name in used | declared if name not in declared or name in shared)


def _changed(stmt: Stmt, **new: Any) -> Stmt:
    """The statement with these blocks; the same object if they are its own."""
    return stmt if all(getattr(stmt, k) is block for k, block in new.items()) else replace(stmt, **new)


def _sweep_kernel(kernel: Kernel, foreign: set[Value], crossing: set[str]) -> Kernel:
    def sweep(block: Block, ends: tuple[Value, ...] = ()) -> Block:
        return _Liveness(block, foreign.union(ends), crossing, None).run(block)

    return _with_blocks(kernel, [(sweep(t.bounds, (*t.begin, *t.end)), sweep(t.body)) for t in kernel.tasks])


# ---- what crosses tasks -------------------------------------------------------------------------------------


def _places(task: Task) -> set[Place]:
    return {place for stmt in walk_task(task) for place in (*reads(stmt), *writes(stmt))}


def _foreign_values(task: Task) -> set[Value]:
    """Values that the task uses and another one defines."""
    own = {v for stmt in walk_task(task) for v in results(stmt)}
    used = {v for stmt in walk_task(task) for v in operands(stmt)}
    return (used | {*task.begin, *task.end}) - own


def _crossing_locals(kernel: Kernel) -> set[str]:
    """Locals that several tasks use, as serial tasks of stage `source` may."""
    seen: set[str] = set()
    crossing: set[str] = set()
    for task in kernel.tasks:
        names = {name for space, name in _places(task) if space == "local"}
        crossing |= names & seen
        seen |= names
    return crossing


def _drop_temps(kernel: Kernel, private: Collection[Place]) -> Kernel:
    """Without the private temporaries that no statement names."""
    used = {place for task in kernel.tasks for place in _places(task)}
    temps = tuple(t for t in kernel.temps if ("array", t.name) in used or ("array", t.name) not in private)
    return kernel if len(temps) == len(kernel.temps) else replace(kernel, temps=temps)
