"""Programs of several launches under tapes, as a part of a case: see `harness.tapes`.

The programs are a function of the plan, so whatever the program of the case is made into, they stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..outcome import one_line
from ..tapes.run import Bench
from .plan import Plan
from .result import Judged

DIRECTION = "tapes"
ARCHES = ("cpu", "vulkan")
"""Backends that programs run on; the reference where none of these is asked for."""


class HasBench(Protocol):
    """Who has a runtime to run programs on."""

    @property
    def tapes(self) -> Bench: ...


def compare(plan: Plan, panel: HasBench) -> Iterator[Judged]:
    """The programs of the plan, if there are any, on the first backend that can run them."""
    if not plan.tapes:
        return
    arch = next((name for name in plan.backends if name in ARCHES), "reference")
    if plan.wants(DIRECTION, arch):
        try:
            wrong = panel.tapes.check(plan.tapes, arch)
        except Exception as error:
            wrong = f"{type(error).__name__}: {one_line(error)}"
        yield Judged(DIRECTION, arch, "dual numbers", "disagree" if wrong else "ok", wrong[:400])
