"""Report the present and the peak adstack memory of each slab, and the memory that each task needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..backends.base import SLABS
from ..backends.launching.adstack_usage import SlabUse
from .session import RUNTIME


@dataclass(frozen=True)
class AdstackReport:
    """Represent a report on the adstack memory of the runtime, which `print` shows as a table.

    Attributes:
        slabs: For each slab, the bytes that the backend holds: {"real": {"current": bytes, "peak": bytes}, ...}.
        tasks: For each kernel, task and slab with adstacks, the memory need of the last launch: number of rows held at
            once, threads, lanes, stride of a row, bytes, bytes that the iterations push, how the size was found, and
            for each adstack its capacity, its variable and its line.
    """

    slabs: Mapping[str, Mapping[str, int]]
    tasks: tuple[SlabUse, ...]

    @property
    def current(self) -> int:
        """Return the total bytes of adstack memory that all slabs hold now."""
        return sum(slab.get("current", 0) for slab in self.slabs.values())

    @property
    def peak(self) -> int:
        """Return the sum of the peaks of the slabs, in bytes."""
        return sum(slab.get("peak", 0) for slab in self.slabs.values())

    def __str__(self) -> str:
        lines = [f"{'slab':10s}{'current':>14s}{'peak':>14s}"]
        for name in SLABS:
            slab = self.slabs.get(name, {})
            lines.append(f"{name:10s}{slab.get('current', 0):>12d} B{slab.get('peak', 0):>12d} B")
        for use in self.tasks:
            lines += _lines(use)
        return "\n".join(lines)


def _lines(use: SlabUse) -> Iterator[str]:
    """Yield the lines of the report on one slab of one task."""
    rows = "unknown" if use.rows is None else f"{use.rows}"
    rows += "" if use.passing in (None, use.rows) else f" for {use.passing} iterations"
    rows += f" ({use.threads} threads of {use.lanes} lanes)" if use.threads * use.lanes > 1 and use.rows else ""
    content = "" if use.content is None else f", content {use.content} B"
    yield (
        f"{use.kernel} task {use.task} {use.slab}: rows {rows}, stride {use.stride} B, {use.bytes} B{content};"
        f" size {use.source}; id {use.registry_id:08x}"
    )
    for stack in use.stacks:
        total = "" if stack.total is None else f", {stack.total} pushes in all"
        yield f"    {stack.variable} {stack.place}: {stack.capacity} slots of {stack.slot_bytes} B{total}"


def adstack_report() -> AdstackReport:
    """Return a report on the adstacks of the runtime; all numbers are zero before the first gradient."""
    slabs: dict[str, dict[str, int]] = {name: {"current": 0, "peak": 0} for name in SLABS}
    if RUNTIME.has_backend:
        slabs.update(RUNTIME.backend.heap_report())
    launchers = sorted(RUNTIME.launchers, key=lambda launcher: launcher.kernel.name)
    return AdstackReport(slabs, tuple(use for launcher in launchers for use in launcher.usage()))
