"""This module decides which index checks both code generators, of branching and of masked code, must emit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...compiler.analysis import index_checks as passes
from ...compiler.analysis.index_checks import IndexChecks, LoopCheck, index_checks
from ...compiler.ir.kernels import Task
from ...compiler.ir.nodes import For, GetElement, SetElement, UpdateElement
from ..base import Options
from . import ir

Deferred = list[tuple[ir.LLVMValue, Callable[[], object]]]
"""Conditions that end the launch, each with the function that emits this end."""


class TaskChecks:
    """Decide which index checks the code of each task needs, and cache the result, so that a task is analyzed once."""

    def __init__(self, options: Options, hoist: bool) -> None:
        """Store the options; `hoist` allows the checks of a serial loop to run once before the loop."""
        self._options, self._hoist = options, hoist
        self._known: dict[tuple[int, bool], IndexChecks] = {}

    def of(self, task: Task, learns: bool = True) -> IndexChecks:
        """Return the index checks that the code of a task must contain. Debug builds check every index.

        Args:
            task: Task that code is written for.
            learns: A failed comparison ends the launch at once, so that later code may rely on the index; see
                `index_checks`.
        """
        known = self._known.get((id(task), learns))
        if known is None:
            options = self._options
            analyzed = options.bounds and not options.debug
            known = index_checks(task, self._hoist, learns) if analyzed else IndexChecks(task, default=options.debug)
            self._known[id(task), learns] = known
        return known


class CheckedEmitter:
    """Provide an emitter with the index checks that the current task needs; both code generators inherit this class."""

    checks: IndexChecks
    deferred: Deferred | None = None
    """Ends of the launch that are put off; None where they are emitted at once."""

    def checked_axes(self, stmt: passes.Checked) -> Collection[int]:
        """Return the axes of an array access whose indices are compared with the extents right before the access."""
        return self.checks.of(stmt)

    def checks_before(self, loop: For) -> Sequence[LoopCheck]:
        """Return the index checks that are emitted before the first trip of a loop, instead of in each trip."""
        return self.checks.before(loop)

    def checks_element(self, stmt: GetElement | SetElement | UpdateElement) -> bool:
        """Return True if the index of an access of a local array is compared with its size."""
        return self.checks.default and id(stmt) not in self.checks.elements
