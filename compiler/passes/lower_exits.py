"""This pass replaces break, continue, return and scope by flags and branches, so that every block runs to its end.

    if c { A; break }; R                 →   if c { A; set brk, true } else { R }          one arm always leaves
    if c { if d { break } }; R           →   if c { if d { set brk; set skip } }; if not skip { R }

An exit of depth d sets `skip` of every frame that it passes up to its target, and `brk` of every loop that it leaves.
`skip` is declared at the head of a frame's body, `brk` before its loop, which tests it (`until brk`). Where an arm
always leaves, the statements after the `if` move into the other arm and no flag is read; flags that no statement reads
are dead code. A `return` in a serial task sets a temporary of that task, which later tasks test.

The condition of a while is never reversed, so a condition that changes reals (a function called there stores) moves
into the body:

    while { C } test %1 { B }            →    while { } test true until brk { C; if %1 { B } else { set brk } }
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..ir import nodes as n
from ..ir.depth import check_depth
from ..ir.fresh import FreshNames
from ..ir.kernels import Kernel, Task, Temp
from ..ir.roles import ARRAY_WRITES, EXITS, JUMPS, LOCAL_DECLARATIONS, LOCAL_WRITES, LOOP_JUMPS, LOOPS
from ..ir.statement import Block, Stmt
from ..ir.types import i32, u1
from ..ir.walk import NESTED, blocks, map_blocks, walk, walk_kernel

_LOWERED = frozenset(EXITS)
_MAY_EXIT = NESTED | frozenset(JUMPS)
_DEEPER = frozenset({*LOOPS, n.Scope})


def lower_exits(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `tasks` lowered to stage `structured`.

    Raises:
        Unsupported: blocks nest too deep afterwards.
    """
    if not any(type(s) in _LOWERED or type(s) is n.While and _acts_in_condition(s) for s in walk_kernel(kernel)):
        return kernel
    lowering = _ExitLowering(kernel)
    tasks = tuple(lowering.task(t) for t in kernel.tasks)
    return check_depth(replace(kernel, tasks=tasks, temps=kernel.temps + tuple(lowering.temps)))


@dataclass
class _ExitFrame:
    """An `_ExitFrame` is a loop, scope or task that is being lowered, with the flags of its exits.

    Attributes:
        skip: name of the flag that skips the rest of the body.
        brk: name of the flag that ends the loop; None for a frame that is no loop.
        used: flags that a statement reads.
    """

    skip: str
    brk: str | None = None
    used: set[str] = field(default_factory=set)


