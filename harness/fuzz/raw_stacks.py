"""Raw adstack kernels of a case: reads of empty stacks and pushes that have no room, which no gradient does.

No program of a user comes to this, and yet a generator can get it wrong: a read below the bottom of a stack gives 0
and leaves the memory of its neighbours alone, and an error record is written by one thread. The kernel is a function of
the plan, so whatever the program of the case is made into, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...backends.base import Backend, Draws, Options
from ...backends.launcher import Launcher
from ...compiler.driver import Lowered
from ...compiler.errors import Unsupported as UnsupportedError
from ...compiler.ir.nodes import Kernel
from ...compiler.sizing.count import count_stacks
from ..outcome import Arrays, Outcome, Trap, Unsupported, attempt
from ..strategies import sample_adstacks
from ..strategies.adstacks import EMPTY, OVERFLOW, read_as_zero
from ..strategies.raw import KernelCase
from .ends import end
from .plan import Plan
from .result import Judged
from .standard import bounded, judge
from .widened import executors

DIRECTION = "stacks"
_NUMBERS = re.compile(r"it holds (\d+) values and a push made it (\d+)")


def compare(plan: Plan, backends: Mapping[str, Backend]) -> Iterator[Judged]:
    """The kernel of the plan, if there is one, on the backends that run."""
    if not plan.stacks:
        return
    case = sample_adstacks(plan.stacks)
    options = Options(effort=plan.effort)
    for name, backend in executors(backends, plan).items():
        if plan.wants(DIRECTION, name):
            yield _judged(name, case, attempt(lambda b=backend: _launched(case, b, options)))  # type: ignore[misc]


def _launched(case: KernelCase, backend: Backend, options: Options) -> Arrays:
    memory = case.memory()
    try:
        counting = count_stacks(case.kernel)
    except UnsupportedError:  # depths that hang on what a stack holds
        counting = None
    Launcher(Lowered(case.kernel, counting), backend, options).run(memory, {}, Draws())
    return memory


def _judged(name: str, case: KernelCase, found: Outcome) -> Judged:
    if isinstance(found, Unsupported):
        return Judged(DIRECTION, name, "the language", "unsupported", found.reason)
    if case.trap == OVERFLOW:
        reason = _misreported(found)
        return Judged(DIRECTION, name, "the language", "disagree" if reason else "ok", reason)
    made = judge(bounded(_released(case), case.arrays, {}, Draws()), name, found)
    return Judged(DIRECTION, name, "the language", made.verdict, made.reason)


def _released(case: KernelCase) -> Kernel:
    """The kernel as it means without checks: the reference would trap."""
    return read_as_zero(case.kernel) if case.trap == EMPTY else case.kernel


def _misreported(found: Outcome) -> str:
    """What is wrong with the report of an overflow; "" if it is right. A push finds a stack full, or not at all."""
    if not isinstance(found, Trap) or found.kind != OVERFLOW:
        return f"{end(found)}; the language: {OVERFLOW}"
    numbers = _NUMBERS.search(found.message)
    if numbers and int(numbers[2]) != int(numbers[1]) + 1:
        return f"numbers of two threads in one report: {numbers[0]}"
    return ""
