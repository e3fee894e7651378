"""Find loads at risk: loads whose element the kernel itself may overwrite afterwards.

A grad kernel runs after its kernel and finds memory as the kernel left it. A load is harmless if no store or atomic to
its element can follow it: later in the text, in a later iteration of a common serial loop, in another iteration of the
parallel loop, or in a later task. Index tuples are compared as affine forms. If coefficients are equal, a write of
iteration t + k hits the element read in iteration t for one k only. The write is harmless if k < 0, if k is not whole,
or if k = 0 and the write comes first. A pair that this does not decide may be cleared by marks at run time, see
`marks`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

from ..analysis.affine import Affine, IndexForms, Symbol, is_own, single_iteration, subtract, surely_differ
from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.roles import ARRAY_WRITES
from ..ir.statement import Value
from ..ir.walk import walk
from .ranges import Ranges, ranges_apart
from .structure import Occurrence, Structure, comes_after, common_block

Write = n.Store | n.Atomic
Access = n.Load | n.Store | n.Atomic
NEVER, UNKNOWN = "never", "unknown"
NO, MAYBE, HITS = 0, 1, 2
"""A write does not follow the access, may follow it, or surely follows it."""


@dataclass(frozen=True)
class RiskPair:
    """Represent an access to an array and a later write that may touch the same element.

    Attributes:
        access: The statement that reads the element, or the first of two writes.
        write: The statement that may write the same element later.
        task: Number of the task of the access.
        write_task: Number of the task of the write.
        inside: NO, MAYBE or HITS: if the write follows in the same iteration or in a later task; MAYBE if only a launch
        can tell.
        across: True if another iteration of the same parallel loop may write the element.
        distance: The distance of the two iterations along each axis, if it is known; else empty.
    """

    access: Access
    write: Access
    task: int = 0
    write_task: int = 0
    inside: int = NO
    across: bool = False
    distance: tuple[int, ...] = ()

    @property
    def severity(self) -> int:
        """Return a number for sorting pairs: the greater it is, the fewer ways there are to save the gradient."""
        return 3 if self.distance else 2 if self.inside == HITS else 1 if self.across else 0


@dataclass(frozen=True)
class Risk:
    """Represent a load at risk together with the writes that may overwrite its element.

    Attributes:
        load: The load. For the result of an atomic it is a load in place of the atomic.
        pairs: A pair of the load and each of the writes, in order of falling `severity`.
        returned: True if the load stands for the result of an atomic, which exists once only.
    """

    load: n.Load
    pairs: tuple[RiskPair, ...]
    returned: bool = False

    @property
    def distance(self) -> tuple[int, ...]:
        """Return the distance along each axis of two iterations that surely access one element; () if none is known."""
        return self.pairs[0].distance

    @property
    def write(self) -> Access:
        """Return the write that may overwrite the element and belongs to the pair of the greatest `severity`."""
        return self.pairs[0].write


@dataclass(frozen=True)
class _AccessSite:
    """Represent an access to an array together with its position in the kernel.

    Attributes:
        task: Number of the task.
        occurrence: The statement together with its block and its position there.
        in_bounds: True if the statement stands in the bounds of the task.
    """

    task: int
    occurrence: Occurrence
    in_bounds: bool = False


class RiskAnalysis:
    """Find, in a kernel of stage structured, the loads whose elements later writes may overwrite."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.structures = [Structure(t) for t in kernel.tasks]
        self.forms = [IndexForms(t) for t in kernel.tasks]
        self.ranges = [Ranges(t, f) for t, f in zip(kernel.tasks, self.forms)]
        self.ends = [_ends(t) for t in kernel.tasks]
        sites = [s for t in range(len(kernel.tasks)) for s in self._sites(t)]
        self.writes = [s for s in sites if isinstance(s.occurrence.stmt, ARRAY_WRITES)]
        self.loads = [s for s in sites if isinstance(s.occurrence.stmt, n.Load)]

    def _sites(self, t: int) -> Iterator[_AccessSite]:
        """Yield the statements of task `t` with their positions, those of the bounds first."""
        for position, stmt in enumerate(walk(self.kernel.tasks[t].bounds)):
            yield _AccessSite(t, Occurrence((), position, stmt), in_bounds=True)
        for occurrence in self.structures[t].occurrences():
            yield _AccessSite(t, occurrence)

    def find(self) -> dict[Value, Risk]:
        """Return the risks of all loads and of all results of atomics that may be overwritten, by result."""
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
            # The result of an atomic cannot be read again, so a load in its place is always at risk.
            if isinstance(atomic, n.Atomic):
                again = n.Load(atomic.result, atomic.array, atomic.indices, loc=atomic.loc)
                pair = RiskPair(again, atomic, site.task, site.task, inside=HITS)
                found[atomic.result] = Risk(again, (pair,), returned=True)
        return found

    def races(self, active: frozenset[Value]) -> Iterator[RiskPair]:
        """Yield pairs of writes by which different iterations of a parallel loop surely write one element.

        Pairs of which neither write stores an active value are left out, because no derivative depends on them.
        """
        for first, second in self._ordered():
            a, b = first.occurrence.stmt, second.occurrence.stmt
            assert isinstance(a, Write) and isinstance(b, Write)
            if {a.value, b.value} & active:
                pair = self._pair(first, second)
                if pair and pair.distance:
                    yield pair

    def _ordered(self) -> Iterator[tuple[_AccessSite, _AccessSite]]:
        """Yield the pairs of writes of one task to one array, of which at least one is a plain store.

        A pair of atomics is left out, because two atomics may run in any order.
        """
        every: dict[tuple[int, str], list[int]] = {}
        stores: dict[tuple[int, str], list[int]] = {}
        for k, site in enumerate(self.writes):
            stmt = site.occurrence.stmt
            every.setdefault((site.task, stmt.array), []).append(k)  # type: ignore[attr-defined]
            if isinstance(stmt, n.Store):
                stores.setdefault((site.task, stmt.array), []).append(k)
        for k, site in enumerate(self.writes):
            stmt = site.occurrence.stmt
            near = every if isinstance(stmt, n.Store) else stores
            later = near.get((site.task, stmt.array), [])  # type: ignore[attr-defined]
            yield from ((site, self.writes[j]) for j in later[bisect_right(later, k) :])

    def final_value_risk(self, atomic: n.Atomic, task: int) -> Write | None:
        """Return a write that may change an element after an atomic min or max on it, or None if there is none.

        Atomics of the same operation in the same task do not count.

        Args:
            atomic: An atomic min or max.
            task: Number of the task of the atomic.

        Returns:
            A store, an atomic of another operation in this task, or any write in a later task; None if there is none.
        """
        for site in self.writes:
            stmt = site.occurrence.stmt
            assert isinstance(stmt, ARRAY_WRITES)
            same = site.task == task and isinstance(stmt, n.Atomic) and stmt.op == atomic.op
            if stmt.array == atomic.array and site.task >= task and not same:
                return stmt
        return None

    def read_between(self, atomic: n.Atomic, task: int, active: frozenset[Value]) -> n.Load | None:
        """Return an active load that may read an atomic's element before all updates of it have run, or None."""
        sites = [s for s in self.writes if s.task == task and s.occurrence.stmt is atomic]
        for load in self.loads:
            stmt = load.occurrence.stmt
            assert isinstance(stmt, n.Load)
            near = stmt.array == atomic.array and load.task == task and stmt.result in active
            if near and any(self._pair(site, load) is not None for site in sites):
                return stmt
        return None

    def _risk(self, load: _AccessSite) -> Risk | None:
        """Return the risk of a load, or None if no write can overwrite its element afterwards."""
        stmt = load.occurrence.stmt
        assert isinstance(stmt, n.Load)
        near = (w for w in self.writes if w.occurrence.stmt.array == stmt.array)  # type: ignore[attr-defined]
        pairs = [p for w in near if w.task >= load.task and (p := self._pair(load, w))]
        return Risk(stmt, tuple(sorted(pairs, key=lambda p: -p.severity))) if pairs else None

    # -- one access, one write ----------------------------------------------------------------------------------

    def _pair(self, first: _AccessSite, write: _AccessSite) -> RiskPair | None:
        """Return the risk pair of an access and a write, or None if the write cannot hit the element afterwards."""
        pairs = self._pairs(first, write)
        if self._disjoint(first, write, pairs):
            return None
        access, other = first.occurrence.stmt, write.occurrence.stmt
        found = RiskPair(access, other, first.task, write.task)  # type: ignore[arg-type]
        # A write in a later task, and any write of a task whose bounds hold the access, comes after the access.
        if first.in_bounds:
            return replace(found, inside=HITS)
        if write.task != first.task:
            sure = not write.occurrence.path and not self._open(pairs, first.task, write.task)
            return replace(found, inside=HITS if sure else MAYBE)
        inside = self._same_iteration(first.occurrence, write.occurrence, pairs, first.task)
        task = self.kernel.tasks[first.task]
        alone = not task.is_parallel or single_iteration(task)
        distance = None if alone else self._other_iteration(task, first.task, pairs)
        if not inside and distance is None:
            return None
        return replace(found, inside=inside, across=distance is not None, distance=distance or ())

    def _pairs(self, load: _AccessSite, write: _AccessSite) -> list[tuple[Affine, Affine]]:
        """Return, for each axis, the affine forms of the index of the access and of the index of the write."""
        a, b = self.forms[load.task], self.forms[write.task]
        p, q = load.occurrence.stmt, write.occurrence.stmt
        return [(a.form(x), b.form(y)) for x, y in zip(p.indices, q.indices)]  # type: ignore[attr-defined]

    def _disjoint(self, load: _AccessSite, write: _AccessSite, pairs: list[tuple[Affine, Affine]]) -> bool:
        """Return True if the indices of access and write differ in every case along some axis.

        They differ by a constant, differ modulo a number, or have ranges that are apart.
        """
        for p, q in pairs:
            if not any(isinstance(s, Value) for s in p.symbols() | q.symbols()) and surely_differ(p, q):
                return True
            if _remainders_apart(p, q):
                return True
            if ranges_apart(p, self.ranges[load.task], q, self.ranges[write.task]):
                return True
        return False

    def _same_iteration(self, first: Occurrence, write: Occurrence, pairs: list[tuple[Affine, Affine]], t: int) -> int:
        """Return HITS if a write surely overwrites the element later in its iteration, MAYBE if it may, else NO."""
        structure = self.structures[t]
        common = common_block(first.path, write.path)
        loops = structure.loops(common)
        # Values of the outermost common loop may change from one iteration of it to the next.
        varying: frozenset[Value] = structure.inside(loops[0][0]) if loops else frozenset()
        steps = [self._steps(s, pairs, varying, t) for _, s in loops]
        if NEVER in steps or any(_constant_apart(p, q, varying) for p, q in pairs):
            return NO
        # The outermost loop whose trips may differ tells which of the two comes first.
        step, loop = next(((s, loop) for s, (_, loop) in zip(steps, loops) if s != 0), (0, None))
        again = comes_after(write, first, structure)
        if not (step == UNKNOWN or isinstance(step, int) and step > 0 or step == 0 and again):
            return NO
        # A write that stands deeper than the access may not run. In one trip, equal forms name one element.
        if write.path != common:
            return MAYBE
        if again and all(p == q for p, q in pairs):
            return HITS
        known = isinstance(loop, n.For) and step != UNKNOWN and not self._by_data({loop.index}, t)
        return HITS if known and all(_meets(p, q) for p, q in pairs) else MAYBE

    def _open(self, pairs: list[tuple[Affine, Affine]], t: int, later: int) -> bool:
        """Return True if array contents decide whether an access of task t and a later write share an element."""
        return any(
            self._by_data({v for p in forms for v in p.symbols()}, k) for forms, k in zip(zip(*pairs), (t, later))
        )

    def _by_data(self, symbols: Collection[Symbol], t: int) -> bool:
        """Return True if a symbol of task t, or a bound of the loop whose index it is, comes from array contents."""
        forms, ends = self.forms[t], self.ends[t]
        return any(
            isinstance(s, Value)
            and (s not in ends or self._by_data({v for e in ends[s] for v in forms.form(e).symbols()}, t))
            for s in symbols
        )

    def _data(self, forms: list[Affine], t: int) -> bool:
        """Return True if an index depends on a value that is no loop index, argument or shape, such as a load."""
        structure, indices = self.structures[t], self.kernel.tasks[t].indices
        found = {s for form in forms for s in form.symbols() if isinstance(s, Value)}
        return any(s not in indices and not structure.is_index(s) for s in found)

    def _steps(
        self, loop: n.For | n.While, pairs: list[tuple[Affine, Affine]], varying: frozenset[Value], t: int
    ) -> int | str:
        """Return by how many trips a write to the accessed element follows an access, or NEVER, or UNKNOWN.

        The result is NEVER if there is no such number, and UNKNOWN if it depends on more than the index of the loop.
        """
        if isinstance(loop, n.While):
            return UNKNOWN
        # Each axis that decides the distance must give the same number.
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
        """Return the distance of two iterations that access one element: () if unknown, None if there are none."""
        varying = self.structures[t].inside(())
        if is_own(tuple(p for p, q in pairs if p == q), task, self.forms[t]):
            return None
        distance: list[int | None] = []
        for index in task.indices:
            ratios = {r for p, q in pairs if (r := _meeting(p, q, index, varying)) is not None}
            if any(r.denominator != 1 for r in ratios) or len(ratios) > 1:
                return None
            distance.append(int(ratios.pop()) if ratios else None)
        if None in distance or self._data([f for pair in pairs for f in pair], t):
            return None if any(_constant_apart(p, q, varying) for p, q in pairs) else ()
        return tuple(d for d in distance if d is not None) if any(distance) else None


