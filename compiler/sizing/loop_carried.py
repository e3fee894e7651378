"""This module finds size expressions for locals whose values pass from one trip of a loop to the next.

    v = v + e      →   before trip i: v0 + sum(begin .. i: e)      after the loop: v0 + sum(begin .. end: e)
    v = e          →   before trip i: e of i - 1, v0 in the first  after the loop: e of end - 1, v0 if it is empty

This holds where e does not need a local of this kind. All other locals that the loop sets are unknown in it and after
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import nodes as n
from ..ir.types import Scalar
from . import algebra as a
from . import ranges
from . import symbolic_intervals as s
from .expressions import ONE, SAFE, ZERO, SizeExpr, variable
from .symbolic_intervals import UNKNOWN, Checks, SymbolicInterval

if TYPE_CHECKING:
    from .recognize import SizeRecognizer
    from .stack_flow import LoopRange, StackFlow

SYMBOL = 1 << 40
"""Numbers from SYMBOL on stand for what a local holds at the start of an iteration."""


@dataclass(frozen=True)
class CarriedStep:
    """A `CarriedStep` describes how a trip of a loop changes a local: it adds an amount or assigns a new value.

    Attributes:
        grows: True if the local grows by `value`; False if it becomes `value`.
        value: The growth or the new value.
    """

    grows: bool
    value: SizeExpr


def walk_loop_body(
    r: SizeRecognizer, stmt: n.For, loop: LoopRange, enter: Callable[[], None]
) -> tuple[dict[str, StackFlow], dict[str, SymbolicInterval], Checks]:
    """Analyze a loop body; return how the loop changes adstack heights. Set locals to their values after the loop.

    Args:
        r: The recognizer that executes the task on symbolic intervals.
        stmt: The loop.
        loop: The range of the loop.
        enter: Function that makes the index and range of the loop known, before its body is analyzed.

    Returns:
        The flows and the peaks of one trip, and the checks under which they are right.
    """
    before = r.state.locals
    names = [v for v in r.assigned(stmt.body) if v in before and v not in r.counters]
    steps: dict[str, CarriedStep] = {}
    known = loop.number is not None and not loop.early and not stmt.descending
    if known and r.gets(stmt.body).intersection(names):
        steps = _steps(r, stmt, enter, before, names)
    # This second walk knows what each local holds at the start of an iteration.
    r.state.locals = {**before, **{k: _start(loop, before[k], steps.get(k)) for k in names}}
    flows, peaks = _walk(r, stmt, enter)
    last = r.state.locals
    checks = s.NONE.union(*[last[k].checks for k in steps])
    r.state.locals = dict(before)
    for name in names:
        value = last[name].exact
        step = steps.get(name) or (CarriedStep(False, value) if known and value is not None else None)
        r.state.locals[name] = _after(loop, before[name], step).given(checks | last[name].checks)
    return flows, peaks, checks


def _walk(
    r: SizeRecognizer, stmt: n.For, enter: Callable[[], None]
) -> tuple[dict[str, StackFlow], dict[str, SymbolicInterval]]:
    """Analyze a loop body once; return the flows of outer adstacks, and the peaks of adstacks that it declares."""
    around, bounds = r.state.around, dict(r.state.bounds)
    enter()
    found = r.block(stmt.body)
    r.state.around, r.state.bounds = around, bounds
    return found


def _steps(
    r: SizeRecognizer, stmt: n.For, enter: Callable[[], None], before: dict[str, SymbolicInterval], names: list[str]
) -> dict[str, CarriedStep]:
    """Return, for each local, its change by one trip of the loop; locals with an unknown change are left out."""
    symbols = {name: variable(SYMBOL + r.symbol(), *_bounds(r.dtypes[name])) for name in names}
    r.state.locals = {**before, **{name: s.exact_interval(symbol) for name, symbol in symbols.items()}}
    _walk(r, stmt, enter)
    found = {name: _step(r.state.locals[name].exact, max(symbol.free)) for name, symbol in symbols.items()}
    return {name: step for name, step in found.items() if step is not None}


def _bounds(dtype: Scalar) -> tuple[int, int]:
    """Return the bounds that the values of a local of this type must keep, so that their sums do not overflow."""
    return SAFE if not dtype.is_int or dtype.bits == 64 else dtype.limits


def _step(after: SizeExpr | None, symbol: int) -> CarriedStep | None:
    """Return how one trip of a loop changes a local, or None if that is unknown.

    `after` is the value of the local at the end of the trip, in terms of the symbol for its value at the start.
    """
    if after is None or after.is_condition or after.is_real:
        return None
    growth = _growth(after, symbol)
    value = growth if growth is not None else after
    return None if any(v >= SYMBOL for v in value.free) else CarriedStep(growth is not None, value)


def _growth(after: SizeExpr, symbol: int) -> SizeExpr | None:
    """Return an expression e with after = symbol + e, possibly a conditional one, or None if there is none."""
    if after.kind == "when":
        sides = [_growth(side, symbol) for side in after.args[1:]]
        return None if None in sides else a.select_value(after.args[0], *sides)  # type: ignore[arg-type]
    found = ranges.split_linear(after, symbol)
    return found[1] if found is not None and found[0] == ONE else None


def _start(loop: LoopRange, first: SymbolicInterval, step: CarriedStep | None) -> SymbolicInterval:
    """Return the symbolic interval of a local's value at the start of a trip, in terms of the loop index."""
    if step is None or first.exact is None or loop.number is None:
        return UNKNOWN
    begin, end = loop.begin.exact, loop.end.exact
    assert begin is not None and end is not None
    index = variable(loop.number, begin.low, max(end.high - 1, begin.low))
    if step.grows:
        return s.exact_interval(a.add(first.exact, _sum(loop, begin, index, step.value)), first.checks)
    value = a.substitute(step.value, loop.number, a.sub(index, ONE))
    return s.exact_interval(a.select_value(a.positive(a.sub(index, begin)), value, first.exact), first.checks)


def _sum(loop: LoopRange, begin: SizeExpr, end: SizeExpr, value: SizeExpr) -> SizeExpr:
    """Return the sum of `value` over the trips begin .. end of a loop, with a new loop index."""
    assert loop.number is not None
    own = variable(loop.number + SYMBOL // 2, begin.low, max(end.high - 1, begin.low))
    body = a.substitute(value, loop.number, own)
    return ranges.range_sum(max(own.free), begin, end, body, loop.around)


def _after(loop: LoopRange, first: SymbolicInterval, step: CarriedStep | None) -> SymbolicInterval:
    """Return the symbolic interval of a local's value after the loop."""
    begin, end = loop.begin.exact, loop.end.exact
    if step is None or first.exact is None or begin is None or end is None or loop.number is None:
        return UNKNOWN
    checks = first.checks | loop.length.checks
    if step.grows:
        total = ranges.range_sum(loop.number, begin, end, step.value, loop.around)
        return s.exact_interval(a.add(first.exact, total), checks)
    if loop.length.exact == ZERO or step.value.is_condition or step.value.is_real:
        return UNKNOWN
    value = a.substitute(step.value, loop.number, a.sub(end, ONE))
    assert loop.length.exact is not None
    return s.exact_interval(a.select_value(a.positive(loop.length.exact), value, first.exact), checks)
