"""This module judges recorded launches for `differential` and `gradcheck`, and prints the table of verdicts.

Invariant: a check passes only if some executor decided. `differential` needs one executor beside the reference,
`gradcheck` one judge that has no part in the compiler: JAX, dual numbers or the Taylor remainder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...compiler.errors import Unsupported
from .compare import FAILURES, Comparison, Standard, worst
from .cost import LaunchCost
from .executors import Executor
from .launch import CapturedLike, LaunchSetting, is_forward, widen_launch
from .oracles.taylor import taylor_order
from .outcome import Arrays, OkOutcome, Outcome, attempt, one_line
from .replay import ExecutorPanel, Replay, ReplayCase
from .rounding import narrowest_type, random_signs, seeded_generator

LEAST_ORDER = 1.5
"""Least accepted order of the Taylor remainder, which is 2 for a right gradient and 1 for a wrong one."""

ORACLES = ("jax", "dual", "taylor")


@dataclass
class OpenPanel(ExecutorPanel):
    """Represent a panel with all backends, to which the user has added further executors."""

    extra: Sequence[Executor] = ()

    @property
    def judged(self) -> tuple[Executor, ...]:  # type: ignore[override]
        """Return the executors that the check compares in both precisions, double and the kernel's own."""
        return *super().judged, *self.extra


class ThoroughReplay(Replay):
    """Represent a replay whose gradient all oracles judge, where a plain replay asks only the first able oracle."""

    def _settle(
        self, jax: Comparison, standard: Standard, seeds: Arrays, reruns: Sequence[Outcome], cost: LaunchCost | None
    ) -> list[Comparison]:
        found = super()._settle(jax, standard, seeds, reruns, cost)
        if not is_forward(self.kernel) or cost is None or cost.dual_refusal():
            return found
        if all(c.executor != "dual" for c in found):
            found.append(self._directional(standard, seeds, reruns))
        return [*found, self._taylor(standard, seeds)]

    def _taylor(self, standard: Standard, seeds: Arrays) -> Comparison:
        """Judge the gradient by the Taylor remainder of a scalar function along one random direction.

        The function is f(x) = <seeds, final contents from the initial contents x>.
        """
        arrays, direction = (
            self.setting.arrays,
            {n: random_signs(seeded_generator("taylor", n), self.setting.arrays[n].shape) for n in self.names},
        )

        def f(t: np.ndarray) -> float:
            there = {n: np.asarray(arrays[n] + float(t) * direction[n]) for n in self.names}
            outcome = attempt(
                lambda: self._forward(self.panel.reference, replace(self.setting, arrays={**arrays, **there}))
            )
            return _dot(seeds, outcome.arrays) if isinstance(outcome, OkOutcome) else math.nan

        slope = _dot(standard.arrays, direction)
        order = taylor_order(f, np.zeros(()), np.ones(()), slope)
        if math.isnan(order):
            return Comparison("taylor", "undecided", "values near this state are not finite")
        if order >= LEAST_ORDER:
            return Comparison("taylor", "ok")
        if self._at_kink(standard, seeds):
            return Comparison("taylor", "poisoned", "at a kink, where one gradient is not enough")
        return Comparison("taylor", "disagree", f"the Taylor remainder has order {order:.2f}, not 2", math.inf)


def _dot(a: Arrays, b: Arrays) -> float:
    return float(sum(np.vdot(a[name], b[name]) for name in a if name in b))


# ---- cases --------------------------------------------------------------------------------------------------


def _replays(launch: CapturedLike, panel: ExecutorPanel) -> Iterator[ThoroughReplay | ReplayCase]:
    """Yield the replays of a launch in double precision and in the kernel's precision.

    If the kernel cannot be widened, a case that says so stands in place of the first replay.
    """
    own = LaunchSetting.of(launch)
    try:
        wide = replace(widen_launch(own), kernel=panel.widen(own.kernel))
    except Unsupported as error:
        yield ReplayCase(own.kernel, "forward", "f64", "unsupported", one_line(error))
    else:
        if wide.kernel is not own.kernel:
            yield ThoroughReplay(panel, wide, "f64", None, own.kernel)
    yield ThoroughReplay(panel, own, str(narrowest_type(own.kernel) or "exact"), launch.after)