def _ends(task: Task) -> dict[Value, tuple[Value, Value]]:
    """Return begin and end of the loop of each index of a task."""
    own = dict(zip(task.indices, zip(task.begin, task.end)))
    return own | {s.index: (s.begin, s.end) for s in walk(task.body) if isinstance(s, n.For)}


def _meeting(p: Affine, q: Affine, index: Value, varying: frozenset[Value]) -> Fraction | None:
    """Return the distance, along a loop index, of two iterations in which the affine indices p and q are equal.

    The result is None if this is no constant: `index` must be the only varying symbol of p and q, with one coefficient.
    """
    a = p.coefficient(index)
    if a == 0 or q.coefficient(index) != a:
        return None
    own = frozenset((index,))
    if (p.without(own).symbols() | q.without(own).symbols()) & varying:
        return None
    rest = subtract(p.without(own), q.without(own))
    return None if rest.terms else Fraction(rest.constant, a)


def _meets(p: Affine, q: Affine) -> bool:
    """Return True if the indices p and q differ by a constant, so that it is known whether they are equal."""
    return not subtract(p, q).terms


def _remainders_apart(p: Affine, q: Affine) -> bool:
    """Return True if p and q are never equal because their remainders differ, as those of 2 i and 4 j + 1 modulo 2."""
    divisor = gcd(*(c for _, c in (*p.terms, *q.terms)))
    return divisor > 1 and (p.constant - q.constant) % divisor != 0


def _constant_apart(p: Affine, q: Affine, varying: frozenset[Value]) -> bool:
    """Return True if p and q differ by the same non-zero constant in all iterations."""
    if (p.symbols() | q.symbols()) & varying:
        return False
    difference = subtract(q, p)
    return not difference.terms and difference.constant != 0
