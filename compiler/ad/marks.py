"""Marks: pairs of accesses that only a launch can tell apart, decided before the gradient runs.

    x[p[i]] = f(x[q[i]])   →   task 1: atomic max $x.marks0[p[i], 0], when;  atomic max $x.marks0[p[i], 1], FIRST - when
                               task 2: if the marks of q[i] are of another iteration: atomic max $conflicts[0, 0], ..

The marking kernel is the slice of a kernel that computes the indices of the accesses in question, an ordinary kernel
that every backend runs. Its tasks are, for each task and array with such a pair: what the writes touch, with the
number of the iteration and of the access within it, the greatest in plane 0, the least (as a difference from FIRST) in
plane 1, what later tasks touch in plane 2; then the reads, each of which looks at the marks of its element. Planes are
the last axis. With no conflict, the order in which iterations run decides nothing, and memory holds what the reads
found.

It runs with memory as the kernel left it, so none of its own loads may be at risk; else there are no marks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ClaimError, Diagnostic, NotDifferentiable, Span
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.names import added
from ..ir.nodes import Block, Kernel, Param, Stmt, Task, Value
from ..ir.types import ArrayType, i64
from ..ir.walk import next_id, walk, walk_kernel
from ..passes.affine import IndexForms, is_own
from ..passes.dead_code import remove_dead_code
from .copier import Copier
from .risk import Access, Pair, Risk, Write

CONFLICTS = "$conflicts"
PLANES = 3
HAND_CALLED = (
    "take the gradient under sg.ad.Tape, which keeps what the kernel overwrites; or store to another field:"
    " a gradient called by hand is taken with memory as the kernel left it"
)
BITS = 32
FIRST = 1 << 62
SHIFT = 1 << 40
"""Bits of an access' number within its iteration; what least things are subtracted from; what is added to bounds."""
ITERATIONS, ACCESSES, ELEMENTS = 1 << 30, 1 << BITS, 1 << BITS
"""Iterations of a loop, accesses of an iteration and elements of an array must be fewer, for their numbers to fit."""


@dataclass(frozen=True)
class Claim:
    """A pair that marks must clear. inside, across: where the two must not meet. stated: the program says that they do
    not, which is looked at in checked builds alone.
    """

    pair: Pair
    inside: bool
    across: bool
    stated: bool = False


@dataclass(frozen=True)
class Read:
    """One row of `$conflicts`: a read that looks at marks. array, span: of the read; writes: where it may be written.

    axes: of the box of its parallel loop. marks: which array of marks it looks at. stated: see `Claim`.
    """

    array: str
    span: Span | None
    writes: tuple[Span | None, ...]
    axes: int
    marks: int
    stated: bool = False


@dataclass(frozen=True)
class Marking:
    """The marking kernel. marked: the array behind each array of marks. reads: rows of `$conflicts`.

    by_hand: it also looks for elements overwritten later, which only a gradient called by hand minds.
    """

    kernel: Kernel
    marked: tuple[str, ...]
    reads: tuple[Read, ...]
    by_hand: bool = False

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise NotDifferentiable if an array has more elements than marks can number. sizes: by array, of `marked`."""
        found = [(r, sizes[self.marked[r.marks]]) for r in self.reads]
        large = [_excess(r, f"{r.array} has {size} elements") for r, size in found if size >= ELEMENTS]
        if large:
            raise NotDifferentiable(large)

    def refusal(self, marks: Sequence[Any], conflicts: Any) -> NotDifferentiable:
        """What the filled arrays say. marks: an array (*shape, planes) for each of `marked`. conflicts: not all 0."""
        rows = [(r, conflicts[k].tolist()) for k, r in enumerate(self.reads)]
        beyond = {
            1: f"this parallel loop has more than {ITERATIONS} iterations",
            2: f"an iteration of this parallel loop has {ACCESSES} accesses or more",
        }
        excess = [_excess(r, beyond[row[1]]) for r, row in rows if row[1]]
        if excess:
            return NotDifferentiable(excess)
        kind = ClaimError if all(r.stated for r, row in rows if row[0]) else NotDifferentiable
        return kind([_describe(r, row, marks[r.marks]) for r, row in rows if row[0]])

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter for each array of marks."""
        return tuple(_name(array, k) for k, array in enumerate(self.marked))

    @property
    def width(self) -> int:
        """Columns of `$conflicts`: the conflict, what there are too many of, then begin and extent of each axis."""
        return 2 + 2 * max((r.axes for r in self.reads), default=0)


