"""This module makes marking kernels, which check before a gradient runs if accesses touch the same element.

    x[p[i]] = f(x[q[i]])   →   task 1: atomic max $x.marks0[p[i], 0], when;  atomic max $x.marks0[p[i], 1], FIRST - when
                               task 2: if the marks of q[i] are of another iteration: atomic max $conflicts[0, 0], ..

The marking kernel is the slice of a kernel that computes the indices of the accesses in question; every backend runs
it. For each task and array with such a pair, it first marks the elements that writes touch; then each read in question
looks at the marks of its element. A mark holds the number of an iteration and of the access within it: the greatest in
plane 0, the least (as a difference from FIRST) in plane 1; plane 2 tells of later tasks. Planes are the last axis.
Accesses of an iteration are numbered as they run, also in serial loops; a serial task is one iteration. Without a
conflict, the order of the iterations decides nothing, and memory still holds the values that the reads found. The
kernel runs with memory as the source kernel left it, so none of its own loads may be at risk; else there are no marks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.affine import IndexForms, is_own
from ..errors import ClaimError, NotDifferentiable
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task
from ..ir.names import added_name, shown_name
from ..ir.roles import ARRAY_READS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, i64
from ..ir.walk import next_id, walk, walk_kernel
from ..passes.dead_code import remove_dead_code
from .adjoint_states import source_array
from .conflicts import BITS, FIRST, SHIFT, ConflictRow, describe, size_diagnostic
from .copier import Copier
from .risk import Access, Risk, RiskPair, Write

CONFLICTS = "$conflicts"
PLANES = 3
ITERATIONS, ACCESSES, ELEMENTS = 1 << 30, 1 << BITS, 1 << BITS
"""Iterations of a loop, accesses of an iteration and elements of an array must be fewer, to have room in a mark."""


@dataclass(frozen=True)
class MarkedPair:
    """Represent a pair of accesses that a marking kernel must prove not to touch the same element.

    It checks within one iteration (`inside`), between iterations (`across`), or both.

    `stated` is True if the program claims that the two accesses never meet; only debug mode verifies such claims.
    """

    pair: RiskPair
    inside: bool
    across: bool
    stated: bool = False


@dataclass(frozen=True)
class MarkingKernel:
    """Hold a marking kernel and what its output means, so that conflicts become error messages.

    `marked` names, for each array of marks, the array whose elements are marked; `reads` describes, for each row of
    `$conflicts`, the read whose conflicts the row reports. `by_hand` is True if the kernel also looks for later writes,
    which only a gradient called by hand must know.
    """

    kernel: Kernel
    marked: tuple[str, ...]
    reads: tuple[ConflictRow, ...]
    by_hand: bool = False

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise NotDifferentiable if an array has too many elements for marks; `sizes` has the number of elements."""
        found = [(r, sizes[self.marked[r.marks]]) for r in self.reads]
        large = [size_diagnostic(r, f"{r.array} has {size} elements") for r, size in found if size >= ELEMENTS]
        if large:
            raise NotDifferentiable(large)

    def refusal(self, marks: Sequence[Any], conflicts: Any) -> NotDifferentiable:
        """Return the error for the conflicts that a run of the marking kernel noted in `marks` and `conflicts`.

        Each array of `marks` is shaped (*shape, PLANES).
        """
        rows = [(r, conflicts[k].tolist()) for k, r in enumerate(self.reads)]
        beyond = {
            1: f"this parallel loop has more than {ITERATIONS} iterations",
            2: f"an iteration of this parallel loop has {ACCESSES} accesses or more",
        }
        too_many = [size_diagnostic(r, beyond[row[1]]) for r, row in rows if row[1]]
        if too_many:
            return NotDifferentiable(too_many)
        kind = ClaimError if all(r.stated for r, row in rows if row[0]) else NotDifferentiable
        return kind([describe(r, row, marks[r.marks]) for r, row in rows if row[0]])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the parameter name of each array of marks."""
        return tuple(_name(array, k) for k, array in enumerate(self.marked))

    @property
    def width(self) -> int:
        """Return the number of columns of the output array `$conflicts`, which has one row for each checked read.

        The columns are: the conflict; a code if a number does not fit into a mark; begin and extent of each axis of the
        box.
        """
        return 2 + 2 * max((r.axes for r in self.reads), default=0)


def make_marking(kernel: Kernel, claims: Iterable[MarkedPair], at_risk: Mapping[Value, Risk]) -> MarkingKernel | None:
    """Return the marking kernel for access pairs; None if the marking kernel may itself load overwritten elements."""
    groups: dict[tuple[int, str, bool], list[MarkedPair]] = {}
    for claim in dict.fromkeys(claims):
        groups.setdefault((claim.pair.task, claim.pair.access.array, claim.stated), []).append(claim)
    maker = _MarkingBuilder(kernel, dict(at_risk))
    for (task, _, _), found in groups.items():
        maker.add(task, found)
    made = maker.kernel()
    by_hand = any(c.inside for found in groups.values() for c in found)
    return None if maker.reads_at_risk(made) else MarkingKernel(made, tuple(maker.marked), tuple(maker.reads), by_hand)


def stated_claims(kernel: Kernel) -> Iterator[MarkedPair]:
    """Yield the access pairs that touch no common element if the program's claims of unique indices are true."""
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
                    yield MarkedPair(RiskPair(a, b, t, t, across=True), inside=False, across=True, stated=True)


