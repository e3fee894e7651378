"""Which indices of a task code must compare with the extents of their arrays: all that are not proved to be inside.

    for i in 0 .. shape(x, 0):
      load x[i]        i is proved: nothing to look at
      load y[i]        compared with shape(y, 0)
      store y[i]       proved: the same index of the same array was looked at above
      load y[i + 1]    i + 1 < shape(y, 0) is compared; that it is not negative is known
      for j in 0 .. n:
        load a[i, j]   compared once, before the loop: for its first and its last j

An index is proved by linear inequalities: bounds of the loops around, conditions of the branches around, and indices
that were looked at before. Invariant: what is proved holds in every execution that has not ended with an error.
Results are kept by the identity of statements, so they serve the very task that was analyzed; of a statement that
occurs more than once, what holds at every occurrence counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ir import nodes as n
from ..ir.nodes import Block, Stmt, Task, Value
from ..ir.types import i32, i64
from ..ir.walk import RESULTS, blocks, walk
from .affine import Affine, add
from .index_facts import IndexFacts, Path

Access = n.Load | n.Store | n.Atomic
LEAVES = (n.Break, n.Continue, n.Return)


@dataclass(frozen=True)
class LoopCheck:
    """An index that a loop's own accesses use in every trip: coefficient * (index of the loop) + rest.

    The symbols of `rest` have one value for all trips.
    """

    stmt: Access
    axis: int
    coefficient: int
    rest: Affine


Conditions = tuple[tuple[Affine, ...], ...]
"""In each of the tuples one form at least must not be negative."""


@dataclass
class IndexChecks:
    """What code must look at. Statements are named by `id`; the task keeps them alive.

    default: whether an access that is not named is looked at, on all axes.
    axes: by access, the axes whose index is looked at there.
    launches: by access and axis of these, conditions on arguments and extents that make the comparison needless.
    elements: accesses of local arrays that are proved to be inside. loops: by loop, what is looked at
    before its first trip.
    """

    task: Task
    default: bool = True
    axes: dict[int, frozenset[int]] = field(default_factory=dict)
    launches: dict[tuple[int, int], Conditions] = field(default_factory=dict)
    elements: set[int] = field(default_factory=set)
    loops: dict[int, list[LoopCheck]] = field(default_factory=dict)

    def of(self, stmt: Access) -> frozenset[int]:
        """Axes whose index code looks at where the access stands."""
        found = self.axes.get(id(stmt))
        if found is not None:
            return found
        return frozenset(range(len(stmt.indices))) if self.default else frozenset()

    def where_inside(self) -> IndexChecks:
        """What is left to look at where extents and arguments make all comparisons needless that they can."""
        left = {key: frozenset(a for a in axes if (key, a) not in self.launches) for key, axes in self.axes.items()}
        return replace(self, axes=left, launches={})

    def before(self, loop: n.For) -> list[LoopCheck]:
        """What code looks at before the first trip of a loop."""
        return self.loops.get(id(loop), [])


def index_checks(task: Task, hoist: bool, learns: bool = True) -> IndexChecks:
    """Analyze a task. hoist: checks of serial loops may stand before the loop, and every update looks at its index;
    else threads may keep sums, whose index is looked at later. learns: an access that was looked at proves later ones:
    the launch has ended if it was outside.
    """
    analysis = _Analysis(task, hoist, learns)
    analysis.run()
    return analysis.found


def primal(array: str) -> str:
    """The array whose extents an array has: adjoints and tangents are of the shape of their primals."""
    while array.endswith((".grad", ".dual")):
        array = array[:-5]
    return array


Key = tuple[str, int, Affine | Value]
"""(array, axis, index): its form where that is its value as a whole number, else the value itself."""


class _Analysis:
    """path: conditions that hold here. depth: serial loops around. inside: indices known to be in their arrays wherever
    these conditions hold, as far as the present trip of each loop around has come.

    sets: of locals with one assignment in the task, what was assigned, under which path, once that was passed.
    """

    def __init__(self, task: Task, hoist: bool, learns: bool) -> None:
        self.task, self.hoist, self.learns = task, hoist, learns
        self.outside: set[int] = set()
        self.found = IndexChecks(task)
        self.facts = IndexFacts(task)
        self.path: Path = frozenset()
        self.depth = 0
        self.inside: list[tuple[Key, Path]] = []
        self.known: dict[Key, list[Path]] = {}
        self.sizes: dict[str, int] = {}
        self.sets: dict[str, tuple[Affine, Path] | None] = {}
        counts: dict[str, int] = {}
        for stmt in walk(task.body):
            if isinstance(stmt, n.Set):
                counts[stmt.var] = counts.get(stmt.var, 0) + 1
        self.once = {name for name, count in counts.items() if count == 1}

    def run(self) -> None:
        """Visit the bounds, then the body under what the bounds say of the indices."""
        self.block(self.task.bounds)
        for index, begin, end in zip(self.task.indices, self.task.begin, self.task.end):
            low, high = self.facts.value(begin), self.facts.value(end)
            if low is not None and high is not None:
                self.facts.bound(index, low, high, 1)
        self.block(self.task.body)

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, body: Block) -> None:
        """Visit a block; what is known at its end is forgotten by whoever bracketed it."""
        for stmt in body:
            kind = type(stmt)
            if kind in (n.Load, n.Store, n.Atomic):
                self._access(stmt)  # type: ignore[arg-type]
            elif kind in (n.GetElement, n.SetElement):
                self._element(stmt)  # type: ignore[arg-type]
            elif kind is n.LocalArray:
                self.sizes[stmt.var] = stmt.size  # type: ignore[attr-defined]
            elif kind is n.Op:
                self.facts.operation(stmt)  # type: ignore[arg-type]
            elif kind is n.Set:
                self._set(stmt)  # type: ignore[arg-type]
            elif kind is n.Get:
                self._get(stmt)  # type: ignore[arg-type]
            elif kind is n.If:
                self._if(stmt)  # type: ignore[arg-type]
            elif kind is n.For:
                self._for(stmt)  # type: ignore[arg-type]
            elif blocks(stmt):
                self._others(stmt)

    def _repeated(self, body: Block) -> None:
        """Visit a block that runs any number of times: nothing is known behind it."""
        mark, known = self.facts.mark(), len(self.inside)
        self.depth += 1
        self.block(body)
        self.depth -= 1
        self.facts.forget(mark)
        self._forget_inside(known)

    def _forget_inside(self, known: int) -> None:
        while len(self.inside) > known:
            self.known[self.inside.pop()[0]].pop()

    def _others(self, stmt: Stmt) -> None:
        for body in blocks(stmt):
            self._repeated(body)

    def _if(self, stmt: n.If) -> None:
        around = self.path
        for body, taken in ((stmt.then, True), (stmt.orelse, False)):
            mark = self.facts.mark()
            self.facts.assume(stmt.cond, taken)
            self.path = around | {(stmt.cond, taken)}
            self.block(body)
            self.path = around
            self.facts.forget(mark)

    def _set(self, stmt: n.Set) -> None:
        form = self.facts.value(stmt.value) if stmt.value.type.is_int else None
        if stmt.var in self.once and self.depth == 0 and form is not None:
            self.sets[stmt.var] = form, self.path

    def _get(self, stmt: n.Get) -> None:
        known = self.sets.get(stmt.var)
        if known is not None:
            self.facts.forms.kept[stmt.result] = known

    def _for(self, stmt: n.For) -> None:
        mark, known = self.facts.mark(), len(self.inside)
        begin, end = self.facts.value(stmt.begin), self.facts.value(stmt.end)
        if begin is not None and end is not None:
            self.facts.bound(stmt.index, begin, end, stmt.step)
        if self.hoist and stmt.stop is None and stmt.index.type in (i32, i64):
            self._hoist(stmt)
        self._repeated(stmt.body)
        self.facts.forget(mark)
        self._forget_inside(known)

    # -- accesses -------------------------------------------------------------------------------------------

    def _access(self, stmt: Access) -> None:
        if not stmt.indices:
            return
        needed = {axis for axis in range(len(stmt.indices)) if not self._proved(stmt, axis)}
        again = id(stmt) in self.found.axes
        self.found.axes[id(stmt)] = frozenset(needed) | self.found.axes.get(id(stmt), frozenset())
        for axis in needed:
            conditions = self._conditions(stmt, axis) if not again else ()
            self.found.launches.pop((id(stmt), axis), None)
            if conditions:
                self.found.launches[id(stmt), axis] = conditions
            self._looked_at(stmt, axis)

    def _form(self, stmt: Access, axis: int) -> Affine:
        return self.facts.forms.resolved(self.facts.forms.form(stmt.indices[axis]), self.path)

    def _key(self, stmt: Access, axis: int) -> Key:
        form, index = self._form(stmt, axis), stmt.indices[axis]
        return primal(stmt.array), axis, form if self.facts.is_exact(form, index) else index

    def _proved(self, stmt: Access, axis: int) -> bool:
        form, array = self._form(stmt, axis), primal(stmt.array)
        if any(path <= self.path for path in self.known.get(self._key(stmt, axis), ())):
            return True
        if stmt.indices[axis].type not in (i32, i64) or not self.facts.widens_exactly(stmt.indices[axis]):
            return False
        room = Affine(-1, ((("shape", array, axis), 1),))
        return self.facts.holds(form) and self.facts.holds(add(room, form, -1))

    def _conditions(self, stmt: Access, axis: int) -> Conditions:
        """What a launch can find out before any iteration; () if that does not tell."""
        form, index = self._form(stmt, axis), stmt.indices[axis]
        if index.type not in (i32, i64) or not self.facts.widens_exactly(index):
            return ()
        room = Affine(-1, ((("shape", primal(stmt.array), axis), 1),))
        found = []
        for goal in (form, add(room, form, -1)):
            if not self.facts.holds(goal):
                found.append(self.facts.residuals(goal))
        return tuple(found) if all(found) else ()

    def _looked_at(self, stmt: Access, axis: int) -> None:
        """From here on the index is known to be inside."""
        if not self.learns or isinstance(stmt, n.Atomic) and not self.hoist:
            return
        form, array, key = self._form(stmt, axis), primal(stmt.array), self._key(stmt, axis)
        self.inside.append((key, self.path))
        self.known.setdefault(key, []).append(self.path)
        index = stmt.indices[axis]
        if self.facts.is_exact(form, index):
            self.facts.learn(form)
            self.facts.learn(add(Affine(-1, ((("shape", array, axis), 1),)), form, -1))

    def _element(self, stmt: n.GetElement | n.SetElement) -> None:
        """An access of a local array, whose size is a constant. What holds at every occurrence counts."""
        form = self.facts.forms.resolved(self.facts.forms.form(stmt.index), self.path)
        size = self.sizes.get(stmt.var, 0)
        exact = stmt.index.type in (i32, i64) and self.facts.widens_exactly(stmt.index)
        if exact and self.facts.holds(form) and self.facts.holds(add(Affine(size - 1), form, -1)):
            if id(stmt) not in self.outside:
                self.found.elements.add(id(stmt))
        else:
            self.outside.add(id(stmt))
            self.found.elements.discard(id(stmt))

    # -- loops ----------------------------------------------------------------------------------------------

    def _hoist(self, loop: n.For) -> None:
        """Have indices looked at before a loop that every trip uses and that are affine in the loop's own."""
        made = {v for s in walk(loop.body) for v in RESULTS[type(s)](s)} | {loop.index}
        checks: list[LoopCheck] = []
        for stmt in loop.body:
            if isinstance(stmt, Access):
                for axis in range(len(stmt.indices)):
                    form = self.facts.forms.form(stmt.indices[axis])  # of values that are known before the loop
                    known = self.facts.is_exact(form, stmt.indices[axis]) and _is_fixed(form, made, loop.index)
                    if known and not self._proved(stmt, axis):
                        c = form.coefficient(loop.index)
                        checks.append(LoopCheck(stmt, axis, c, form.without(frozenset({loop.index}))))
                        self._looked_at(stmt, axis)
            elif isinstance(stmt, LEAVES) or any(isinstance(s, LEAVES) for b in blocks(stmt) for s in walk(b)):
                break
        if checks:
            self.found.loops.setdefault(id(loop), []).extend(checks)


def _is_fixed(form: Affine, made: set[Value], index: Value) -> bool:
    """Whether no symbol of a form but the index is of the loop, and each can be computed before it."""
    return all(s == index or isinstance(s, tuple) or isinstance(s, Value) and s not in made for s in form.symbols())