def make_marking(kernel: Kernel, claims: Iterable[Claim], at_risk: Mapping[Value, Risk]) -> Marking | None:
    """The kernel that decides these pairs of a kernel of stage structured; None if what it reads is itself at risk."""
    groups: dict[tuple[int, str, bool], list[Claim]] = {}
    for claim in dict.fromkeys(claims):
        groups.setdefault((claim.pair.task, claim.pair.access.array, claim.stated), []).append(claim)
    maker = _Maker(kernel, dict(at_risk))
    for (task, _, _), found in groups.items():
        maker.add(task, found)
    made = maker.kernel()
    by_hand = any(c.inside for found in groups.values() for c in found)
    return None if maker.reads_at_risk(made) else Marking(made, tuple(maker.marked), tuple(maker.reads), by_hand)


def stated_claims(kernel: Kernel) -> Iterator[Claim]:
    """All that the program states: accesses through unique tuples, each with each of the same array and task."""
    for t, task in enumerate(kernel.tasks):
        forms, found = IndexForms(task), list[Access]()
        for stmt in walk(task.body) if task.is_parallel else ():
            if isinstance(stmt, Access):
                indices = tuple(forms.form(v) for v in stmt.indices)
                if is_own(indices, task, forms) and not is_own(indices, task):
                    found.append(stmt)
        for a in found:
            for b in found:
                if a.array == b.array:
                    yield Claim(Pair(a, b, t, t, across=True), inside=False, across=True, stated=True)


def _name(array: str, number: int) -> str:
    return added(array, f"marks{number}")


def _excess(read: Read, what: str) -> Diagnostic:
    """More of something than fits into a mark."""
    return Diagnostic(
        f"{what}, which is more than can be looked at before the launch: whether iterations meet at elements of"
        f" {read.array} is not known",
        "run it in parts, on arrays or ranges of their own",
        read.span,
    )


def _describe(read: Read, row: list[int], marks: Any) -> Diagnostic:
    """One row of `$conflicts`: two iterations at one element, or an element overwritten after it was read."""
    conflict = row[0] - (FIRST - 1 if row[0] > FIRST else 0)
    where = FIRST - conflict
    mine, flat = where >> BITS, where & ((1 << BITS) - 1)
    element: list[int] = []
    for extent in reversed(marks.shape[:-1]):
        element.insert(0, flat % extent)
        flat //= extent
    last, first = int(marks[(*element, 0)]), FIRST - int(marks[(*element, 1)])
    other = next((w >> BITS for w in (last, first) if w >> BITS != mine), mine) if row[0] > FIRST else None
    lines = sorted({w.line for w in read.writes if w})
    place = f" (line {', '.join(map(str, lines))})" if lines else ""
    name = f"{read.array}[{', '.join(map(str, element))}]"
    spans = [(b - SHIFT, e - SHIFT) for b, e in zip(row[2::2], row[3::2])][: read.axes]
    if other is None:
        inside = f" in iteration {_point(mine, spans)}" if spans else ""
        return Diagnostic(
            f"the gradient needs the value of {name} read here{inside}, which the kernel overwrites later{place}",
            HAND_CALLED,
            read.span,
        )
    if read.stated:
        one, two = (_point(k, spans) for k in sorted((mine, other)))
        return Diagnostic(
            f"sg.assume_unique does not hold: iterations {one} and {two} of this parallel loop both touch {name}",
            "leave out the claim",
            read.span,
        )
    return Diagnostic(
        f"iteration {_point(mine, spans)} of this parallel loop reads {name}, which iteration {_point(other, spans)}"
        f" writes{place}: the iterations are not independent",
        "make the loop serial (an inner loop), write to another field, or give the iterations different elements",
        read.span,
    )


def _point(number: int, spans: list[tuple[int, int]]) -> str:
    """The indices of an iteration, from its number."""
    found: list[int] = []
    for begin, extent in reversed(spans):
        found.insert(0, begin + number % extent)
        number //= extent
    return str(found[0]) if len(found) == 1 else f"({', '.join(map(str, found))})"


