"""Run programs of several launches under a tape as part of a case; `harness.tools.tapes` defines these programs.

The programs are a function of the plan, so they stay the same while the program of the case is reduced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ...testing.outcome import one_line
from ..tapes.run import TapeBench as TapeBench
from .plan import FuzzPlan
from .result import JudgedComparison

DIRECTION = "tapes"
ARCHES = ("cpu", "vulkan")
"""Backends that run these programs; the reference runs them if none of these is among the case's backends."""


class HasTapeBench(Protocol):
    """Define the interface of an object with an attribute `tapes`, a runtime for programs under tapes."""

    @property
    def tapes(self) -> TapeBench:
        """Return the runtime on which programs under tapes run."""


def compare(plan: FuzzPlan, panel: HasTapeBench) -> Iterator[JudgedComparison]:
    """Yield the verdict on the plan's tape programs, run on one backend, or nothing if the plan has none."""
    if not plan.tapes:
        return
    arch = next((name for name in plan.backends if name in ARCHES), "reference")
    if plan.wants(DIRECTION, arch):
        try:
            wrong = panel.tapes.check(plan.tapes, arch)
        except Exception as error:
            wrong = f"{type(error).__name__}: {one_line(error)}"
        yield JudgedComparison(DIRECTION, arch, "dual numbers", "disagree" if wrong else "ok", wrong[:400])
