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

from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.nodes import Block, Stmt, Task, Value
from ..ir.types import i32, i64
from ..ir.walk import RESULTS, blocks, walk, walk_task
from .affine import Affine, IndexForms, Symbol, add
from .inequalities import EXTENT, Facts, Range, range_of_type

Access = n.Load | n.Store | n.Atomic
LEAVES = (n.Break, n.Continue, n.Return)
ONE = Affine(1)


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
    elements: accesses of local arrays that are proved to be inside. loops: by loop, what is looked at before its first trip.
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

    def before(self, loop: n.For) -> list[LoopCheck]:
        """What code looks at before the first trip of a loop."""
        return self.loops.get(id(loop), [])


def index_checks(task: Task, hoist: bool) -> IndexChecks:
    """Analyze a task. hoist: checks of serial loops may stand before the loop."""
    analysis = _Analysis(task, hoist)
    analysis.run()
    return analysis.found


def primal(array: str) -> str:
    """The array whose extents an array has: adjoints and tangents are of the shape of their primals."""
    while array.endswith((".grad", ".dual")):
        array = array[:-5]
    return array


Key = tuple[str, int, Affine]
Path = frozenset[tuple[Value, bool]]


class _Forms(IndexForms):
    """Affine forms in which locals that are set once are seen through; see `kept`."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.kept: dict[Value, tuple[Affine, Path]] = {}

    def resolved(self, form: Affine, path: Path) -> Affine:
        """The form with each local that was set under conditions that hold on this path replaced by what was set."""
        for symbol, c in form.terms:
            known = self.kept.get(symbol) if isinstance(symbol, Value) else None
            if known is not None and known[1] <= path:
                without = Affine(form.constant, tuple(t for t in form.terms if t[0] != symbol))
                return self.resolved(add(without, known[0], c), path)
        return form


class _Analysis:
    """path: conditions that hold here. depth: serial loops around. inside: indices known to be in their arrays wherever
    these conditions hold, as far as the present trip of each loop around has come.

    sets: of locals with one assignment in the task, what was assigned, under which path, once that was passed.
    """

    def __init__(self, task: Task, hoist: bool) -> None:
        self.task, self.hoist = task, hoist
        self.found = IndexChecks(task)
        self.forms = _Forms(task)
        self.facts = Facts(self._range, self._alternatives)
        self.path: Path = frozenset()
        self.depth = 0
        self.inside: list[tuple[Key, Path]] = []
        self.known: dict[Key, list[Path]] = {}
        self.ends: dict[Value, tuple[Affine, Affine]] = {}
        self.ranges: dict[Symbol, Range] = {}
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
            self._bound(index, self.forms.form(begin), self.forms.form(end), 1)
        self.block(self.task.body)

    # -- ranges and forms -----------------------------------------------------------------------------------

    def _range(self, symbol: Symbol) -> Range:
        known = self.ranges.get(symbol)
        if known is None:
            known = self.ranges[symbol] = self._find_range(symbol)
        return known

    def _find_range(self, symbol: Symbol) -> Range:
        if isinstance(symbol, tuple):
            return EXTENT if symbol[0] == "shape" else (-(2**63), 2**64)
        if not isinstance(symbol, Value):
            return 0, symbol.modulus - 1
        low, high = range_of_type(symbol)
        if symbol in self.ends:
            begin, end = self.ends[symbol]
            if self._is_faithful(begin, symbol):
                low = max(low, self.facts.least(begin))
            if self._is_faithful(end, symbol):
                high = min(high, self.facts.most(end) - 1)
            return low, high
        stmt = self.forms.made.get(symbol)
        if isinstance(stmt, n.Op) and stmt.op in ("mod", "bit_and"):
            most = self._limit(stmt)
            return (0, most) if most is not None else (low, high)
        return low, high

    def _limit(self, stmt: n.Op) -> int | None:
        """The largest value of `a mod m` or `a & m` for a constant m that makes it non-negative."""
        m = self.forms.form(stmt.args[1])
        if m.terms or m.constant < (0 if stmt.op == "bit_and" else 1):
            return None
        return m.constant if stmt.op == "bit_and" else m.constant - 1

    def _is_faithful(self, form: Affine, like: Value) -> bool:
        """Whether the arithmetic of a form never leaves the type: then the value is the form, not only modulo 2^bits."""
        low, high = range_of_type(like)
        return low <= self.facts.least(form) and self.facts.most(form) <= high

    def _alternatives(self, symbol: Symbol) -> tuple[Affine, ...]:
        stmt = self.forms.made.get(symbol) if isinstance(symbol, Value) else None
        if not isinstance(stmt, n.Op) or stmt.op not in ("select", "min", "max") or not stmt.result.type.is_int:
            return ()
        forms = tuple(self._value(v) for v in stmt.args[-2:])
        return tuple(f for f in forms if f is not None) if None not in forms else ()

    def _value(self, value: Value) -> Affine | None:
        """The form of a value that is equal to it as a whole number; None if its arithmetic may wrap."""
        form = self.forms.form(value)
        plain = form.terms == ((value, 1),)
        return form if plain or self._is_faithful(form, value) else None

    def _bound(self, index: Value, begin: Affine, end: Affine, step: int) -> None:
        """Learn what a loop says of its index: begin <= index < end, or end < index <= begin for a negative step."""
        low, high = (begin, end) if step > 0 else (add(end, ONE), add(begin, ONE))
        self.ends[index] = low, high
        here = Affine(0, ((index, 1),))
        if self._is_faithful(low, index):
            self.facts.learn(add(here, low, -1))
        if self._is_faithful(high, index):
            self.facts.learn(add(add(high, ONE, -1), here, -1))

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
                self._operation(stmt)  # type: ignore[arg-type]
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
            self._assume(stmt.cond, taken)
            self.path = around | {(stmt.cond, taken)}
            self.block(body)
            self.path = around
            self.facts.forget(mark)

    def _assume(self, cond: Value, taken: bool) -> None:
        """Learn what a condition says of integers."""
        stmt = self.forms.made.get(cond)
        if not isinstance(stmt, n.Op):
            return
        if stmt.op in ("logic_not", "bit_not"):
            self._assume(stmt.args[0], not taken)
        elif stmt.op == ("logical_and" if taken else "logical_or"):
            for arg in stmt.args:
                self._assume(arg, taken)
        elif stmt.op in _COMPARED and stmt.args[0].type.is_int:
            a, b = (self._value(v) for v in stmt.args)
            if a is not None and b is not None:
                for sign, slack in _COMPARED[stmt.op][taken]:
                    difference = add(b, a, -1) if sign > 0 else add(a, b, -1)
                    self.facts.learn(Affine(difference.constant - slack, difference.terms))

    def _operation(self, stmt: n.Op) -> None:
        """Learn how a remainder, minimum, maximum or quotient lies to its operands."""
        if stmt.op not in ("mod", "min", "max", "floordiv") or stmt.result.type not in (i32, i64):
            return
        here = Affine(0, ((stmt.result, 1),))
        if self.forms.form(stmt.result) != here:
            return
        a, b = (self._value(v) for v in stmt.args)
        if stmt.op == "mod" and b is not None and self.facts.holds(add(b, ONE, -1)):
            self.facts.learn(here)
            self.facts.learn(add(add(b, ONE, -1), here, -1))
        elif stmt.op in ("min", "max"):
            for form in (a, b):
                if form is not None:
                    self.facts.learn(add(form, here, -1) if stmt.op == "min" else add(here, form, -1))
        elif stmt.op == "floordiv" and a is not None and b is not None and not b.terms and b.constant > 0:
            times = Affine(0, ((stmt.result, b.constant),))
            self.facts.learn(add(a, times, -1))
            if self.facts.holds(a):
                self.facts.learn(here)
                self.facts.learn(add(a, here, -1))

    def _set(self, stmt: n.Set) -> None:
        if stmt.var in self.once and self.depth == 0 and stmt.value.type.is_int:
            self.sets[stmt.var] = self.forms.form(stmt.value), self.path

    def _get(self, stmt: n.Get) -> None:
        known = self.sets.get(stmt.var)
        if known is not None:
            self.forms.kept[stmt.result] = known

    def _for(self, stmt: n.For) -> None:
        mark, known = self.facts.mark(), len(self.inside)
        begin, end = self._value(stmt.begin), self._value(stmt.end)
        if begin is not None and end is not None:
            self._bound(stmt.index, begin, end, stmt.step)
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
        return self.forms.resolved(self.forms.form(stmt.indices[axis]), self.path)

    def _proved(self, stmt: Access, axis: int) -> bool:
        form, array = self._form(stmt, axis), primal(stmt.array)
        if any(path <= self.path for path in self.known.get((array, axis, form), ())):
            return True
        if stmt.indices[axis].type not in (i32, i64) or not self._widens_exactly(stmt.indices[axis]):
            return False
        room = Affine(-1, ((("shape", array, axis), 1),))
        return self.facts.holds(form) and self.facts.holds(add(room, form, -1))

    def _conditions(self, stmt: Access, axis: int) -> Conditions:
        """What a launch can find out before any iteration; () if that does not tell."""
        form, index = self._form(stmt, axis), stmt.indices[axis]
        if index.type not in (i32, i64) or not self._widens_exactly(index):
            return ()
        room = Affine(-1, ((("shape", primal(stmt.array), axis), 1),))
        found = []
        for goal in (form, add(room, form, -1)):
            if not self.facts.holds(goal):
                found.append(self.facts.residuals(goal))
        return tuple(found) if all(found) else ()

    def _widens_exactly(self, value: Value) -> bool:
        """Whether no number of an index of 64 bits was made by arithmetic of 32 bits that may have wrapped."""
        if value.type != i64:
            return True
        stmt = self.forms.made.get(value)
        if isinstance(stmt, n.Cast):
            return self._value(stmt.arg) is not None and self._widens_exactly(stmt.arg)
        if isinstance(stmt, n.Op) and self.forms.form(value).terms != ((value, 1),):
            return all(self._widens_exactly(v) for v in stmt.args)
        return True

    def _is_exact(self, form: Affine, index: Value) -> bool:
        """Whether an index is its form as a whole number."""
        return index.type in (i32, i64) and self._is_faithful(form, index) and self._widens_exactly(index)

    def _looked_at(self, stmt: Access, axis: int) -> None:
        """From here on the index is known to be inside."""
        form, array = self._form(stmt, axis), primal(stmt.array)
        self.inside.append(((array, axis, form), self.path))
        self.known.setdefault((array, axis, form), []).append(self.path)
        index = stmt.indices[axis]
        if self._is_exact(form, index):
            self.facts.learn(form)
            self.facts.learn(add(Affine(-1, ((("shape", array, axis), 1),)), form, -1))

    def _element(self, stmt: n.GetElement | n.SetElement) -> None:
        """An access of a local array, whose size is a constant."""
        form, size = self.forms.resolved(self.forms.form(stmt.index), self.path), self.sizes.get(stmt.var, 0)
        if stmt.index.type not in (i32, i64) or not self._widens_exactly(stmt.index):
            return
        if self.facts.holds(form) and self.facts.holds(add(Affine(size - 1), form, -1)):
            self.found.elements.add(id(stmt))

    # -- loops ----------------------------------------------------------------------------------------------

    def _hoist(self, loop: n.For) -> None:
        """Find accesses that every trip makes, whose index is affine in the loop's own, and have them looked at before."""
        made = {v for s in walk(loop.body) for v in RESULTS[type(s)](s)} | {loop.index}
        checks: list[LoopCheck] = []
        for stmt in loop.body:
            if isinstance(stmt, Access):
                for axis in range(len(stmt.indices)):
                    form = self._form(stmt, axis)
                    if self._is_exact(form, stmt.indices[axis]) and _is_fixed(form, made, loop.index):
                        if not self._proved(stmt, axis):
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


_COMPARED: dict[str, dict[bool, tuple[tuple[int, int], ...]]] = {
    "cmp_lt": {True: ((1, 1),), False: ((-1, 0),)},
    "cmp_le": {True: ((1, 0),), False: ((-1, 1),)},
    "cmp_gt": {True: ((-1, 1),), False: ((1, 0),)},
    "cmp_ge": {True: ((-1, 0),), False: ((1, 1),)},
    "cmp_eq": {True: ((1, 0), (-1, 0)), False: ()},
    "cmp_ne": {True: (), False: ((1, 0), (-1, 0))},
}
"""By comparison of a with b and its outcome: (1, k) for b - a - k >= 0, (-1, k) for a - b - k >= 0."""
