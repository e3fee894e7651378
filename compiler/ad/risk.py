"""Memory at risk: loads whose element may be overwritten after them, in the kernel itself.

A grad kernel runs after its kernel and finds memory as the kernel left it. A load is harmless if no store or atomic
to its element can follow it: later in the text, in a later iteration of a common serial loop, in another iteration of
the parallel loop, or in a later task. Index tuples are compared as affine forms: with equal coefficients, a write
of iteration t + k hits the element read in t for one k only; it is harmless if k < 0, not whole, or 0 with the write
first.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ..ir import nodes as n
from ..ir.nodes import Kernel, Stmt, Task, Value
from ..ir.walk import walk
from ..passes.affine import Affine, IndexForms, add, apart, single_iteration, subtract
from .structure import Occurrence, Structure, comes_after, common_block, inner_blocks

Write = n.Store | n.Atomic
NEVER, UNKNOWN = "never", "unknown"
ONE = Affine(1)


@dataclass(frozen=True)
class Risk:
    """The write that may follow a load.

    across: it is another iteration of the parallel loop that may write; distance: how far apart, if that is known.
    """

    load: n.Load
    write: Write
    across: bool = False
    distance: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Site:
    task: int
    occurrence: Occurrence
    in_bounds: bool = False


class RiskAnalysis:
    """Risks of the loads of a kernel of stage structured."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.structures = [Structure(t) for t in kernel.tasks]
        self.forms = [IndexForms(t) for t in kernel.tasks]
        self.ranges = [_Ranges(t, f) for t, f in zip(kernel.tasks, self.forms)]
        sites = [s for t in range(len(kernel.tasks)) for s in self._sites(t)]
        self.writes = [s for s in sites if isinstance(s.occurrence.stmt, (n.Store, n.Atomic))]
        self.loads = [s for s in sites if isinstance(s.occurrence.stmt, n.Load)]

    def _sites(self, t: int) -> Iterator[_Site]:
        for position, stmt in enumerate(walk(self.kernel.tasks[t].bounds)):
            yield _Site(t, Occurrence((), position, stmt), in_bounds=True)
        for occurrence in self.structures[t].occurrences():
            yield _Site(t, occurrence)

    def find(self) -> dict[Value, Risk]:
        """Results of loads at risk, each with the first write that may follow."""
        written = {s.occurrence.stmt.array for s in self.writes}  # type: ignore[attr-defined]
        found = {}
        for load in self.loads:
            stmt = load.occurrence.stmt
            assert isinstance(stmt, n.Load)
            risk = self._risk(load) if stmt.array in written else None
            if risk:
                found[stmt.result] = risk
        for site in self.writes:
            atomic = site.occurrence.stmt
            if isinstance(atomic, n.Atomic):  # what it returned cannot be read again
                again = n.Load(atomic.result, atomic.array, atomic.indices, loc=atomic.loc)
                found[atomic.result] = Risk(again, atomic)
        return found

    def final_value_risk(self, atomic: n.Atomic, task: int) -> Write | None:
        """A write other than the same kind of atomic in this task, or any in a later one, to the array."""
        for site in self.writes:
            stmt = site.occurrence.stmt
            assert isinstance(stmt, (n.Store, n.Atomic))
            same = site.task == task and isinstance(stmt, n.Atomic) and stmt.op == atomic.op
            if stmt.array == atomic.array and site.task >= task and not same:
                return stmt
        return None

    def read_between(self, atomic: n.Atomic, task: int, active: frozenset[Value]) -> n.Load | None:
        """An active load of the same task that may find what the atomic left, and not the final value."""
        sites = [s for s in self.writes if s.task == task and s.occurrence.stmt is atomic]
        for load in self.loads:
            stmt = load.occurrence.stmt
            assert isinstance(stmt, n.Load)
            near = stmt.array == atomic.array and load.task == task and stmt.result in active
            if near and any(self._follows(site, load) is not None for site in sites):
                return stmt
        return None

    def _risk(self, load: _Site) -> Risk | None:
        """The first; but one of another iteration of the parallel loop, which nothing cures, before all others."""
        stmt = load.occurrence.stmt
        assert isinstance(stmt, n.Load)
        first: Risk | None = None
        for write in self.writes:
            other = write.occurrence.stmt
            assert isinstance(other, (n.Store, n.Atomic))
            if other.array != stmt.array or write.task < load.task:
                continue
            found = self._follows(load, write)
            if found and found[0]:
                return Risk(stmt, other, *found)
            first = first or (Risk(stmt, other, *found) if found else None)
        return first

    # -- one load, one write ------------------------------------------------------------------------------------

    def _follows(self, load: _Site, write: _Site) -> tuple[bool, tuple[int, ...]] | None:
        """None if the write cannot follow; else whether in another iteration, and its distance if known."""
        pairs = self._pairs(load, write)
        if self._disjoint(load, write, pairs):
            return None
        if write.task != load.task or load.in_bounds:
            return False, ()
        if self._same_iteration(load.occurrence, write.occurrence, pairs, load.task):
            return False, ()
        task = self.kernel.tasks[load.task]
        if not task.is_parallel or single_iteration(task):
            return None
        distance = self._other_iteration(task, load.task, pairs)
        return None if distance is None else (True, distance)

    def _pairs(self, load: _Site, write: _Site) -> list[tuple[Affine, Affine]]:
        a, b = self.forms[load.task], self.forms[write.task]
        p, q = load.occurrence.stmt, write.occurrence.stmt
        return [(a.form(x), b.form(y)) for x, y in zip(p.indices, q.indices)]  # type: ignore[attr-defined]

    def _disjoint(self, load: _Site, write: _Site, pairs: list[tuple[Affine, Affine]]) -> bool:
        """Some axis never meets: a constant distance between launch constants, or ranges apart."""
        for p, q in pairs:
            if not any(isinstance(s, Value) for s in p.symbols() | q.symbols()) and apart(p, q):
                return True
            if _ranges_apart(p, self.ranges[load.task], q, self.ranges[write.task]):
                return True
        return False

    def _same_iteration(self, load: Occurrence, write: Occurrence, pairs: list[tuple[Affine, Affine]], t: int) -> bool:
        """Whether the write may follow the load within one iteration of the task."""
        structure = self.structures[t]
        common = common_block(load.path, write.path)
        loops = structure.loops(common)
        outer = loops[0][0] if loops else None
        varying = frozenset(v for v, home in structure.homes.items() if outer and home[: len(outer)] == outer)
        steps = [self._steps(s, pairs, varying, t) for _, s in loops]
        for step in steps:
            if step == NEVER:
                return False
        if any(_constant_apart(p, q, varying) for p, q in pairs):
            return False
        for step in steps:
            if step == UNKNOWN:
                return True
            if step != 0:
                return isinstance(step, int) and step > 0
        return comes_after(write, load, structure)

    def _steps(
        self, loop: n.For | n.While, pairs: list[tuple[Affine, Affine]], varying: frozenset[Value], t: int
    ) -> int | str:
        """Iterations of this loop from the load to the write of the same element; NEVER, UNKNOWN."""
        if isinstance(loop, n.While):
            return UNKNOWN
        ratios = {r for p, q in pairs if (r := _meeting(p, q, loop.index, varying)) is not None}
        if not ratios:
            return UNKNOWN
        distance = ratios.pop()
        if ratios or distance.denominator != 1:
            return NEVER
        steps = distance / (-loop.step if loop.descending else loop.step)
        if steps.denominator == 1:
            return int(steps)
        # Indices of two runs of the loop differ by a multiple of its step only if the begin stays.
        return UNKNOWN if self.forms[t].form(loop.begin).symbols() & varying else NEVER

    def _other_iteration(self, task: Task, t: int, pairs: list[tuple[Affine, Affine]]) -> tuple[int, ...] | None:
        """The distance of two parallel iterations that meet; () if unknown; None if they never do."""
        varying = frozenset(self.structures[t].homes)
        distance: list[int] = []
        for index in task.indices:
            ratios = {r for p, q in pairs if (r := _meeting(p, q, index, varying)) is not None}
            if any(r.denominator != 1 for r in ratios) or len(ratios) > 1:
                return None
            if not ratios:
                return None if any(_constant_apart(p, q, varying) for p, q in pairs) else ()
            distance.append(int(ratios.pop()))
        return tuple(distance) if any(distance) else None


