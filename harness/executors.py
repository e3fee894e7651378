"""Executors: everything that can run a forward kernel and its gradient, behind one protocol.

All of them take the kernel of stage source. `forward` gives the final content of its arrays. `gradient` gives the
adjoints of their initial content: an executor of ours runs the grad kernel on the final content, an oracle
differentiates the forward kernel from the initial content, so the two share nothing but the question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

from ..backends import registry
from ..backends.base import Backend, Draws, Options, Scalars
from ..backends.launcher import Launcher
from ..backends.limits import check
from ..backends.usage import SlabUse
from ..compiler.driver import Lowered, prepare_forward, prepare_reverse, run_passes
from ..compiler.errors import NotDifferentiable, Unsupported
from ..compiler.ir.nodes import Kernel
from ..compiler.passes.split_tasks import split_tasks
from ..reference.backend import ReferenceBackend
from ..reference.order import Order
from .launch import GRAD, is_forward, used_arrays, with_gradient
from .outcome import Arrays, one_line
from .settled import settled

PRECISE = Options(debug=False, precise=True)
CHECKED = Options(debug=True, precise=True)
LIMITED_AS = {"cuda": "nvptx"}
"""Backends whose holes are those of the code that they run."""

_CHUNKS = 16


class Executor(Protocol):
    """One way to run kernels. seconds: the last launch took, without compiling; None if it is not measured."""

    name: str
    seconds: float | None

    def supports(self, kernel: Kernel) -> str | None:
        """Why it cannot run this kernel, or None."""

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """The final content of the arrays the kernel uses; what is given stays as it is. Raises as a launch does."""

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """Adjoints of the initial content, by primal name. seeds: cotangents of the final content, likewise."""


def lower_plainly(kernel: Kernel) -> Lowered:
    """A forward kernel as it was written, split into tasks and otherwise untouched."""
    return Lowered(run_passes(kernel, [("split_tasks", split_tasks)]))


@dataclass
class LaunchExecutor:
    """A backend behind its launcher. lowering: of the gradient, empty for the default. lower: of forward kernels."""

    name: str
    backend: Backend
    lowering: str = ""
    lower: Callable[[Kernel], Lowered] = prepare_forward
    options: Options = PRECISE
    seconds: float | None = None
    _launchers: dict[tuple[int, str], tuple[Kernel, Launcher]] = field(default_factory=dict)

    def checked(self) -> LaunchExecutor:
        """The same executor with index, assert and division checks in its kernels."""
        return LaunchExecutor(self.name, self.backend, self.lowering, self.lower, CHECKED)

    def supports(self, kernel: Kernel) -> str | None:
        """What backends/limits.py says of the backend."""
        try:
            check(kernel, LIMITED_AS.get(self.backend.name, self.backend.name))
        except Unsupported as error:
            return one_line(error)
        return None

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """The forward kernel, launched on copies."""
        launcher = self._launcher(kernel, "forward")
        memory = {name: arrays[name].copy() for name in used_arrays(launcher.kernel)}
        self._run(launcher, memory, scalars, draws)
        return memory

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """The grad kernel, launched on the final content with the cotangents as adjoints; what the kernel overwrites
        and its gradient reads is taken from the initial content.
        """
        launcher = self.grad_launcher(kernel)
        memory = {name: array.copy() for name, array in after.items()}
        memory |= {copy: before.get(copy, before[name]).copy() for copy, name in launcher.lowered.before.items()}
        memory |= {name + GRAD: seed.copy() for name, seed in seeds.items()}
        self._run(launcher, memory, scalars, draws)
        return {name: memory[name + GRAD] for name in with_gradient(kernel)}

    def grad_launcher(self, kernel: Kernel) -> Launcher:
        """Launches the gradient of a kernel. Raises NotDifferentiable and Unsupported."""
        return self._launcher(kernel, "reverse")

    def adstacks(self, kernel: Kernel) -> list[SlabUse]:
        """What the last gradient of this kernel needed; empty if there was none."""
        known = self._launchers.get((id(kernel), "reverse"))
        return known[1].usage() if known else []

    def _launcher(self, kernel: Kernel, direction: str) -> Launcher:
        known = self._launchers.get((id(kernel), direction))
        if known is None:
            lowered = self.lower(kernel) if direction == "forward" else self._reverse(kernel)
            known = self._launchers[id(kernel), direction] = kernel, Launcher(lowered, self.backend, self.options)
        return known[1]

    def _reverse(self, kernel: Kernel) -> Lowered:
        if not is_forward(kernel):
            reason = f"kernel {kernel.name} uses adjoints itself: its gradient would be a second derivative"
            raise NotDifferentiable(reason, "differentiate the kernel that the adjoints belong to")
        return prepare_reverse(kernel, self.lowering, taped=True)

    def _run(self, launcher: Launcher, memory: dict[str, np.ndarray], scalars: Scalars, draws: Draws) -> None:
        launcher.compile()
        begin = time.perf_counter()
        launcher.run(memory, scalars, draws)
        self.seconds = time.perf_counter() - begin


def in_blocks(total: int, width: int) -> Iterable[tuple[int, int]]:
    """Chunks for `Order`: a few large ones, last first."""
    size = max(1, min(width, -(-total // _CHUNKS)))
    return reversed([(start, min(start + size, total)) for start in range(0, total, size)])


def reference(name: str = "reference", order: Order | None = None, lowering: str = "") -> LaunchExecutor:
    """The interpreter, with a heap of its own."""
    backend = ReferenceBackend() if order is None else ReferenceBackend(order)
    return LaunchExecutor(name, backend, lowering)


def twin() -> LaunchExecutor:
    """The interpreter on other code for the same kernel: forward without any optimisation, the classic gradient."""
    return LaunchExecutor("classic", ReferenceBackend(), "classic", lower_plainly)


def reordered() -> LaunchExecutor:
    """The interpreter with the iterations of parallel tasks in another order."""
    return reference("reordered", Order("blocks", lambda total, width: iter(in_blocks(total, width))))


VARIANTS = {"cpu-masked": "cpu"}
"""Other ways to run a backend, as executors of their own: the backend behind each."""

EMULATED = {"cuda-emulated": "cpu", "cuda-emulated-few": "cpu", "cuda-emulated-blocks": "cpu", "metal-emulated": ""}
"""Executors without the device of their backend: what backend they need beside. They run where they are named."""


JUDGED = "vulkan-judged"
"""Vulkan with every module before `spirv-val`, see judged_vulkan.py. It runs where it is named."""


@cache
def _judged() -> Backend:
    from .judged_vulkan import JudgedVulkan

    return settled(JudgedVulkan())


@cache
def _masked() -> Backend:
    from .masked_cpu import MaskedCpu

    return MaskedCpu()


def _emulated(name: str) -> Backend:
    if name == "metal-emulated":
        from .emulated_metal.backend import emulated as metal

        return metal()
    from .emulated_cuda.backend import emulated

    return settled(emulated(name))


def backend_named(name: str) -> Backend:
    """The backend of an executor; its launches are over when they return. Raises UnknownBackend."""
    if name in EMULATED:
        return _emulated(name)
    if name == JUDGED:
        return _judged()
    return _masked() if name in VARIANTS else settled(registry.get(name))


def present_backends(
    names: Iterable[str] | None = None, variants: bool = False
) -> tuple[list[LaunchExecutor], Mapping[str, str]]:
    """(an executor for each backend that can run here, the reference aside; why the others cannot, by name).

    names: the backends wanted, those of EMULATED and JUDGED among them; None for all, with `variants` those of VARIANTS
    too. Raises UnknownBackend.
    """
    every = [n for n in registry.BACKENDS if n != "reference"] + list(VARIANTS if variants else ())
    wanted = every if names is None else list(names)
    probes = registry.probe_all()
    needed = {name: backend for name, backend in (VARIANTS | EMULATED | {JUDGED: "vulkan"}).items() if backend}
    probes |= {name: probes[backend] for name, backend in needed.items()}
    probes |= {name: backend_named(name).probe() for name in EMULATED.keys() - needed.keys()}
    found, absent = [], {}
    for name in wanted:
        backend = None if name in probes and not probes[name].available else backend_named(name)
        if backend is None:
            absent[name] = f"{probes[name].reason}; cure: {probes[name].cure}"
        elif name != "reference":
            found.append(LaunchExecutor(name, backend))
    return found, absent
