"""The sizes of all adstacks of a kernel as expressions: what the counting kernel would find, without running it.

`Sized` holds every size exactly; it takes the place of the counting kernel. `Estimate` is what is known of a single
stack, for people: the expression, or a bound of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..ir.nodes import For, Kernel, Set, StackAlloca, While
from ..ir.walk import walk, walk_kernel
from ..passes.lockstep import leaders
from . import algebra as a
from . import ranges
from . import spans as s
from .count import SLABS, count_slice, counters, slab_of
from .expressions import ONE, ZERO, Expr
from .flows import Loop
from .recognise import Recogniser
from .spans import NOTHING, Around, Check, Span


@dataclass(frozen=True)
class Sized:
    """Expressions of all sizes of a kernel.

    depths, totals: by stack in order of text, its depth in the deepest iteration and the sum over all iterations. rows:
    for each task and slab the number of iterations that need a row. limits: (x, m): the sizes hold if x <= m.
    """

    depths: tuple[Expr, ...]
    totals: tuple[Expr, ...]
    rows: tuple[Expr, ...]
    limits: tuple[tuple[Expr, int], ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All of them, limits first."""
        return (*(x for x, _ in self.limits), *self.depths, *self.totals, *self.rows)


@dataclass(frozen=True)
class Estimate:
    """The depth of a stack. depth: None if nothing is known. exact: whether it is the depth, not a bound of it."""

    stack: str
    depth: Expr | None
    exact: bool


@dataclass(frozen=True)
class _Found:
    depths: dict[str, Span]
    totals: dict[str, Span]
    rows: tuple[Span, ...]


def recognise(kernel: Kernel, sliced: Kernel | None = None) -> Sized | None:
    """The sizes of a kernel with adstacks; None unless all are exact. sliced: what `count_slice` makes of it."""
    sliced = sliced if sliced is not None else count_slice(kernel)
    found = None if sliced is None or _ends_early(sliced, counters(kernel)) else _find(kernel, sliced)
    if found is None:
        return None
    spans = (*found.depths.values(), *found.totals.values(), *found.rows)
    values = [x.exact for x in spans if x.exact is not None]
    if len(values) < len(spans):
        return None
    limits = _limits(s.NONE.union(*[x.checks for x in spans]))
    count = len(found.depths)
    return Sized(tuple(values[:count]), tuple(values[count : 2 * count]), tuple(values[2 * count :]), limits)


def _ends_early(sliced: Kernel, locals_: Mapping[str, object]) -> bool:
    """Whether something is pushed in a loop that ends when it finds a reason to."""
    loops = (t for t in walk_kernel(sliced) if isinstance(t, While) or isinstance(t, For) and t.stop is not None)
    return any(isinstance(t, Set) and t.var in locals_ for loop in loops for t in walk((loop,)))


def estimate(kernel: Kernel) -> list[Estimate]:
    """What is known of each stack's depth, in order of text."""
    found = _find(kernel, None)
    if found is None:
        return []
    return [Estimate(k, x.high, x.exact is not None) for k, x in found.depths.items()]


def _find(kernel: Kernel, sliced: Kernel | None) -> _Found | None:
    sliced = sliced if sliced is not None else count_slice(kernel)
    if sliced is None:
        return None
    recogniser = Recogniser(sliced, counters(kernel))
    found = _Found({}, {}, ())
    rows: list[Span] = []
    for task, walked in zip(kernel.tasks, sliced.tasks):
        axes, peaks = recogniser.task(walked)
        own = [t for t in walk(task.body) if isinstance(t, StackAlloca)]
        first = leaders(task.body)
        sums = {k: (_over(axes, ranges.largest, peak), _over(axes, ranges.total, peak)) for k, peak in peaks.items()}
        for stack in own:
            found.depths[stack.stack], found.totals[stack.stack] = sums.get(first[stack.stack], (NOTHING, NOTHING))
        for slab in range(SLABS):
            ahead = dict.fromkeys(first[t.stack] for t in own if slab_of(t) == slab)
            rows.append(_rows(axes, [peaks.get(k, NOTHING) for k in ahead]))
    return _Found(found.depths, found.totals, tuple(rows))


def _over(axes: Iterable[Loop], make: object, span: Span) -> Span:
    for axis in reversed(list(axes)):
        span = axis.over(make, span)  # type: ignore[arg-type]
    return span


def _rows(axes: list[Loop], peaks: list[Span]) -> Span:
    if not peaks:
        return NOTHING
    needs = s.apply(tuple(peaks), lambda *p: a.when(a.either(*map(a.positive, p)), ONE, ZERO))
    return _over(axes, ranges.total, Span(ZERO, ONE, needs.checks) if needs.exact is None else needs)


def _limits(checks: Iterable[Check]) -> tuple[tuple[Expr, int], ...]:
    """The checks as expressions that must not exceed a number, outer ones first; those that are plain are left out."""
    found: dict[Expr, int] = {}
    for check in sorted(checks, key=lambda c: (_depth(c.around), c.value.key)):
        if check.value.high > check.high:
            _limit(found, _everywhere(check.value, check.around), check.high)
        if check.value.low < check.low:
            _limit(found, _everywhere(a.scale(check.value, -1), check.around), -check.low)
    return tuple(found.items())


def _limit(found: dict[Expr, int], value: Expr, most: int) -> None:
    if value.high > most:
        found[value] = min(most, found.get(value, most))


def _depth(around: Around | None) -> int:
    return 0 if around is None else 1 + _depth(around.outer)


def _everywhere(value: Expr, around: Around | None) -> Expr:
    """The largest value, at least 0, wherever the loops and conditions around lead."""
    bounds = {}
    step = around
    while step is not None:
        if step.number >= 0:
            bounds[step.number] = (step.begin, step.end)
        step = step.outer
    while around is not None:
        if around.number < 0:
            value = a.when(around.begin, value, ZERO)
        else:
            bounds.pop(around.number)
            value = ranges.largest(around.number, around.begin, around.end, value, bounds)
        around = around.outer
    return a.maximum(ZERO, value)
