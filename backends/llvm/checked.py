"""Which comparisons of indices code makes, for the module and the emitters of both generators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...compiler.ir.nodes import For, GetElement, SetElement, Task
from ...compiler.passes.index_checks import Access, IndexChecks, LoopCheck, index_checks
from ..base import Options
from . import ir

Deferred = list[tuple[ir.Value, Callable[[], object]]]
"""Conditions that end the launch, each with what writes that end."""


class TaskChecks:
    """The checks of the tasks of a module, each analyzed once."""

    def __init__(self, options: Options, hoist: bool) -> None:
        """hoist: checks of serial loops may stand before the loop."""
        self._options, self._hoist = options, hoist
        self._known: dict[tuple[int, bool], IndexChecks] = {}

    def of(self, task: Task, learns: bool = True) -> IndexChecks:
        """What code of this very task compares. Debug builds compare every index, in its turn. learns: a comparison
        ends the launch before what follows; see `index_checks`.
        """
        known = self._known.get((id(task), learns))
        if known is None:
            options = self._options
            analyzed = options.bounds and not options.debug
            known = index_checks(task, self._hoist, learns) if analyzed else IndexChecks(task, default=options.debug)
            self._known[id(task), learns] = known
        return known


class Checked:
    """What an emitter knows of the checks of the task being written."""

    checks: IndexChecks
    deferred: Deferred | None = None
    """Where ends of the launch are put off: what they are."""

    def checked_axes(self, stmt: Access) -> Collection[int]:
        """Axes of an access whose index is compared with the extent where the access stands."""
        return self.checks.of(stmt)

    def checks_before(self, loop: For) -> Sequence[LoopCheck]:
        """What is compared before the first trip of a loop."""
        return self.checks.before(loop)

    def checks_element(self, stmt: GetElement | SetElement) -> bool:
        """Whether the index of an access of a local array is compared with its size."""
        return self.checks.default and id(stmt) not in self.checks.elements
