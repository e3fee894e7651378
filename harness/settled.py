"""A backend whose launches are over when they return, made of one whose launches may still be in flight then.

Whoever judges a launch looks at its memory at once, and wants its errors from it, not from the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..backends.base import Arrays, Backend, Draws, Executable, Flight, Options, Probe, Remote, Scalars, Sizes
from ..compiler.ir.nodes import Kernel


@dataclass(eq=False)
class SettledExecutable:
    """A compiled kernel, waited for."""

    executable: Executable
    wait: Callable[[], None]
    kernel: Kernel = field(init=False)

    def __post_init__(self) -> None:
        self.kernel = self.executable.kernel

    @property
    def growths(self) -> int:
        return self.executable.growths

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute once. Raises all that goes wrong in it."""
        self.executable.run(arrays, scalars, sizes, draws)
        self.wait()


@dataclass(eq=False)
class Settled:
    """The backend, waited for. wait: for everything in flight; raises what went wrong there."""

    backend: Backend
    wait: Callable[[], None]
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.backend.name

    def probe(self) -> Probe:
        """That of the backend."""
        return self.backend.probe()

    def compile(self, kernel: Kernel, options: Options) -> SettledExecutable:
        """Raises Unsupported as the backend does."""
        return SettledExecutable(self.backend.compile(kernel, options), self.wait)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight | None:
        """Those of the backend."""
        return self.backend.rows_in_flight(kernel, task, sizes, options)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """That of the backend."""
        return self.backend.heap_report()

    def reset(self) -> None:
        """Of the backend."""
        self.backend.reset()


def settled(backend: Backend) -> Backend:
    """The backend itself if its launches are over when they return."""
    return Settled(backend, backend.wait) if isinstance(backend, Remote) else backend
