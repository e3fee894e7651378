"""Adstack memory, readable: what is held now and at the peak by slab, and what each task of each kernel needs."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .backends.base import SLABS
from .backends.usage import SlabUse
from .session import RUNTIME


@dataclass(frozen=True)
class AdstackReport:
    """Adstack memory of the runtime.

    slabs: {"real": {"current": bytes, "peak": bytes}, ...} as the backend holds it. tasks: for each kernel, task and
    slab with stacks, what its last launch needed: rows held at once, stride and bytes, and each stack's capacity,
    variable and line.
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
            rows = "unknown" if use.rows is None else f"{use.rows}"
            rows += "" if use.passing in (None, use.rows) else f" for {use.passing} iterations"
            lines.append(f"{use.kernel} task {use.task} {use.slab}: rows {rows}, stride {use.stride} B, {use.bytes} B")
            for stack in use.stacks:
                slots = f"{stack.capacity} slots of {stack.slot_bytes} B"
                lines.append(f"    {stack.variable} {stack.place}: {slots}")
        return "\n".join(lines)


def adstack_report() -> AdstackReport:
    """What the adstacks of this runtime hold and need; zeros before the first gradient."""
    slabs: dict[str, dict[str, int]] = {name: {"current": 0, "peak": 0} for name in SLABS}
    if RUNTIME.has_backend:
        slabs.update(RUNTIME.backend.heap_report())
    launchers = sorted(RUNTIME.launchers, key=lambda launcher: launcher.kernel.name)
    return AdstackReport(slabs, tuple(use for launcher in launchers for use in launcher.usage()))
