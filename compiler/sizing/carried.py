"""Locals that one iteration of a loop leaves for the next.

    v = v + e      →   before iteration i: v0 + sum(begin .. i: e)      after the loop: v0 + sum(begin .. end: e)
    v = e          →   before iteration i: e of i - 1, v0 in the first  after the loop: e of end - 1, v0 if it is empty

where e needs no such local. Every other one is unknown in the loop and after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import nodes as n
from ..ir.types import Scalar
from . import algebra as a
from . import ranges
from . import spans as s
from .expressions import ONE, SAFE, ZERO, Expr, bounds_of, variable
from .spans import UNKNOWN, Checks, Span

if TYPE_CHECKING:
    from .flows import Flow, Loop
    from .recognise import Recogniser

SYMBOL = 1 << 40
"""Numbers from here on stand for what a local holds at the start of an iteration."""


@dataclass(frozen=True)
class Step:
    """What an iteration does to a local: it grows by `value`, or becomes it."""

    grows: bool
    value: Expr


def carry(
    r: Recogniser, stmt: n.For, loop: Loop, enter: Callable[[], None]
) -> tuple[dict[str, Flow], dict[str, Span], Checks]:
    """Walk the body of a loop; afterwards the locals hold what it leaves. The flows and peaks of an iteration, and what
    must hold for them.
    """
    before = r.state.locals
    names = [v for v in r.assigned(stmt.body) if v in before and v not in r.counters]
    steps: dict[str, Step] = {}
    known = loop.number is not None and not loop.early and not stmt.descending
    if known and r.gets(stmt.body).intersection(names):
        steps = _steps(r, stmt, enter, before, names)
    r.state.locals = {**before, **{k: _start(loop, before[k], steps.get(k)) for k in names}}
    flows, peaks = _walk(r, stmt, enter)
    last = r.state.locals
    checks = s.NONE.union(*[last[k].checks for k in steps])
    r.state.locals = dict(before)
    for name in names:
        value = last[name].exact
        step = steps.get(name) or (Step(False, value) if known and value is not None else None)
        r.state.locals[name] = _after(loop, before[name], step).given(checks | last[name].checks)
    return flows, peaks, checks


def _walk(r: Recogniser, stmt: n.For, enter: Callable[[], None]) -> tuple[dict[str, Flow], dict[str, Span]]:
    around, bounds = r.state.around, dict(r.state.bounds)
    enter()
    found = r.block(stmt.body)
    r.state.around, r.state.bounds = around, bounds
    return found


def _steps(
    r: Recogniser, stmt: n.For, enter: Callable[[], None], before: dict[str, Span], names: list[str]
) -> dict[str, Step]:
    """By local, found by a walk with a symbol for each."""
    symbols = {name: variable(SYMBOL + r.symbol(), *_bounds(r.dtypes[name])) for name in names}
    r.state.locals = {**before, **{name: s.exactly(symbol) for name, symbol in symbols.items()}}
    _walk(r, stmt, enter)
    found = {name: _step(r.state.locals[name].exact, max(symbol.free)) for name, symbol in symbols.items()}
    return {name: step for name, step in found.items() if step is not None}


def _bounds(dtype: Scalar) -> tuple[int, int]:
    """Where a local lies; what it holds is checked where it is computed."""
    return SAFE if not dtype.is_int or dtype.bits == 64 else bounds_of(dtype)


def _step(after: Expr | None, symbol: int) -> Step | None:
    if after is None or after.is_condition or after.is_real:
        return None
    growth = _growth(after, symbol)
    value = growth if growth is not None else after
    return None if any(v >= SYMBOL for v in value.free) else Step(growth is not None, value)


def _growth(after: Expr, symbol: int) -> Expr | None:
    """e with after = symbol + e, also where a condition decides on it."""
    if after.kind == "when":
        sides = [_growth(side, symbol) for side in after.args[1:]]
        return None if None in sides else a.when(after.args[0], *sides)  # type: ignore[arg-type]
    found = ranges.split(after, symbol)
    return found[1] if found is not None and found[0] == ONE else None


def _start(loop: Loop, first: Span, step: Step | None) -> Span:
    """What a local holds at the start of an iteration."""
    if step is None or first.exact is None or loop.number is None:
        return UNKNOWN
    begin, end = loop.begin.exact, loop.end.exact
    assert begin is not None and end is not None
    index = variable(loop.number, begin.low, max(end.high - 1, begin.low))
    if step.grows:
        return s.exactly(a.add(first.exact, _sum(loop, begin, index, step.value)), first.checks)
    value = a.substitute(step.value, loop.number, a.sub(index, ONE))
    return s.exactly(a.when(a.positive(a.sub(index, begin)), value, first.exact), first.checks)


def _sum(loop: Loop, begin: Expr, end: Expr, value: Expr) -> Expr:
    """The sum over the iterations before `end`, by an index of its own."""
    assert loop.number is not None
    own = variable(loop.number + SYMBOL // 2, begin.low, max(end.high - 1, begin.low))
    body = a.substitute(value, loop.number, own)
    return ranges.total(max(own.free), begin, end, body, loop.around)


def _after(loop: Loop, first: Span, step: Step | None) -> Span:
    """What a local holds after the loop."""
    begin, end = loop.begin.exact, loop.end.exact
    if step is None or first.exact is None or begin is None or end is None or loop.number is None:
        return UNKNOWN
    checks = first.checks | loop.length.checks
    if step.grows:
        total = ranges.total(loop.number, begin, end, step.value, loop.around)
        return s.exactly(a.add(first.exact, total), checks)
    if loop.length.exact == ZERO or step.value.is_condition or step.value.is_real:
        return UNKNOWN
    value = a.substitute(step.value, loop.number, a.sub(end, ONE))
    assert loop.length.exact is not None
    return s.exactly(a.when(a.positive(loop.length.exact), value, first.exact), checks)
