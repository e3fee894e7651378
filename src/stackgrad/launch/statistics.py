"""Sum the counters of launches and compilation of a kernel over all of its programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..backends.base import SLABS
from .program import Program


@dataclass(frozen=True)
class KernelStats:
    """Hold the counters of a kernel, such as launches and adstack bytes, since it was traced or `init` was called.

    Kernels that a program defines anew, equal to earlier ones, share compiled code and therefore the counters.

    Attributes:
        launches: Number of forward launches.
        grad_launches: Number of gradient launches.
        countings: Number of runs of the counting kernel.
        evaluations: Number of launches whose adstack sizes were found by evaluating size expressions.
        cache_hits: Number of launches whose adstack sizes were already known.
        growths: Number of launches that made the adstack heap larger.
        waits: Number of waits for a device before a launch; a launch waits only if data that decides a size has
            changed.
        readbacks: Number of reads of elements from a device before a launch; see `waits`.
        compile_seconds: Seconds of code generation, summed over all directions.
        bytes: Adstack memory in bytes, by slab, that the last gradient needed. The tasks of a gradient run one after
            another and share a slab.
    """

    launches: int = 0
    grad_launches: int = 0
    countings: int = 0
    evaluations: int = 0
    cache_hits: int = 0
    growths: int = 0
    waits: int = 0
    readbacks: int = 0
    compile_seconds: float = 0.0
    bytes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SLABS, 0))

    @property
    def heap_bytes(self) -> int:
        """Return the bytes of adstack memory that the last gradient needed, summed over all slabs."""
        return sum(self.bytes.values())


def stats_of(programs: Iterable[Program]) -> KernelStats:
    """Return the summed counters of several programs; for adstack bytes, the maximum of each slab.

    Without programs all counters are zero.
    """
    found = [program.launchers for program in programs]
    forward = [f for f, _ in found if f is not None]
    reverse = [r for _, r in found if r is not None]
    need = dict.fromkeys(SLABS, 0)
    for launcher in (*forward, *reverse):
        for use in launcher.usage():
            need[use.slab] = max(need[use.slab], use.bytes)
    return KernelStats(
        launches=sum(launcher.stats.launches for launcher in forward),
        grad_launches=sum(launcher.stats.launches for launcher in reverse),
        countings=sum(launcher.stats.countings for launcher in (*forward, *reverse)),
        evaluations=sum(launcher.stats.evaluations for launcher in (*forward, *reverse)),
        cache_hits=sum(launcher.stats.cache_hits for launcher in (*forward, *reverse)),
        growths=sum(launcher.growths for launcher in (*forward, *reverse)),
        waits=sum(launcher.stats.waits for launcher in (*forward, *reverse)),
        readbacks=sum(launcher.stats.readbacks for launcher in (*forward, *reverse)),
        compile_seconds=sum(launcher.stats.compile_seconds for launcher in (*forward, *reverse)),
        bytes=need,
    )
