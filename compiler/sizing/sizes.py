"""Find the sizes of all adstacks of a kernel as expressions, without running the counting kernel.

`KernelSizes` holds every size exactly, and is evaluated in place of the counting kernel. `DepthEstimate` is a report
for users on one adstack: the expression of its depth, or a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..analysis.equal_depths import leaders
from ..ir.kernels import Kernel
from ..ir.nodes import For, Set, StackAlloca, While
from ..ir.walk import walk, walk_kernel
from . import algebra as a
from . import ranges
from . import symbolic_intervals as s
from .counting_kernel import SLABS, count_slice, counters, slab_of
from .expressions import ONE, ZERO, SizeExpr
from .recognize import SizeRecognizer
from .stack_flow import LoopRange
from .symbolic_intervals import NOTHING, IntervalCheck, PointContext, SymbolicInterval


@dataclass(frozen=True)
class KernelSizes:
    """A `KernelSizes` holds expressions for the adstack sizes of a kernel, and limits within which these are valid.

    Attributes:
        depths: For each adstack in order of text, its depth in the deepest iteration.
        totals: For each adstack, the sum of its depths over all iterations.
        rows: For each task and slab, the number of iterations that need a row.
        limits: Pairs (x, m): the sizes are right only if x <= m for all pairs.
    """

    depths: tuple[SizeExpr, ...]
    totals: tuple[SizeExpr, ...]
    rows: tuple[SizeExpr, ...]
    limits: tuple[tuple[SizeExpr, int], ...] = ()

    @property
    def expressions(self) -> tuple[SizeExpr, ...]:
        """Return all expressions: those with limits, the depths, the sums of depths, and the numbers of rows."""
        return (*(x for x, _ in self.limits), *self.depths, *self.totals, *self.rows)


@dataclass(frozen=True)
class DepthEstimate:
    """A `DepthEstimate` holds a size expression for the depth of one adstack, or for an upper bound of the depth.

    Attributes:
        stack: Name of the adstack.
        depth: The depth or an upper bound; None if nothing is known.
        exact: True if `depth` is the depth itself.
    """

    stack: str
    depth: SizeExpr | None
    exact: bool


@dataclass(frozen=True)
class _SizeIntervals:
    """Hold the symbolic intervals of a kernel's depths, of the sums of its depths, and of its numbers of rows."""

    depths: dict[str, SymbolicInterval]
    totals: dict[str, SymbolicInterval]
    rows: tuple[SymbolicInterval, ...]


def recognize_sizes(kernel: Kernel, sliced: Kernel | None = None) -> KernelSizes | None:
    """Return size expressions for a kernel with adstacks, or None unless every size is known exactly.

    Args:
        kernel: A kernel of stage adjoint.
        sliced: The result of `count_slice` for the kernel, if it is known.
    """
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
    return KernelSizes(tuple(values[:count]), tuple(values[count : 2 * count]), tuple(values[2 * count :]), limits)


def _ends_early(sliced: Kernel, locals_: Mapping[str, object]) -> bool:
    """Return True if a while loop, or a for loop that may end early, contains a push, which sets one of `locals_`."""
    loops = (t for t in walk_kernel(sliced) if isinstance(t, While) or isinstance(t, For) and t.stop is not None)
    return any(isinstance(t, Set) and t.var in locals_ for loop in loops for t in walk((loop,)))


def estimate(kernel: Kernel) -> list[DepthEstimate]:
    """Return an estimate of the depth of each adstack, exact or an upper bound, in textual order."""
    found = _find(kernel, None)
    if found is None:
        return []
    return [DepthEstimate(k, x.high, x.exact is not None) for k, x in found.depths.items()]


def _find(kernel: Kernel, sliced: Kernel | None) -> _SizeIntervals | None:
    """Return the symbolic intervals of all adstack sizes of a kernel, or None if no adstack needs counting."""
    sliced = sliced if sliced is not None else count_slice(kernel)
    if sliced is None:
        return None
    recognizer = SizeRecognizer(sliced, counters(kernel))
    found = _SizeIntervals({}, {}, ())
    rows: list[SymbolicInterval] = []
    for task, walked in zip(kernel.tasks, sliced.tasks):
        axes, peaks = recognizer.task(walked)
        own = [t for t in walk(task.body) if isinstance(t, StackAlloca)]
        first = leaders(task.body)
        sums = {
            k: (_over(axes, ranges.range_maximum, peak), _over(axes, ranges.range_sum, peak))
            for k, peak in peaks.items()
        }
        for stack in own:
            found.depths[stack.stack], found.totals[stack.stack] = sums.get(first[stack.stack], (NOTHING, NOTHING))
        for slab in range(SLABS):
            ahead = dict.fromkeys(first[t.stack] for t in own if slab_of(t) == slab)
            rows.append(_rows(axes, [peaks.get(k, NOTHING) for k in ahead]))
    return _SizeIntervals(found.depths, found.totals, tuple(rows))


def _over(axes: Iterable[LoopRange], make: object, span: SymbolicInterval) -> SymbolicInterval:
    """Return the sum or maximum (`make` says which) of a symbolic interval over all axes of a task."""
    for axis in reversed(list(axes)):
        span = axis.over(make, span)  # type: ignore[arg-type]
    return span


def _rows(axes: list[LoopRange], peaks: list[SymbolicInterval]) -> SymbolicInterval:
    """Return the symbolic interval of the number of iterations that fill at least one slot of one of the adstacks."""
    if not peaks:
        return NOTHING
    needs = s.apply_operation(tuple(peaks), lambda *p: a.select_value(a.any_of(*map(a.positive, p)), ONE, ZERO))
    return _over(axes, ranges.range_sum, SymbolicInterval(ZERO, ONE, needs.checks) if needs.exact is None else needs)


def _limits(checks: Iterable[IntervalCheck]) -> tuple[tuple[SizeExpr, int], ...]:
    """Return the checks as pairs (expression, number that it must not exceed), outer checks first.

    Checks that always hold are left out.
    """
    found: dict[SizeExpr, int] = {}
    for check in sorted(checks, key=lambda c: (_depth(c.around), c.value.key)):
        if check.value.high > check.high:
            _limit(found, _everywhere(check.value, check.around), check.high)
        if check.value.low < check.low:
            _limit(found, _everywhere(a.scale(check.value, -1), check.around), -check.low)
    return tuple(found.items())


def _limit(found: dict[SizeExpr, int], value: SizeExpr, most: int) -> None:
    """Record in `found` that an expression must not exceed `most`, unless its upper bound shows that it cannot."""
    if value.high > most:
        found[value] = min(most, found.get(value, most))


def _depth(around: PointContext | None) -> int:
    """Return the number of loops and conditions that enclose a point."""
    return 0 if around is None else 1 + _depth(around.outer)


def _everywhere(value: SizeExpr, around: PointContext | None) -> SizeExpr:
    """Return the maximum of an expression, at least 0, over all points of the enclosing loops and conditions."""
    bounds = {}
    step = around
    while step is not None:
        if step.number >= 0:
            bounds[step.number] = (step.begin, step.end)
        step = step.outer
    while around is not None:
        if around.number < 0:
            value = a.select_value(around.begin, value, ZERO)
        else:
            bounds.pop(around.number)
            value = ranges.range_maximum(around.number, around.begin, around.end, value, bounds)
        around = around.outer
    return a.maximum(ZERO, value)