class _Maker:
    def __init__(self, kernel: Kernel, at_risk: dict[Value, Risk]) -> None:
        self.source = kernel
        self.at_risk = at_risk
        self.next_id = next_id(kernel)
        self.tasks: list[Task] = []
        self.marked: list[str] = []
        self.reads: list[Read] = []
        temps = {t.name: t.name for t in kernel.temps}
        for task in kernel.tasks if temps else ():
            if any(isinstance(s, Write) and s.array in temps for s in walk(task.body)):
                self._copy(task, Copier(self.next_id, temps, self.at_risk, "temps."))

    def add(self, t: int, claims: list[Claim]) -> None:
        """Marks and looks for the claims on one array in one task."""
        number = len(self.marked)
        self.marked.append(claims[0].pair.access.array)
        task = self.source.tasks[t]
        own = [c.pair.write for c in claims if c.pair.write_task == t]
        later = {c.pair.write_task for c in claims} - {t}
        rows = self._rows(claims, number)
        places = {*map(id, own), *rows}
        if own:
            first = min(row.number for row in rows.values())
            self._copy(task, _Marks(self, number, task, places, writes=set(map(id, own)), excess=first))
        for other in sorted(later):
            mine = {id(c.pair.write) for c in claims if c.pair.write_task == other}
            self._copy(self.source.tasks[other], _Marks(self, number, None, mine, writes=mine))
        self._copy(task, _Marks(self, number, task, places, rows=rows))

    def _rows(self, claims: list[Claim], number: int) -> dict[int, _Row]:
        """A row of `$conflicts` for each access that looks at marks, by the identity of its statement."""
        found: dict[int, _Row] = {}
        for claim in claims:
            access = claim.pair.access
            known = found.get(id(access))
            if known is None:
                axes = len(self.source.tasks[claim.pair.task].indices)
                known = found[id(access)] = _Row(len(self.reads))
                span = self.source.span(access.loc)
                self.reads.append(Read(access.array.lstrip("$"), span, (), axes, number, claim.stated))
            known.inside |= claim.inside
            known.across |= claim.across
            read = self.reads[known.number]
            writes = tuple(dict.fromkeys((*read.writes, self.source.span(claim.pair.write.loc))))
            self.reads[known.number] = replace(read, writes=writes)
        return found

    def _copy(self, task: Task, copier: Copier) -> None:
        made = copier.task(task)
        self.next_id = copier.next_id
        self.tasks.append(made)

    def kernel(self) -> Kernel:
        """All tasks, without what marks and looks do not need."""
        types = self.source.array_types()
        names = [_name(a, k) for k, a in enumerate(self.marked)]
        marks = [Param(name, ArrayType(i64, types[a].ndim + 1)) for name, a in zip(names, self.marked)]
        outputs = (*marks, Param(CONFLICTS, ArrayType(i64, 2)))
        made = replace(
            self.source, name=f"{self.source.name}.marks", params=self.source.params + outputs, tasks=tuple(self.tasks)
        )
        return remove_dead_code(made)

    def reads_at_risk(self, made: Kernel) -> bool:
        """Whether a load of the marking kernel may not find what the kernel itself found."""
        return any(isinstance(s, (n.Load, n.Atomic)) and s.result in self.at_risk for s in walk_kernel(made))


@dataclass
class _Row:
    number: int
    inside: bool = False
    across: bool = False


NO_ROWS: Mapping[int, _Row] = {}


