"""The CPU as large launches find it: several iterations side by side, on several threads, however few there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ...backends.base import Arrays, Backend, Draws, Executable, Flight, Options, Probe, Scalars, Sizes
from ...backends.llvm import sharing, spread
from ...compiler.ir.nodes import Kernel
from ..mutants import patched
from .plan import MASKED, Plan

_AT_ONCE = ((spread, "ENOUGH", 0), (spread, "SHARE", 1), (spread, "CHUNK", 1), (sharing, "WORTH", float("inf")))
"""What keeps small launches on one thread."""


@contextmanager
def _at_once() -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in _AT_ONCE:
            stack.enter_context(patched(module, name, value))
        yield


@dataclass(eq=False)
class _Wide:
    """A compiled kernel. Code of its tasks is made when a launch asks for it, so launches must decide as `compile` did:
    threads that are started for a task whose updates are made for one thread would lose some.
    """

    made: Executable
    kernel: Kernel

    @property
    def growths(self) -> int:
        return self.made.growths

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        with _at_once():
            self.made.run(arrays, scalars, sizes, draws)


@dataclass(eq=False)
class Widened:
    """A backend whose kernels have masked code of so many lanes, and as many threads as they are allowed."""

    backend: Backend
    lanes: int
    threads: int
    name: str = MASKED

    def probe(self) -> Probe:
        """That of the backend."""
        return self.backend.probe()

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Debug code stays as it is."""
        with _at_once():
            made = self.backend.compile(kernel, self._wide(options))
            return _Wide(made, made.kernel)

    def _wide(self, options: Options) -> Options:
        return replace(options, lanes=self.lanes, threads=self.threads)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight | None:
        """Those of the wider code."""
        return self.backend.rows_in_flight(kernel, task, sizes, self._wide(options))

    def heap_report(self) -> dict[str, dict[str, int]]:
        """That of the backend, whose heap it is."""
        return self.backend.heap_report()

    def reset(self) -> None:
        """Nothing of its own."""


def executors(backends: Mapping[str, Backend], plan: Plan) -> dict[str, Backend]:
    """What a plan runs kernels on, by name."""
    found: dict[str, Backend] = {}
    for name, backend in backends.items():
        if name not in plan.backends or not (plan.masked if name == MASKED else plan.branching or name != "cpu"):
            continue
        found[name] = Widened(backend, plan.lanes, plan.threads) if name == MASKED else backend
    return found
