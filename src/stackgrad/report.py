"""Adstack memory, readable: what is held now and at the peak by slab, and what each task of each kernel needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .backends.base import SLABS
from .backends.usage import SlabUse
from .session import RUNTIME


@dataclass(frozen=True)
class AdstackReport:
    """Adstack memory of the runtime.

    slabs: {"real": {"current": bytes, "peak": bytes}, ...} as the backend holds it. tasks: for each kernel, task and
    slab with stacks, what its last launch needed: rows held at once, for how many threads and lanes, stride and bytes,
    the bytes that its iterations push, where the size comes from, and each stack's capacity, variable and line.
    """

    slabs: Mapping[str, Mapping[str, int]]
    tasks: tuple[SlabUse, ...]

    @property
    def current(self) -> int:
        """Bytes held now, all slabs."""
        return sum(slab.get("current", 0) for slab in self.slabs.values())

    @property
    def peak(self) -> int:
        """The sum of the slabs' peaks, in bytes."""
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
    """What the adstacks of this runtime hold and need; zeros before the first gradient."""
    slabs: dict[str, dict[str, int]] = {name: {"current": 0, "peak": 0} for name in SLABS}
    if RUNTIME.has_backend:
        slabs.update(RUNTIME.backend.heap_report())
    launchers = sorted(RUNTIME.launchers, key=lambda launcher: launcher.kernel.name)
    return AdstackReport(slabs, tuple(use for launcher in launchers for use in launcher.usage()))
