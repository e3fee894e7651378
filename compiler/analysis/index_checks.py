"""This module decides which indices of a task need a comparison with array extents: those not proved inside.

    for i in 0 .. shape(x, 0):
      load x[i]        i is proved: no check is needed
      load y[i]        compared with shape(y, 0)
      store y[i]       proved: the same index of the same array was checked above
      load y[i + 1]    i + 1 < shape(y, 0) is compared; that it is not negative is known
      for j in 0 .. n:
        load a[i, j]   compared once, before the loop: for its first and its last j
      within %j, %n    proved likewise, %n in the place of the extent

An index is proved by linear inequalities: bounds of enclosing loops, conditions of enclosing branches, and indices that
were checked before. Invariant: a proof holds in every execution that has not ended with an error. Results are stored by
the identity of statements, so they apply only to the task object that was analyzed. For a statement that occurs more
than once, a result must hold at every occurrence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.roles import JUMPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import i32, i64
from ..ir.walk import RESULTS, blocks, walk
from .affine import Affine, add
from .index_facts import BranchPath, IndexFacts

Access = n.Load | n.Store | n.Atomic
Checked = Access | n.Within


@dataclass(frozen=True)
class LoopCheck:
    """Represent an index check that runs once before a loop, for an index coefficient * (loop index) + rest.

    Attributes:
        stmt: the access or `within` whose index is checked.
        axis: number of the axis to which the index belongs.
        coefficient: factor of the index of the loop.
        rest: form whose symbols have one value for all trips.
        extent: extent of a `within`; that of an array is known by its name.
    """

    stmt: Checked
    axis: int
    coefficient: int
    rest: Affine
    extent: Affine | None = None


Conditions = tuple[tuple[Affine, ...], ...]
"""In each of these tuples, at least one form must not be negative."""


@dataclass
class IndexChecks:
    """Represent the index checks that the code of one task must make: at accesses, before loops, and at launch.

    Statements are named by `id`; the task keeps them alive.

    Attributes:
        task: the task that was analyzed.
        default: True if an access without an entry in `axes` is checked on all axes.
        axes: for each access, the axes whose index is checked at the access.
        launches: for an access and one of these axes, conditions on arguments and extents that make the check needless.
        elements: accesses of local arrays that are proved to be inside.
        loops: for each loop, what is checked before its first trip.
    """

    task: Task
    default: bool = True
    axes: dict[int, frozenset[int]] = field(default_factory=dict)
    launches: dict[tuple[int, int], Conditions] = field(default_factory=dict)
    elements: set[int] = field(default_factory=set)
    loops: dict[int, list[LoopCheck]] = field(default_factory=dict)

    def of(self, stmt: Checked) -> frozenset[int]:
        """Return the axes of an access whose indices are checked at the access itself."""
        found = self.axes.get(id(stmt))
        if found is not None:
            return found
        return frozenset(range(len(indices_of(stmt)))) if self.default else frozenset()

    def where_inside(self) -> IndexChecks:
        """Return the index checks that remain if all launch conditions in `launches` hold."""
        left = {key: frozenset(a for a in axes if (key, a) not in self.launches) for key, axes in self.axes.items()}
        return replace(self, axes=left, launches={})

    def before(self, loop: n.For) -> list[LoopCheck]:
        """Return the index checks that code must make before the first trip of a loop."""
        return self.loops.get(id(loop), [])


def index_checks(task: Task, hoist: bool, learns: bool = True) -> IndexChecks:
    """Analyze a task and return the checks that its code must make.

    Args:
        task: the task.
        hoist: True if the checks of a serial loop may run once before the loop, and each atomic checks its index at
            once. False if not, as on GPUs, where a thread may first add up values and check the index later.
        learns: True if a checked access proves later ones, because the launch has ended if the access was outside.
    """
    analysis = _IndexAnalysis(task, hoist, learns)
    analysis.run()
    return analysis.found


def indices_of(stmt: Checked) -> tuple[Value, ...]:
    """Return the indices of an access, one for each axis, or the single index of a `within`."""
    return (stmt.index,) if isinstance(stmt, n.Within) else stmt.indices


def shape_array(array: str) -> str:
    """Return the array that gives `array` its shape: the primal of an adjoint or tangent, else the array itself."""
    while array.endswith((".grad", ".dual")):
        array = array[:-5]
    return array


CheckKey = tuple[str | Affine | Value, int, Affine | Value]
"""A key is (array or extent, axis, index); the index is a form if that equals it as a whole number, else a value."""


class _IndexAnalysis:
    """Walk a task in textual order and prove each index to be inside, or record that it needs a check.

    Attributes:
        outside: accesses of local arrays that are not proved at some occurrence.
        path: conditions that hold at the current place.
        depth: number of enclosing serial loops.
        inside: indices that earlier statements have checked, each with the conditions under which the check ran.
        known: the same conditions, by index.
        sizes: sizes of the local arrays.
        sets: for locals with a single assignment in the task: the value assigned and the path of the assignment, once
            the walk has passed it.
        once: locals with a single assignment in the task.
    """

    def __init__(self, task: Task, hoist: bool, learns: bool) -> None:
        self.task, self.hoist, self.learns = task, hoist, learns
        self.outside: set[int] = set()
        self.found = IndexChecks(task)
        self.facts = IndexFacts(task)
        self.path: BranchPath = frozenset()
        self.depth = 0
        self.inside: list[tuple[CheckKey, BranchPath]] = []
        self.known: dict[CheckKey, list[BranchPath]] = {}
        self.sizes: dict[str, int] = {}
        self.sets: dict[str, tuple[Affine, BranchPath] | None] = {}
        counts: dict[str, int] = {}
        for stmt in walk(task.body):
            if isinstance(stmt, n.Set):
                counts[stmt.var] = counts.get(stmt.var, 0) + 1
        self.once = {name for name, count in counts.items() if count == 1}

    def run(self) -> None:
        """Visit the bounds of the task, then its body with the facts that follow from the bounds."""
        self.block(self.task.bounds)
        for index, begin, end in zip(self.task.indices, self.task.begin, self.task.end):
            low, high = self.facts.value(begin), self.facts.value(end)
            if low is not None and high is not None:
                self.facts.bound(index, low, high, 1)
        self.block(self.task.body)

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, body: Block) -> None:
        """Visit the statements of a block; the caller removes the facts that hold only inside of it."""
        for stmt in body:
            kind = type(stmt)
            if kind in (n.Load, n.Store, n.Atomic, n.Within):
                self._access(stmt)  # type: ignore[arg-type]
            elif kind in (n.GetElement, n.SetElement, n.UpdateElement):
                self._element(stmt)  # type: ignore[arg-type]
            elif kind in (n.LocalArray, n.SharedArray):
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
        """Visit a block that runs any number of times, then drop the facts that were learned in it."""
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

    def _access(self, stmt: Checked) -> None:
        if not indices_of(stmt):
            return
        needed = {axis for axis in range(len(indices_of(stmt))) if not self._proved(stmt, axis)}
        again = id(stmt) in self.found.axes
        self.found.axes[id(stmt)] = frozenset(needed) | self.found.axes.get(id(stmt), frozenset())
        for axis in needed:
            # A statement that occurs twice may hold under different conditions, so it keeps its check in every launch.
            conditions = self._conditions(stmt, axis) if not again else ()
            self.found.launches.pop((id(stmt), axis), None)
            if conditions:
                self.found.launches[id(stmt), axis] = conditions
            self._looked_at(stmt, axis)

    def _form(self, stmt: Checked, axis: int) -> Affine:
        return self.facts.forms.resolved(self.facts.forms.form(indices_of(stmt)[axis]), self.path)

    def _extent(self, stmt: Checked, axis: int) -> Affine | None:
        """Return the affine form of the extent with which an index is compared, or None if its value may wrap."""
        if not isinstance(stmt, n.Within):
            return Affine(0, ((("shape", shape_array(stmt.array), axis), 1),))
        form = self.facts.value(stmt.extent)
        return None if form is None else self.facts.forms.resolved(form, self.path)

    def _key(self, stmt: Checked, axis: int) -> CheckKey:
        form, index = self._form(stmt, axis), indices_of(stmt)[axis]
        whose = (self._extent(stmt, axis) or stmt.extent) if isinstance(stmt, n.Within) else shape_array(stmt.array)
        return whose, axis, form if self.facts.is_exact(form, index) else index

    def _goals(self, stmt: Checked, axis: int) -> tuple[Affine, ...]:
        """Return affine forms that are >= 0 exactly if the index is inside of its axis, or () if they may wrap."""
        extent, index = self._extent(stmt, axis), indices_of(stmt)[axis]
        if extent is None or index.type not in (i32, i64) or not self.facts.widens_exactly(index):
            return ()
        form = self._form(stmt, axis)
        return form, add(add(extent, Affine(-1)), form, -1)

    def _proved(self, stmt: Checked, axis: int) -> bool:
        if any(path <= self.path for path in self.known.get(self._key(stmt, axis), ())):
            return True
        goals = self._goals(stmt, axis)
        return bool(goals) and all(map(self.facts.holds, goals))

    def _conditions(self, stmt: Checked, axis: int) -> Conditions:
        """Return launch conditions that can replace the check of an index, or () if there are none."""
        found = [self.facts.residuals(goal) for goal in self._goals(stmt, axis) if not self.facts.holds(goal)]
        return tuple(found) if all(found) else ()

    def _looked_at(self, stmt: Checked, axis: int) -> None:
        """Record that an index is inside its axis after this statement, so that later checks are needless."""
        # A thread that keeps a sum checks the index of the atomic only later.
        if not self.learns or isinstance(stmt, n.Atomic) and not self.hoist:
            return
        form, key, index = self._form(stmt, axis), self._key(stmt, axis), indices_of(stmt)[axis]
        self.inside.append((key, self.path))
        self.known.setdefault(key, []).append(self.path)
        extent = self._extent(stmt, axis)
        if self.facts.is_exact(form, index):
            self.facts.learn(form)
            if extent is not None:
                self.facts.learn(add(add(extent, Affine(-1)), form, -1))

    def _element(self, stmt: n.GetElement | n.SetElement | n.UpdateElement) -> None:
        """Prove that an access to a local array is inside, or record that it needs a check."""
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
        """Record checks before a loop for indices that every trip uses and that are affine in the loop index."""
        made = {v for s in walk(loop.body) for v in RESULTS[type(s)](s)} | {loop.index}
        checks: list[LoopCheck] = []
        for stmt in loop.body:
            if isinstance(stmt, Checked):
                for axis, index in enumerate(indices_of(stmt)):
                    form = self.facts.forms.form(
                        index
                    )  # not resolved, so it consists of values that are known before the loop
                    extent = self.facts.value(stmt.extent) if isinstance(stmt, n.Within) else None
                    known = self.facts.is_exact(form, index) and _is_fixed(form, made, loop.index)
                    if known and _may_precede(stmt, extent, made, loop.index) and not self._proved(stmt, axis):
                        c = form.coefficient(loop.index)
                        rest = form.without(frozenset({loop.index}))
                        checks.append(LoopCheck(stmt, axis, c, rest, extent))
                        self._looked_at(stmt, axis)
            elif isinstance(stmt, JUMPS) or any(isinstance(s, JUMPS) for b in blocks(stmt) for s in walk(b)):
                break
        if checks:
            self.found.loops.setdefault(id(loop), []).extend(checks)


def _is_fixed(form: Affine, made: set[Value], index: Value) -> bool:
    """Return True if every symbol of an affine form, except the loop index, can be computed before the loop."""
    return all(s == index or isinstance(s, tuple) or isinstance(s, Value) and s not in made for s in form.symbols())


def _may_precede(stmt: Checked, extent: Affine | None, made: set[Value], index: Value) -> bool:
    """Return True if the extent can be read before the loop: it belongs to an array, or is equal in all trips."""
    if not isinstance(stmt, n.Within):
        return True
    return extent is not None and extent.coefficient(index) == 0 and _is_fixed(extent, made, index)
