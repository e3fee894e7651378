"""This module defines the protocol of executors, and the executors that run on backends and on the reference.

All executors take the kernel of stage `source`. `forward` returns the final contents of its arrays. `gradient` returns
the adjoints of their initial contents. A backend runs the grad kernel on final contents; an oracle differentiates the
forward kernel from the initial contents. So a backend and an oracle share nothing but the question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

from ...backends import registry
from ...backends.base import Backend, Draws, Options, Scalars
from ...backends.launching.adstack_usage import SlabUse
from ...backends.launching.launcher import Launcher
from ...backends.limits import check
from ...compiler.driver import Lowering, prepare_forward, prepare_reverse, run_passes
from ...compiler.errors import NotDifferentiable, Unsupported
from ...compiler.ir.kernels import Kernel
from ...compiler.passes.split_tasks import split_tasks
from ...reference.backend import ReferenceBackend
from ...reference.order import Order
from .launch import GRAD, is_forward, used_arrays, with_gradient
from .outcome import Arrays, one_line
from .synchronous import synchronous_backend

PRECISE = Options(debug=False, precise=True)
CHECKED = Options(debug=True, precise=True)

_CHUNKS = 16


class Executor(Protocol):
    """An `Executor` runs kernels forward and in reverse, so that results can be compared.

    Attributes:
        name: the name in reports.
        seconds: the time of the last launch without compilation; None if it is not measured.
    """

    name: str
    seconds: float | None

    def supports(self, kernel: Kernel) -> str | None:
        """Return the reason why this executor cannot run the kernel, or None if it can."""

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """Return the final contents of the arrays that the kernel uses; the given arrays stay unchanged.

        Raises:
            StackgradError: the launch failed, as a launch of a user does.
        """

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """Return the adjoints of the initial contents of the arrays, by the name of the primal array.

        Args:
            kernel: the forward kernel.
            before: the initial contents of the arrays.
            after: their final contents.
            scalars: the scalar arguments.
            draws: the source of random numbers.
            seeds: the cotangents of the final contents, by the name of the primal array.
        """


def lower_plainly(kernel: Kernel) -> Lowering:
    """Return the lowering of a kernel that is split into tasks but not optimized."""
    return Lowering(run_passes(kernel, [("split_tasks", split_tasks)]))


@dataclass
class LaunchExecutor:
    """A `LaunchExecutor` runs kernels on a backend through its launcher.

    Attributes:
        name: the name in reports.
        backend: the backend that compiles and runs.
        lowering: the policy of the gradient; empty for the default policy.
        lower: the function that lowers forward kernels; None for what users get.
        options: the compile options.
        seconds: the time of the last launch without compilation.
    """

    name: str
    backend: Backend
    lowering: str = ""
    lower: Callable[[Kernel], Lowering] | None = None
    options: Options = PRECISE
    seconds: float | None = None
    _launchers: dict[tuple[int, str], tuple[Kernel, Launcher]] = field(default_factory=dict)

    def checked(self) -> LaunchExecutor:
        """Return a copy of this executor whose kernels check indices, assertions and divisions."""
        return LaunchExecutor(self.name, self.backend, self.lowering, self.lower, CHECKED)

    def supports(self, kernel: Kernel) -> str | None:
        """Return the limit of the backend that the kernel exceeds, as text, or None if it exceeds none."""
        try:
            registered = registry.BACKENDS.get(self.backend.name)
            check(kernel, registered.limits if registered else self.backend.name)
        except Unsupported as error:
            return one_line(error)
        return None

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """Launch the forward kernel on copies of the arrays and return the copies."""
        launcher = self._launcher(kernel, "forward")
        memory = {name: arrays[name].copy() for name in used_arrays(launcher.kernel)}
        self._run(launcher, memory, scalars, draws)
        return memory

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """Run the grad kernel on the final contents of the arrays, starting from cotangents, and return the adjoints.

        Arrays that the kernel overwrites and its gradient reads are taken from the initial contents. Gradients that
        the kernel reads are taken from the initial contents if these have copies of them, as a recorded launch has.
        """
        launcher = self.grad_launcher(kernel)
        memory = {name: array.copy() for name, array in after.items()}
        memory |= {copy: before.get(copy, before[name]).copy() for copy, name in launcher.lowered.before.items()}
        states = launcher.lowered.states.items()
        memory |= {copy: (before[copy] if copy in before else after[name]).copy() for copy, name in states}
        memory |= {name + GRAD: seed.copy() for name, seed in seeds.items()}
        self._run(launcher, memory, scalars, draws)
        return {name: memory[name + GRAD] for name in with_gradient(kernel)}

    def grad_launcher(self, kernel: Kernel) -> Launcher:
        """Return the launcher of the gradient of a kernel.

        Raises:
            NotDifferentiable: the kernel has no gradient.
            Unsupported: the backend cannot run the gradient.
        """
        return self._launcher(kernel, "reverse")

    def adstacks(self, kernel: Kernel) -> list[SlabUse]:
        """Return the adstack memory, by slab, of the last gradient of a kernel; empty if none has run."""
        known = self._launchers.get((id(kernel), "reverse"))
        return known[1].usage() if known else []

    def _launcher(self, kernel: Kernel, direction: str) -> Launcher:
        # The entry holds the kernel too, so that its id is not taken by a new object.
        known = self._launchers.get((id(kernel), direction))
        if known is None:
            lowered = self._forward(kernel) if direction == "forward" else self._reverse(kernel)
            known = self._launchers[id(kernel), direction] = kernel, Launcher(lowered, self.backend, self.options)
        return known[1]

    def _forward(self, kernel: Kernel) -> Lowering:
        return self.lower(kernel) if self.lower else prepare_forward(kernel, blocks=self.backend.blocks)

    def _reverse(self, kernel: Kernel) -> Lowering:
        if not is_forward(kernel):
            reason = f"kernel {kernel.name} has adjoints itself: its gradient would be a second derivative"
            raise NotDifferentiable(reason, "differentiate the kernel that the adjoints belong to")
        return prepare_reverse(kernel, self.lowering, taped=True)

    def _run(self, launcher: Launcher, memory: dict[str, np.ndarray], scalars: Scalars, draws: Draws) -> None:
        launcher.compile()
        begin = time.perf_counter()
        launcher.run(memory, scalars, draws)
        self.seconds = time.perf_counter() - begin


def in_blocks(total: int, width: int) -> Iterable[tuple[int, int]]:
    """Return ranges (begin, end) that divide `total` iterations into a few large chunks, last chunk first."""
    size = max(1, min(width, -(-total // _CHUNKS)))
    return reversed([(start, min(start + size, total)) for start in range(0, total, size)])


def reference_executor(name: str = "reference", order: Order | None = None, lowering: str = "") -> LaunchExecutor:
    """Return an executor that runs kernels on the reference, in this order of iterations and with this policy.

    Args:
        name: the name in reports.
        order: the order of iterations; None for the usual order.
        lowering: the policy of the gradient; empty for the default policy.
    """
    backend = ReferenceBackend() if order is None else ReferenceBackend(order)
    return LaunchExecutor(name, backend, lowering)


def plain_interpreter() -> LaunchExecutor:
    """Return a reference executor that runs unoptimized kernels and gradients of the policy `classic`."""
    return LaunchExecutor("classic", ReferenceBackend(), "classic", lower_plainly)


def reordered_interpreter() -> LaunchExecutor:
    """Return a reference executor that runs the iterations of parallel tasks in chunks, last chunk first."""
    return reference_executor("reordered", Order("blocks", lambda total, width: iter(in_blocks(total, width))))


VARIANTS = {"cpu-masked": "cpu"}
"""Executors that run a backend in another way, with the name of the backend behind each."""

EMULATED = {"cuda-emulated": "cpu", "cuda-emulated-few": "cpu", "cuda-emulated-blocks": "cpu", "metal-emulated": ""}
"""Executors that do not need the device of their backend, with the backend that each needs in its place ("" for none).