def _name(array: str, number: int) -> str:
    return added_name(source_array(array), f"marks{number}")


class _MarkingBuilder:
    def __init__(self, kernel: Kernel, at_risk: dict[Value, Risk]) -> None:
        self.source = kernel
        self.at_risk = at_risk
        self.next_id = next_id(kernel)
        self.tasks: list[Task] = []
        self.marked: list[str] = []
        self.reads: list[ConflictRow] = []
        temps = {t.name: t.name for t in kernel.temps}
        for task in kernel.tasks if temps else ():
            if any(isinstance(s, Write) and s.array in temps for s in walk(task.body)):
                self._copy(task, Copier(self.next_id, temps, self.at_risk, "temps."))

    def add(self, t: int, claims: list[MarkedPair]) -> None:
        """Extend the marking kernel by tasks that write and compare marks for access pairs on one array."""
        number = len(self.marked)
        self.marked.append(claims[0].pair.access.array)
        task = self.source.tasks[t]
        own = [c.pair.write for c in claims if c.pair.write_task == t]
        later = {c.pair.write_task for c in claims} - {t}
        rows = self._rows(claims, number)
        places = {*map(id, own), *rows}
        if own:
            first = min(row.number for row in rows.values())
            self._copy(task, _MarkWriter(self, number, task, places, writes=set(map(id, own)), excess=first))
        for other in sorted(later):
            mine = {id(c.pair.write) for c in claims if c.pair.write_task == other}
            self._copy(self.source.tasks[other], _MarkWriter(self, number, None, mine, writes=mine))
        self._copy(task, _MarkWriter(self, number, task, places, rows=rows))

    def _rows(self, claims: list[MarkedPair], number: int) -> dict[int, _MarkedRead]:
        """Return, for the id of each access, the row of `$conflicts` that reports its conflicts; extend `reads`."""
        found: dict[int, _MarkedRead] = {}
        for claim in claims:
            access = claim.pair.access
            known = found.get(id(access))
            if known is None:
                axes = len(self.source.tasks[claim.pair.task].indices)
                known = found[id(access)] = _MarkedRead(len(self.reads))
                span = self.source.span(access.loc)
                self.reads.append(ConflictRow(shown_name(access.array), span, (), axes, number, claim.stated))
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
        """Return the marking kernel, built from the added tasks, without dead code."""
        types = self.source.array_types()
        names = [_name(a, k) for k, a in enumerate(self.marked)]
        marks = [Param(name, ArrayType(i64, types[a].ndim + 1)) for name, a in zip(names, self.marked)]
        outputs = (*marks, Param(CONFLICTS, ArrayType(i64, 2)))
        made = replace(
            self.source, name=f"{self.source.name}.marks", params=self.source.params + outputs, tasks=tuple(self.tasks)
        )
        return remove_dead_code(made)

    def reads_at_risk(self, made: Kernel) -> bool:
        """Return True if the marking kernel itself loads an element that the kernel may overwrite."""
        return any(isinstance(s, ARRAY_READS) and s.result in self.at_risk for s in walk_kernel(made))


@dataclass
class _MarkedRead:
    number: int
    inside: bool = False
    across: bool = False


NO_ROWS: Mapping[int, _MarkedRead] = {}


class _MarkWriter(Copier):
    """Copy one task, with statements added that write marks at writes or compare marks at reads.

    The accesses in `numbered` are counted in each iteration. `excess` is the row of `$conflicts` that reports numbers
    which are too large for a mark.
    """

    def __init__(
        self,
        maker: _MarkingBuilder,
        number: int,
        task: Task | None,
        numbered: Collection[int],
        writes: Collection[int] = (),
        rows: Mapping[int, _MarkedRead] = NO_ROWS,
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
        """Return the copy of a task in which each iteration first computes its row-major number in the box."""
        made = super().task(replace(task, body=()))
        # The body sees no value of the bounds of its task, so it computes them again.
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
        """Return the copy of a block, with statements that write or compare marks."""
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
        """Emit a report, in this row of `$conflicts`, that the number of an iteration or access exceeds a mark."""
        assert self.iteration is not None
        far = b.op("cmp_ge", self.iteration, b.const(ITERATIONS, i64))
        many = b.op("cmp_ge", number, b.const(ACCESSES, i64))
        with b.block() as report:
            which = b.op("select", far, b.const(1, i64), b.const(2, i64))
            b.atomic("max", CONFLICTS, (b.const(row, i64), b.const(1, i64)), which)
        b.if_(b.op("logical_or", far, many), report)

    def _mark(self, b: Builder, indices: Sequence[Value], when: Value) -> None:
        planes = [b.const(k, i64) for k in range(PLANES)]
        # The write stands in a later task.
        if self.place is None:
            b.atomic("max", self.marks, (*indices, planes[2]), b.const(1, i64))
            return
        b.atomic("max", self.marks, (*indices, planes[0]), when)
        b.atomic("max", self.marks, (*indices, planes[1]), b.op("sub", b.const(FIRST, i64), when))

    def _look(self, b: Builder, indices: Sequence[Value], when: Value, row: _MarkedRead) -> None:
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

    def _report(self, b: Builder, indices: Sequence[Value], row: _MarkedRead, weight: Value) -> None:
        """Emit the report of a conflict to `$conflicts`: the first iteration and element, and the box of the task.

        `weight` makes a conflict between iterations, which no tape removes, greater than any within one iteration.
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
