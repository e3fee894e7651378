"""Run kernels on the CPU as large launches do: as masked code on several threads, however few iterations there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ....backends.base import Arrays, Backend, Concurrency, Draws, Executable, Options, Probe, Scalars, Sizes
from ....backends.codegen import sharing
from ....backends.llvm import task_threads
from ....compiler.ir.kernels import Kernel
from ..mutants import patched
from .plan import MASKED, FuzzPlan

_AT_ONCE = (
    (task_threads, "ENOUGH", 0),
    (task_threads, "SHARE", 1),
    (task_threads, "CHUNK", 1),
    (sharing, "WORTH", float("inf")),
)
"""Thresholds that keep small launches on one thread, with values that do not."""


@contextmanager
def _at_once() -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in _AT_ONCE:
            stack.enter_context(patched(module, name, value))
        yield


@dataclass(eq=False)
class _WidenedExecutable:
    """Represent a kernel compiled by `WidenedCpu`, which launches it under the same settings as it was compiled.

    These settings decide from how many iterations on masked code and several threads are used. The code of a task is
    made when a launch asks for it, so a launch must decide as `compile` did: several threads for a task whose updates
    are compiled for one thread would lose updates.
    """

    made: Executable
    kernel: Kernel

    @property
    def growths(self) -> int:
        """Return how often launches of this kernel made adstack slabs larger."""
        return self.made.growths

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Launch the kernel under the same least sizes of tasks for threads and lanes as it was compiled."""
        with _at_once():
            self.made.run(arrays, scalars, sizes, draws)


@dataclass(eq=False)
class WidenedCpu:
    """Compile kernels to masked code of a given number of lanes, and run them on a given number of threads."""

    backend: Backend
    lanes: int
    threads: int
    name: str = MASKED
    blocks: str = "loops"

    def probe(self) -> Probe:
        """Return the wrapped backend's report that says if this backend is available."""
        return self.backend.probe()

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Compile a kernel to masked code, or to unchanged branching code if it is a debug build."""
        with _at_once():
            made = self.backend.compile(kernel, self._wide(options))
            return _WidenedExecutable(made, made.kernel)

    def _wide(self, options: Options) -> Options:
        return replace(options, lanes=self.lanes, threads=self.threads)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency | None:
        """Return how many rows of adstacks are in use at once while the masked code of a task runs."""
        return self.backend.rows_in_flight(kernel, task, sizes, self._wide(options))

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the heap report of the wrapped backend, which owns the heap."""
        return self.backend.heap_report()

    def reset(self) -> None:
        """Do nothing, because this backend has no state of its own."""


def executors(backends: Mapping[str, Backend], plan: FuzzPlan) -> dict[str, Backend]:
    """Return the backends of a plan by name; masked code of the CPU is run by a `WidenedCpu` around the backend."""
    found: dict[str, Backend] = {}
    for name, backend in backends.items():
        if name not in plan.backends or not (plan.masked if name == MASKED else plan.branching or name != "cpu"):
            continue
        found[name] = WidenedCpu(backend, plan.lanes, plan.threads) if name == MASKED else backend
    return found
