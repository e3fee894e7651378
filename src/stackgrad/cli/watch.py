"""Watch a whole program: record launches of every kernel, count all of them, and notice the first NaN.

For each kernel specialization and direction the module keeps the first launches, and one later launch: that whose
number is the greatest power of two. It lies in the second half of the program's launches, and finding it costs
log2(launches) copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..capture import Capture, CapturedLaunch, Kind
from ..data.fields import Array
from ..harness.testing.finite import is_finite, nonfinite_fault
from ..harness.testing.report import ReportedFault
from ..launch.bound import GRAD
from ..launch.program import NOTHING, Binding, Program
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars


@dataclass
class CountingCapture(Capture):
    """Record at most `limit` launches for each kernel and direction, and count all launches.

    Attributes:
        totals: Number of all launches by (name, kind).
        findings: Arrays in which a NaN or an infinity appeared.
    """

    totals: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[ReportedFault] = field(default_factory=list)
    _counts: Counter[tuple[Program, Kind]] = field(default_factory=Counter)
    _kept: dict[tuple[Program, Kind], list[CapturedLaunch]] = field(default_factory=dict)
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    @contextmanager
    def recorded(
        self, binding: Binding, kind: Kind, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray] = NOTHING
    ) -> Iterator[None]:
        """Record and count the launch that runs inside the `with` block; see `Capture.recorded`."""
        key = binding.program, kind
        self.totals[binding.program.kernel.name, kind] += 1
        self._counts[key] += 1
        arrays = _results(binding, kind, replaced)
        RUNTIME.settle()
        clean = {name for name, array in arrays.items() if is_finite(array)}
        with ExitStack() as around:
            if self._keeps(key):
                around.callback(self._keep, key)
                around.enter_context(super().recorded(binding, kind, scalars, draws, replaced))
            yield
        RUNTIME.settle()
        for name, array in arrays.items():
            if not is_finite(array):
                self._tell(binding.program.kernel.name, kind, name, array, self._counts[key], name not in clean)

    def recordings(self) -> list[CapturedLaunch]:
        """Return the recorded launches, grouped by kernel."""
        return [launch for kept in self._kept.values() for launch in kept]

    def _keeps(self, key: tuple[Program, Kind]) -> bool:
        """Return True if this launch must be recorded: it is among the first `limit`, or its number is a power of 2."""
        count = self._counts[key]
        self._seen[key] = 0  # The limit of `Capture` counts only first launches; this class decides itself.
        return count <= self.limit or self.limit > 1 and count & (count - 1) == 0

    def _keep(self, key: tuple[Program, Kind]) -> None:
        """Move the newest recorded launch to its kernel's list, in place of the last item if the list is full."""
        kept = self._kept.setdefault(key, [])
        del kept[self.limit - 1 :]
        kept.append(self.launches.pop())

    def _tell(self, kernel: str, kind: Kind, name: str, array: np.ndarray, launch: int, before: bool) -> None:
        """Record a fault for an array with a NaN or infinity, once for each array, kernel and direction."""
        if (kernel, kind, name) not in self._told:
            self._told.add((kernel, kind, name))
            self.findings.append(nonfinite_fault(kernel, kind, name, array, launch, before))


def _results(binding: Binding, kind: Kind, replaced: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with a gradient that a forward launch writes, or the adjoints that a gradient writes."""
    program = binding.program
    launcher = program.forward() if kind == "forward" else program.launchers[1] or program.reverse()
    names = [name if kind == "forward" else name + GRAD for name in program.gradients]
    found = {}
    for name in (n for n in names if n in launcher.lowered.writes):
        array = replaced[name] if name in replaced else binding.lookup(name)
        found[name] = array.memory if isinstance(array, Array) else array
    return found


@contextmanager
def watching(limit: int) -> Iterator[CountingCapture]:
    """Watch every launch inside the `with` block, across `init` and `reset`. Do not nest it."""
    watch = CountingCapture(limit)
    RUNTIME.capture = watch
    try:
        yield watch
    finally:
        RUNTIME.capture = None
