"""Run kernels of raw adstack statements that pop from empty adstacks or push to full ones, as no gradient does.

A user's program never does this, and yet a generator of code can get it wrong: a read below the bottom of an adstack
gives 0 and leaves neighboring memory alone, and only one thread writes an error record. The kernel is a function of the
plan, so it stays the same while the program of the case is reduced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ....backends.base import Backend, Draws, Options
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering
from ....compiler.errors import Unsupported as UnsupportedError
from ....compiler.ir.kernels import Kernel
from ....compiler.sizing.counting_kernel import count_stacks
from ...testing.outcome import Arrays, Outcome, TrapOutcome, UnsupportedOutcome, attempt
from ..strategies import sample_adstacks
from ..strategies.adstacks import EMPTY, OVERFLOW, read_as_zero
from ..strategies.raw import RawCase
from .execution_end import describe_end
from .plan import FuzzPlan
from .reference_run import judge, launch_bounded
from .result import JudgedComparison
from .widened_cpu import executors

DIRECTION = "stacks"
_NUMBERS = re.compile(r"it holds (\d+) values and a push made it (\d+)")


def compare(plan: FuzzPlan, backends: Mapping[str, Backend]) -> Iterator[JudgedComparison]:
    """Yield the verdict of each backend on the plan's raw adstack kernel, or nothing if the plan has none."""
    if not plan.stacks:
        return
    case = sample_adstacks(plan.stacks)
    options = Options(effort=plan.effort)
    for name, backend in executors(backends, plan).items():
        if plan.wants(DIRECTION, name):
            yield _judged(name, case, attempt(lambda b=backend: _launched(case, b, options)))  # type: ignore[misc]


def _launched(case: RawCase, backend: Backend, options: Options) -> Arrays:
    memory = case.memory()
    try:
        # Depths may depend on the content of an adstack, which no counting kernel can know.
        counting = count_stacks(case.kernel)
    except UnsupportedError:
        counting = None
    Launcher(Lowering(case.kernel, counting), backend, options).run(memory, {}, Draws())
    return memory


def _judged(name: str, case: RawCase, found: Outcome) -> JudgedComparison:
    if isinstance(found, UnsupportedOutcome):
        return JudgedComparison(DIRECTION, name, "the language", "unsupported", found.reason)
    if case.trap == OVERFLOW:
        reason = _misreported(found)
        return JudgedComparison(DIRECTION, name, "the language", "disagree" if reason else "ok", reason)
    made = judge(launch_bounded(_released(case), case.arrays, {}, Draws()), name, found)
    return JudgedComparison(DIRECTION, name, "the language", made.verdict, made.reason)


def _released(case: RawCase) -> Kernel:
    """Return the kernel with each read of an empty adstack replaced by 0, which builds without checks return."""
    return read_as_zero(case.kernel) if case.trap == EMPTY else case.kernel


def _misreported(found: Outcome) -> str:
    """Return a text on what an overflow trap reports wrongly, or "" if its report is right.

    A push finds an adstack exactly full, so the two numbers of a report differ by 1.
    """
    if not isinstance(found, TrapOutcome) or found.kind != OVERFLOW:
        return f"{describe_end(found)}; the language: {OVERFLOW}"
    numbers = _NUMBERS.search(found.message)
    if numbers and int(numbers[2]) != int(numbers[1]) + 1:
        return f"numbers of two threads in one report: {numbers[0]}"
    return ""