They run only if a caller names them.
"""


JUDGED = "vulkan-judged"
"""Name of the Vulkan executor that passes every module to `spirv-val` (see judged_vulkan.py). It runs only if named."""


@cache
def _judged() -> Backend:
    from .judged_vulkan import JudgedVulkan

    return synchronous_backend(JudgedVulkan())


@cache
def _masked() -> Backend:
    from .masked_cpu import MaskedCpu

    return MaskedCpu()


def _emulated(name: str) -> Backend:
    if name == "metal-emulated":
        from .emulated_metal.backend import emulated_metal as metal

        return metal()
    from .emulated_cuda.backend import emulated_cuda

    return synchronous_backend(emulated_cuda(name))


def backend_by_name(name: str) -> Backend:
    """Return the backend with this name, wrapped if necessary so that its launches have ended when they return.

    Raises:
        UnknownBackend: no executor has this name.
    """
    if name in EMULATED:
        return _emulated(name)
    if name == JUDGED:
        return _judged()
    return _masked() if name in VARIANTS else synchronous_backend(registry.get(name))


def present_backends(
    names: Iterable[str] | None = None, variants: bool = False
) -> tuple[list[LaunchExecutor], Mapping[str, str]]:
    """Return an executor for each backend that can run on this machine, and the reasons why others cannot.

    The reference is not included.

    Args:
        names: the backends wanted, also those of EMULATED and JUDGED; None for all backends.
        variants: if `names` is None, include the executors of VARIANTS.

    Returns:
        The executors, and for each absent backend the reason and the cure.

    Raises:
        UnknownBackend: a name is not known.
    """
    every = [n for n in registry.BACKENDS if n != "reference"] + list(VARIANTS if variants else ())
    wanted = every if names is None else list(names)
    probes = registry.probe_all()
    needed = {name: backend for name, backend in (VARIANTS | EMULATED | {JUDGED: "vulkan"}).items() if backend}
    # An executor that stands for a backend can run where that backend can run.
    probes |= {name: probes[backend] for name, backend in needed.items()}
    probes |= {name: backend_by_name(name).probe() for name in EMULATED.keys() - needed.keys()}
    found, absent = [], {}
    for name in wanted:
        backend = None if name in probes and not probes[name].available else backend_by_name(name)
        if backend is None:
            absent[name] = f"{probes[name].reason}; cure: {probes[name].cure}"
        elif name != "reference":
            found.append(LaunchExecutor(name, backend))
    return found, absent