def value_cases(launch: CapturedLike, panel: ExecutorPanel) -> list[ReplayCase]:
    """Return the comparisons of the values of a recorded launch, one replay case for each precision."""
    return [r if isinstance(r, ReplayCase) else next(r.cases()) for r in _replays(launch, panel)]


def gradient_cases(launch: CapturedLike, panel: ExecutorPanel) -> list[ReplayCase]:
    """Return the comparisons of the values and the gradient of a recorded launch, as replay cases.

    There is one for each precision and direction, but none of the gradient if the kernel did not run on the reference.
    """
    return [c for r in _replays(launch, panel) for c in ([r] if isinstance(r, ReplayCase) else r.cases())]


# ---- the verdict --------------------------------------------------------------------------------------------


def failures(cases: Sequence[ReplayCase], gradient: bool) -> list[str]:
    """Return all reasons why the replay cases of one launch fail, or an empty list if they pass.

    Args:
        cases: all replay cases of the launch.
        gradient: True if an oracle must have decided about the gradient.
    """
    found = [f"{column(c)}: {c.reference}: {c.reason}" for c in cases if c.reference not in ("ok", "unsupported")]
    for case in cases:
        found += [f"{column(case)}: {c.executor}: {c.reason}" for c in case.comparisons if c.verdict in FAILURES]
    # A check about which nobody decided must not pass.
    if not found and not any(_decides(case, gradient) for case in cases):
        who = f"none of {', '.join(ORACLES)}" if gradient else "no executor"
        found = [f"{who} decided anything", *remarks(cases)]
    return found


def _decides(case: ReplayCase, gradient: bool) -> bool:
    if not gradient:
        return any(c.verdict == "ok" and c.executor != "program" for c in case.comparisons)
    return case.direction == "reverse" and any(c.verdict == "ok" and c.executor in ORACLES for c in case.comparisons)


def remarks(cases: Sequence[ReplayCase]) -> list[str]:
    """Return notes on the comparisons in replay cases that decided nothing: unsupported, poisoned or undecided ones."""
    found = [f"{column(c)}: {c.reason}" for c in cases if c.reference == "unsupported"]
    for case in cases:
        open_ = [c for c in case.comparisons if c.verdict not in FAILURES and c.reason]
        found += [f"{column(case)}: {c.executor} {c.verdict}: {c.reason}" for c in open_]
    return found


def column(case: ReplayCase) -> str:
    """Return the heading of a replay case's column in the table: values or gradient, and the precision."""
    return f"{'values' if case.direction == 'forward' else 'gradient'} {case.precision}"


def table(cases: Sequence[ReplayCase]) -> str:
    """Return a text table of verdicts, with a row for each executor and a column for each precision and direction.

    An error is the largest difference divided by its bound, so it is at most 1 if the executors agree.
    """
    columns = list(dict.fromkeys(column(c) for c in cases))
    names = list(dict.fromkeys(("reference", *(c.executor for case in cases for c in case.comparisons))))
    rows = [["executor", *columns]] + [[name, *(_cell(cases, name, col) for col in columns)] for name in names]
    widths = [max(len(row[k]) for row in rows) + 2 for k in range(len(rows[0]))]
    return "\n".join("".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def _cell(cases: Sequence[ReplayCase], name: str, col: str) -> str:
    mine = [case for case in cases if column(case) == col]
    if name == "reference":
        return worst([case.reference for case in mine])
    found = [c for case in mine for c in case.comparisons if c.executor == name]
    if not found:
        return "-"
    verdict, error = worst([c.verdict for c in found]), max(c.error for c in found)
    return f"{verdict} {error:.1e}" if error and verdict == "ok" else verdict


def explain(cases: Sequence[ReplayCase], wrong: Sequence[str]) -> str:
    """Return the message of a failed check: the kernels, the reasons `wrong`, and the table of verdicts."""
    kernels = dict.fromkeys(case.kernel.name for case in cases)
    return "\n".join([f"kernel {', '.join(kernels)}:", *wrong, "", table(cases)])