class _ExitLowering(FreshNames):
    """This class replaces break, continue, return and scope in the tasks of one kernel, in order.

    Attributes:
        temps: temporaries that the pass adds.
        returned: for each serial task so far with a `return`, the name of the temporary that it sets.
        serial: True while a serial task is lowered.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.temps: list[Temp] = []
        self.returned: list[str] = []
        self.memory = set(kernel.array_types())
        self.serial = True

    # -- tasks --------------------------------------------------------------------------------------------------

    def task(self, task: Task) -> Task:
        """Return the lowered task, which does nothing if an earlier serial task has returned from the kernel."""
        guards = tuple(self.returned)
        self.serial = not task.is_parallel
        if self.serial and any(isinstance(s, n.Return) for s in walk(task.body)):
            self.returned.append(self._temporary("$returned"))
            self.temps.append(Temp(self.returned[-1], u1))
        bounds = self._framed(task.bounds, [_ExitFrame(self.name("skip"))])
        lowered = replace(task, bounds=bounds, body=self._framed(task.body, [_ExitFrame(self.name("skip"))]))
        return self._guarded(lowered, guards) if guards else lowered

    def _temporary(self, base: str) -> str:
        """Return a name for a new temporary that is not used in the kernel."""
        names = (f"{base}.{k}" if k else base for k in itertools.count())
        name = next(name for name in names if name not in self.memory)
        self.memory.add(name)
        return name

    def _guarded(self, task: Task, flags: tuple[str, ...]) -> Task:
        """Return the task, changed to do nothing if a temporary in `flags` says that an earlier task returned."""
        b = self.builder(task.loc)
        done = b.load(flags[0], (), u1)
        for flag in flags[1:]:
            done = b.op("logical_or", done, b.load(flag, (), u1))
        if task.is_parallel:
            # An empty box makes the parallel task run no iteration.
            end = tuple(b.op("select", done, lo, hi) for lo, hi in zip(task.begin, task.end))
            return replace(task, bounds=task.bounds + self.done(b), end=end)
        b.if_(b.op("logic_not", done), list(task.body))
        return replace(task, body=self.done(b))

    # -- blocks -------------------------------------------------------------------------------------------------

    def _framed(self, block: Block, frames: list[_ExitFrame]) -> Block:
        """Return the lowered body of a loop, scope or task; a declaration of its skip flag comes first, if needed."""
        frame = frames[-1]
        body = self._block(block, frames)
        if frame.skip not in frame.used:
            return _without_set(body, frame.skip)
        b = self.builder(block[0].loc if block else 0)
        b.local(frame.skip, u1)
        return self.done(b) + body

    def _block(self, block: Block, frames: list[_ExitFrame]) -> Block:
        """Return the block without exits; the statements after a possible exit run only if no exit was taken."""
        out: list[Stmt] = []
        for position, stmt in enumerate(block):
            rest = block[position + 1 :]
            if isinstance(stmt, JUMPS):
                return (*out, *self._exit(stmt, frames))
            if isinstance(stmt, n.If) and (_leaves(stmt.then) or _leaves(stmt.orelse)):
                return (*out, self._absorb(stmt, rest, frames))
            out += self._statement(stmt, frames)
            # The rest runs only if the statement did not leave the block.
            if rest and _may_exit(stmt):
                return (*out, *self._guard(rest, frames))
        return tuple(out)

    def _absorb(self, stmt: n.If, rest: Block, frames: list[_ExitFrame]) -> Stmt:
        """Move the statements after an `if` into those of its blocks that do not always exit, and return the `if`.

        If both arms leave, these statements can never run and are dropped.
        """
        then = stmt.then if _leaves(stmt.then) else stmt.then + rest
        orelse = stmt.orelse if _leaves(stmt.orelse) else stmt.orelse + rest
        return replace(stmt, then=self._block(then, frames), orelse=self._block(orelse, frames))

    def _guard(self, rest: Block, frames: list[_ExitFrame]) -> Block:
        """Return the rest of a block in an `if` that runs it only while the skip flag of the frame is not set."""
        frame = frames[-1]
        frame.used.add(frame.skip)
        inner = self._block(rest, frames)
        b = self.builder(rest[0].loc)
        b.if_(b.op("logic_not", b.get(frame.skip, u1)), list(inner))
        return self.done(b)

    def _statement(self, stmt: Stmt, frames: list[_ExitFrame]) -> Block:
        if type(stmt) not in NESTED:
            return (stmt,)
        if isinstance(stmt, n.Scope):
            return self._scope(stmt, frames)
        if isinstance(stmt, LOOPS):
            return self._loop(stmt, frames)
        return (map_blocks(stmt, lambda inner: self._block(inner, frames)),)

    def _scope(self, stmt: n.Scope, frames: list[_ExitFrame]) -> Block:
        """Return the lowered statements of a scope, to be placed in the enclosing block."""
        return self._framed(stmt.body, [*frames, _ExitFrame(self.name("skip"))])

    def _loop(self, stmt: n.For | n.While, frames: list[_ExitFrame]) -> Block:
        if isinstance(stmt, n.While) and _acts_in_condition(stmt):
            return self._without_condition(stmt, frames)
        # Only a loop that an exit leaves needs the flag `brk`.
        left = any(depth_left >= 1 for depth_left in _loops_left(stmt.body))
        frame = _ExitFrame(self.name("skip"), stmt.stop or self.name("brk"))
        changes: dict[str, object] = {}
        if isinstance(stmt, n.While):
            changes["condition"] = self._block(stmt.condition, [*frames, frame])
        changes["body"] = self._framed(stmt.body, [*frames, frame])
        if not left or stmt.stop:
            return (replace(stmt, **changes),)  # type: ignore[arg-type]
        b = self.builder(stmt.loc)
        b.local(frame.brk or "", u1)
        return (*self.done(b), replace(stmt, stop=frame.brk, **changes))  # type: ignore[arg-type]

    def _without_condition(self, stmt: n.While, frames: list[_ExitFrame]) -> Block:
        """Return a while loop whose condition is moved to the head of its body, as statements.

        Runs of the old body are counted if the loop has a trip count.
        """
        b = self.builder(stmt.loc)
        dtype = stmt.trips.type if stmt.trips else i32
        counter = b.local(self.name("trips"), dtype) if stmt.trips else None
        before = b.take()
        with b.block() as condition:
            always = b.const(True, u1)
        with b.block() as head:
            b.if_(b.op("logic_not", stmt.test), [n.Break(1, loc=stmt.loc)])
            if counter:
                b.set(counter, b.op("add", b.get(counter, dtype), b.const(1, dtype)))
        self.next_id = b.next_id
        body = (*stmt.condition, *head, *stmt.body)
        loop = replace(stmt, condition=tuple(condition), test=always, body=body, trips=None)
        after = (n.Get(stmt.trips, counter, loc=stmt.loc),) if stmt.trips and counter else ()
        return (*before, *self._loop(loop, frames), *after)

    # -- exits --------------------------------------------------------------------------------------------------

    def _exit(self, stmt: Stmt, frames: list[_ExitFrame]) -> Block:
        """Return the statements that set all flags of a break, continue or return."""
        depth = len(frames) if isinstance(stmt, n.Return) else stmt.depth  # type: ignore[attr-defined]
        passed = frames[len(frames) - depth :]
        # `continue` starts the next trip of its target, so it leaves only the frames inside the target.
        left = passed[1:] if isinstance(stmt, n.Continue) else passed
        b = self.builder(stmt.loc)
        true = b.const(True, u1)
        for frame in reversed(passed):
            b.set(frame.skip, true)
        for frame in reversed(left):
            if frame.brk:
                b.set(frame.brk, true)
        if isinstance(stmt, n.Return) and self.serial:
            b.store(self.returned[-1], (), true)
        return self.done(b)


def _acts_in_condition(stmt: Stmt) -> bool:
    """Return True if the condition of a while changes reals that are visible outside the condition."""
    if not isinstance(stmt, n.While):
        return False
    own = {s.var for s in walk(stmt.condition) if isinstance(s, LOCAL_DECLARATIONS)}
    for inner in walk(stmt.condition):
        if isinstance(inner, ARRAY_WRITES) and inner.value.type.is_real:
            return True
        if isinstance(inner, LOCAL_WRITES) and inner.value.type.is_real and inner.var not in own:
            return True
    return False


def _without_set(block: Block, var: str) -> Block:
    """Return the block without stores to a flag that no statement reads and that is therefore not declared."""
    kept = tuple(s for s in block if not (isinstance(s, n.Set) and s.var == var))
    return tuple(map_blocks(s, lambda inner: _without_set(inner, var)) for s in kept)


def _leaves(block: Block) -> bool:
    """Return True if every path through the block ends in a break, continue or return."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, JUMPS):
        return True
    return isinstance(last, n.If) and _leaves(last.then) and _leaves(last.orelse)


