"""This module wraps a backend whose launches run asynchronously, so that each launch waits until it has ended.

A judge of a launch reads its memory at once and wants the errors of this launch from it, not from the next launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...backends.base import Arrays, Backend, Concurrency, Draws, Executable, Options, Probe, Remote, Scalars, Sizes
from ...compiler.ir.kernels import Kernel


@dataclass(eq=False)
class SyncExecutable:
    """Represent a compiled kernel whose asynchronous launches are made to wait until they have ended."""

    executable: Executable
    wait: Callable[[], None]
    kernel: Kernel = field(init=False)

    def __post_init__(self) -> None:
        self.kernel = self.executable.kernel

    @property
    def growths(self) -> int:
        """Return the number of launches of this kernel for which the adstack heap had to be made larger."""
        return self.executable.growths

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute the kernel once and wait for its end; raise every error of the launch."""
        self.executable.run(arrays, scalars, sizes, draws)
        self.wait()


@dataclass(eq=False)
class SynchronousBackend:
    """Represent a backend with asynchronous launches that is wrapped so that each launch waits until it has ended.

    Attributes:
        backend: the backend that compiles and runs.
        wait: waits for everything in flight, and raises the errors of it.
        name: the name of the backend.
        blocks: how the backend runs blocks.
    """

    backend: Backend
    wait: Callable[[], None]
    name: str = field(init=False)
    blocks: str = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.blocks = self.backend.name, self.backend.blocks

    def probe(self) -> Probe:
        """Return the report of the wrapped backend on its availability on this machine."""
        return self.backend.probe()

    def compile(self, kernel: Kernel, options: Options) -> SyncExecutable:
        """Compile a kernel on the wrapped backend, and return it as a kernel whose launches are synchronous.

        Raises:
            Unsupported: the backend cannot run the kernel.
        """
        return SyncExecutable(self.backend.compile(kernel, options), self.wait)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency | None:
        """Return the limit on iterations that the wrapped backend runs at once in a task, or None if there is none."""
        return self.backend.rows_in_flight(kernel, task, sizes, options)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the heap report of the backend whose launches are made synchronous."""
        return self.backend.heap_report()

    def reset(self) -> None:
        """Reset the wrapped backend, whose launches this object makes synchronous."""
        self.backend.reset()


def synchronous_backend(backend: Backend) -> Backend:
    """Return a backend whose launches have ended when they return: the given backend, or a wrapper of it."""
    return SynchronousBackend(backend, backend.wait) if isinstance(backend, Remote) else backend
