"""This module finds where the arguments of sin and cos are known to be small, so that GPUs can use shorter code.

Values on whose last bit control depends are left alone: a kernel, its gradient and its counting kernel would know
different intervals of them, and must agree.

    for _ in range(n): v = sin(v)      →      if n: v = sin(v);  for _ in range(n - 1): v = sin(v)  [v is small]

is how a loop is emitted if all trips but the first can have shorter code.
"""

from __future__ import annotations

import math

from ...compiler.analysis.real_ranges import RealRanges, is_innermost, pops_history, real_ranges
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.types import f64
from ...compiler.ir.walk import walk, walk_task
from .emit import ModuleState
from .polynomials.gpu_trigonometric import LEAN, form_within
from .task_emitter import TaskEmitter

APART = 48
"""Most statements of a loop whose first trip is written apart."""


def ranges_of(m: ModuleState, task: int) -> RealRanges:
    """Return the intervals of the real values of a task; they are not computed if no code depends on them."""
    if task not in m.ranges:
        differs = m.target.lean and not m.options.precise and not m.options.debug
        m.ranges[task] = real_ranges(m.kernel.tasks[task]) if differs and _asks(m.kernel.tasks[task]) else RealRanges()
    return m.ranges[task]


def _asks(task: Task) -> bool:
    """Return True if the task has an operation whose code depends on the interval of its argument."""
    return any(isinstance(stmt, n.Op) and stmt.op in LEAN for stmt in walk_task(task))


def reach_of(e: TaskEmitter, stmt: n.Op) -> float:
    """Return the largest possible magnitude of an operation's argument in the trips for which code is being emitted."""
    return _reach(e, stmt, e.flow.usual) if e.m.target.lean else math.inf


def _reach(e: TaskEmitter, stmt: n.Op, usual: bool) -> float:
    """Return the largest possible magnitude of an operation's argument; if `usual`, in usual trips only.

    A usual trip is any but the first of an innermost loop; for loops that pop history see real_ranges.py.
    """
    if stmt.op not in LEAN or stmt.result.type == f64 or stmt.result in e.m.exact:
        return math.inf
    return ranges_of(e.m, e.task).reach(stmt.args[0], usual)


def needs_library(e: TaskEmitter, loop: n.For | n.While) -> bool:
    """Return True if a loop contains a sin or cos whose argument may be so large that the math library is needed."""
    inside = (s for s in walk(loop.body) if isinstance(s, n.Op) and s.op in LEAN)
    return any(form_within(s.op, _reach(e, s, e.flow.usual)) is None for s in inside)


def is_code_shorter(e: TaskEmitter, loop: n.For | n.While) -> bool:
    """Return True if the usual trips of a loop, mostly all but the first, can have shorter code than the others."""
    inside = [s for s in walk(loop.body) if isinstance(s, n.Op) and s.op in LEAN]
    return is_innermost(loop) and any(
        form_within(s.op, _reach(e, s, True)) != form_within(s.op, _reach(e, s, False)) for s in inside
    )


def first_is_apart(e: TaskEmitter, loop: n.For) -> bool:
    """Return True if the first trip of a loop gets code of its own, so that later trips can use shorter code."""
    small = sum(1 for _ in walk(loop.body)) <= APART
    return e.m.target.lean and small and not pops_history(loop) and is_code_shorter(e, loop)