def _escapes(stmt: Stmt, depth: int) -> Iterator[int]:
    """Yield, for each exit inside `stmt`, how many frames it leaves beyond the `depth` frames that surround it."""
    cls = type(stmt)
    if isinstance(stmt, n.Return):
        yield 1
    elif isinstance(stmt, LOOP_JUMPS):
        yield stmt.depth - depth
    elif cls in NESTED:
        for inner in blocks(stmt):
            for child in inner:
                if type(child) in _MAY_EXIT:
                    yield from _escapes(child, depth + (cls in _DEEPER))


def _may_exit(stmt: Stmt) -> bool:
    """Return True if a break, continue or return inside `stmt` may leave the block that contains `stmt`."""
    return type(stmt) in _MAY_EXIT and any(passed >= 1 for passed in _escapes(stmt, 0))


def _loops_left(body: Block) -> Iterator[int]:
    """Yield, for each exit in the body of a loop, 1 if it leaves the loop itself, and 0 if the loop goes on."""
    for stmt in body:
        yield from (_left(stmt, 0))


def _left(stmt: Stmt, depth: int) -> Iterator[int]:
    """Yield, for each exit inside `stmt`, 1 if it leaves the loop `depth` frames further out, and 0 otherwise."""
    cls = type(stmt)
    if isinstance(stmt, n.Return):
        yield 1
    elif isinstance(stmt, n.Break):
        yield int(stmt.depth > depth)
    elif isinstance(stmt, n.Continue):
        yield int(stmt.depth > depth + 1)
    elif cls in NESTED:
        for inner in blocks(stmt):
            for child in inner:
                if type(child) in _MAY_EXIT:
                    yield from _left(child, depth + (cls in _DEEPER))