class _Marks(Copier):
    """Copies one task with marks at its writes, or looks at its reads. numbered: accesses counted in an iteration.

    excess: the row that tells of numbers that do not fit.
    """

    def __init__(
        self,
        maker: _Maker,
        number: int,
        task: Task | None,
        numbered: Collection[int],
        writes: Collection[int] = (),
        rows: Mapping[int, _Row] = NO_ROWS,
        excess: int | None = None,
    ) -> None:
        count = len(maker.tasks)
        super().__init__(maker.next_id, {}, maker.at_risk, f"marks{count}.")
        self.marks = _name(maker.marked[number], number)
        self.place = task
        self.numbered = numbered
        self.writes = writes
        self.rows = rows
        self.excess = min((row.number for row in rows.values()), default=excess)
        self.counter = f"$access{count}"
        self.iteration: Value | None = None
        self.span: list[tuple[Value, Value]] = []

    def task(self, task: Task) -> Task:
        """The copy of a task, its iteration numbered as the box is run through row by row; the body finds the bounds
        for itself, as it sees no value of theirs.
        """
        made = super().task(replace(task, body=()))
        bounds = self.bounds(task)
        b = Builder(self.next_id)
        self.iteration = b.const(0, i64)
        for index, begin, end in zip(made.indices, task.begin, task.end):
            first, last, here = (b.cast(v, i64) for v in (self.names[begin], self.names[end], index))
            extent = b.op("sub", last, first)
            self.iteration = b.op("add", b.op("mul", self.iteration, extent), b.op("sub", here, first))
            self.span.append((first, extent))
        b.local(self.counter, i64)
        self.next_id = b.next_id
        return replace(made, body=bounds + b.take() + self.block(task.body))

    def block(self, block: Block) -> Block:
        """The copy of a block."""
        out: list[Stmt] = []
        for stmt in block:
            if id(stmt) in self.numbered:
                out += self._access(stmt)
            if self._stays(stmt):
                out.append(self.stmt(stmt))
        return tuple(out)

    def _access(self, stmt: Stmt) -> Block:
        b = Builder(self.next_id)
        b.loc = stmt.loc
        indices = tuple(b.cast(v, i64) for v in self.renamed(stmt.indices))  # type: ignore[attr-defined]
        number = b.op("add", b.get(self.counter, i64), b.const(1, i64))
        b.set(self.counter, number)
        assert self.iteration is not None
        when = b.op("add", b.op("bit_shl", self.iteration, b.const(BITS, i64)), number)
        if self.excess is not None:
            self._limit(b, self.excess, number)
        if id(stmt) in self.writes:
            self._mark(b, indices, when)
        if id(stmt) in self.rows:
            self._look(b, indices, when, self.rows[id(stmt)])
        self.next_id = b.next_id
        return b.take()

    def _limit(self, b: Builder, row: int, number: Value) -> None:
        """Tell of numbers that marks have no room for."""
        assert self.iteration is not None
        far = b.op("cmp_ge", self.iteration, b.const(ITERATIONS, i64))
        many = b.op("cmp_ge", number, b.const(ACCESSES, i64))
        with b.block() as report:
            which = b.op("select", far, b.const(1, i64), b.const(2, i64))
            b.atomic("max", CONFLICTS, (b.const(row, i64), b.const(1, i64)), which)
        b.if_(b.op("logical_or", far, many), report)

    def _mark(self, b: Builder, indices: Sequence[Value], when: Value) -> None:
        planes = [b.const(k, i64) for k in range(PLANES)]
        if self.place is None:  # in a later task
            b.atomic("max", self.marks, (*indices, planes[2]), b.const(1, i64))
            return
        b.atomic("max", self.marks, (*indices, planes[0]), when)
        b.atomic("max", self.marks, (*indices, planes[1]), b.op("sub", b.const(FIRST, i64), when))

    def _look(self, b: Builder, indices: Sequence[Value], when: Value, row: _Row) -> None:
        last, least, later = (b.load(self.marks, (*indices, b.const(k, i64)), i64) for k in range(PLANES))
        bits, zero = b.const(BITS, i64), b.const(0, i64)
        first = b.op("sub", b.const(FIRST, i64), least)
        assert self.iteration is not None
        others = [b.op("cmp_ne", b.op("bit_sar", v, bits), self.iteration) for v in (last, first)]
        apart = b.op("logical_or", *others)
        found, weight = [], zero
        if row.across:
            found.append(b.op("logical_and", b.op("cmp_ne", last, zero), apart))
            weight = b.op("select", found[0], b.const(FIRST - 1, i64), zero)
        if row.inside:
            follows = b.op("logical_and", b.op("cmp_gt", last, when), b.op("logic_not", others[0]))
            found.append(b.op("logical_or", follows, b.op("cmp_ne", later, zero)))
        conflict = found[0] if len(found) == 1 else b.op("logical_or", *found)
        with b.block() as report:
            self._report(b, indices, row, weight)
        b.if_(conflict, report)

    def _report(self, b: Builder, indices: Sequence[Value], row: _Row, weight: Value) -> None:
        """The first iteration with a conflict, and its first element; begin and extent of each axis.

        weight: makes a conflict between iterations, which no tape cures, greater than any within one.
        """
        element = b.const(0, i64)
        for axis, index in enumerate(indices):
            element = b.op("add", b.op("mul", element, b.shape(self.marks, axis, i64)), index)
        assert self.iteration is not None
        where = b.op("add", b.op("bit_shl", self.iteration, b.const(BITS, i64)), element)
        at = b.const(row.number, i64)
        number = b.op("add", b.op("sub", b.const(FIRST, i64), where), weight)
        b.atomic("max", CONFLICTS, (at, b.const(0, i64)), number)
        for k, value in enumerate(v for pair in self.span for v in pair):
            b.atomic("max", CONFLICTS, (at, b.const(2 + k, i64)), b.op("add", value, b.const(SHIFT, i64)))