def _meeting(p: Affine, q: Affine, index: Value, varying: frozenset[Value]) -> Fraction | None:
    """index_q - index_p for which p = q, if `index` is the only varying symbol of both and its coefficients agree."""
    a = p.coefficient(index)
    if a == 0 or q.coefficient(index) != a:
        return None
    own = frozenset((index,))
    if (p.without(own).symbols() | q.without(own).symbols()) & varying:
        return None
    rest = subtract(p.without(own), q.without(own))
    return None if rest.terms else Fraction(rest.constant, a)


def _constant_apart(p: Affine, q: Affine, varying: frozenset[Value]) -> bool:
    """Whether p and q differ by a non-zero constant in all iterations."""
    if (p.symbols() | q.symbols()) & varying:
        return False
    difference = subtract(q, p)
    return not difference.terms and difference.constant != 0


class _Ranges:
    """Least and greatest value of an index expression, as forms over what a launch fixes, from the loops around it."""

    def __init__(self, task: Task, forms: IndexForms) -> None:
        self.known: dict[Value, tuple[Affine, Affine]] = {}
        for index, begin, end in zip(task.indices, task.begin, task.end):
            self._enter(index, forms.form(begin), forms.form(end), 1)
        for stmt in _loops(task.body):
            self._enter(stmt.index, forms.form(stmt.begin), forms.form(stmt.end), stmt.step)

    def _enter(self, index: Value, begin: Affine, end: Affine, step: int) -> None:
        first, last = (begin, subtract(end, ONE)) if step > 0 else (add(end, ONE), begin)
        low, high = self.of(first), self.of(last)
        if low and high:
            self.known[index] = low[0], high[1]

    def of(self, form: Affine) -> tuple[Affine, Affine] | None:
        """Least and greatest value; None if a symbol of neither launch nor known range occurs."""
        low = high = Affine(form.constant)
        for symbol, c in form.terms:
            alone = Affine(0, ((symbol, 1),))
            ends = self.known.get(symbol) if isinstance(symbol, Value) else (alone, alone)
            if ends is None:
                return None
            low = add(low, ends[c < 0], c)
            high = add(high, ends[c > 0], c)
        return low, high

    def spans(self, form: Affine) -> list[Affine]:
        """For each index in the form, greatest minus least value: not negative, as its loop runs."""
        inside = (self.known.get(s) for s in form.symbols() if isinstance(s, Value))
        return [subtract(ends[1], ends[0]) for ends in inside if ends]


def _ranges_apart(p: Affine, of_p: _Ranges, q: Affine, of_q: _Ranges) -> bool:
    """Whether one range surely ends before the other begins."""
    range_p, range_q = of_p.of(p), of_q.of(q)
    if range_p is None or range_q is None:
        return False
    spans = [*of_p.spans(p), *of_q.spans(q)]
    return any(_positive(gap, spans) for gap in (subtract(range_q[0], range_p[1]), subtract(range_p[0], range_q[1])))


def _positive(gap: Affine, spans: list[Affine]) -> bool:
    """Whether gap > 0, or gap - k span > 0 for some k > 0 and a span, which is not negative."""
    if not gap.terms:
        return gap.constant > 0
    factors = [gap.coefficient(s.terms[0][0]) // s.terms[0][1] for s in spans if s.terms]
    rests = [add(gap, s, -k) for s, k in zip((s for s in spans if s.terms), factors) if k > 0]
    return any(not rest.terms and rest.constant > 0 for rest in rests)


def _loops(block: tuple[Stmt, ...]) -> Iterator[n.For]:
    for stmt in block:
        if isinstance(stmt, n.For):
            yield stmt
        for _, inner in inner_blocks(stmt):
            yield from _loops(inner)

