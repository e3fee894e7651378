"""Launch kernels one after another on the same arrays, so that a relation can compare two such chains of launches.

Invariant: no function of this module changes its arguments; all states are new arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ....backends.base import Backend, Draws, Options, Scalars, Sizes
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering
from ....compiler.ir.cached import cached_property
from ....compiler.ir.kernels import Kernel
from ....reference.backend import ReferenceBackend
from ....reference.launch import run
from ...testing.outcome import Arrays
from ..fuzz.lowerings import Lowerings, before_arrays
from ..fuzz.marks import marking_refusal
from ..fuzz.reference_run import FUEL, BoundedResult, launch_bounded

ArrayState = dict[str, np.ndarray]
DRAWS = Draws()


@dataclass(frozen=True)
class RelationExecutor:
    """Represent a backend with its compile options, on which relations are checked."""

    name: str
    backend: Backend
    options: Options


@dataclass(frozen=True)
class LaunchChain:
    """Represent a chain of kernels that are launched one after another on the same arrays.

    Attributes:
        made: Lowerings of the kernels in the order of their launches.
        initial: Arrays of all kernels before the first launch.
        seeds: Cotangents of the final contents by the name of the adjoint array; empty if there is no gradient.
    """

    made: tuple[Lowerings, ...]
    initial: Arrays
    scalars: Scalars
    seeds: Arrays

    def of(self, *kernels: Kernel, **changed: Arrays) -> LaunchChain:
        """Return a chain of other kernels, on this chain's arrays unless other arrays are given."""
        return replace(self, made=tuple(map(Lowerings, kernels)), **changed)  # type: ignore[arg-type]

    @property
    def kernel(self) -> Kernel:
        """Return the first kernel of the chain."""
        return self.made[0].kernel

    @cached_property
    def states(self) -> tuple[Arrays, ...]:
        """Return the contents of all arrays before each launch and after the last one, computed by the reference.

        Raises:
            Exception: Any trap that a launch raises.
        """
        found = [dict(self.initial)]
        for made in self.made:
            found.append(_copies(found[-1]))
            run(made.plain.kernel, found[-1], self.scalars, Sizes(), DRAWS, fuel=FUEL)
        return tuple(found)

    def refusal(self) -> Exception | None:
        """Return the error by which the gradient of these launches is refused, or None if it is not refused."""
        for made, after in zip(self.made, self.states[1:]):
            refused = made.refusal or marking_refusal(made.lean, ReferenceBackend(fuel=FUEL), [after], self.scalars)
            if refused is not None:
                return refused
        return None

    # -- on an executor -------------------------------------------------------------------------------------

    def forward(self, on: RelationExecutor) -> Arrays:
        """Return the contents of all arrays after the chain's last launch on an executor."""
        state = _copies(self.initial)
        for made in self.made:
            Launcher(made.optimized, on.backend, on.options).run(state, self.scalars, DRAWS)
        return state

    def gradient(self, on: RelationExecutor, seeds: Arrays) -> Arrays:
        """Return the adjoints of the arrays before the chain, by the gradients of all kernels, last to first."""
        adjoints = seeds
        for number, made in reversed(list(enumerate(self.made))):
            memory = _copies({**self._primals(self.states, number, made.lean), **adjoints})
            Launcher(made.lean, on.backend, on.options).run(memory, self.scalars, DRAWS)
            adjoints = {name: memory[name] for name in seeds}
        return adjoints

    @staticmethod
    def _primals(states: tuple[Arrays, ...], number: int, lean: Lowering) -> ArrayState:
        """Return the arrays after a launch, and the copies of arrays before the launch that the gradient reads."""
        return {**states[number + 1], **before_arrays(lean, states[number])}

    # -- bounds: distances from the exact result --------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[BoundedResult, ...]:
        """Return the arrays after each launch with their error bounds."""
        found: list[BoundedResult] = []
        state: Arrays = self.initial
        errors: Arrays | None = None
        for made in self.made:
            found.append(launch_bounded(made.plain.kernel, state, self.scalars, DRAWS, errors))
            state, errors = found[-1].arrays, found[-1].errors
        return tuple(found)

    def gradient_bounds(self, seeds: Arrays) -> BoundedResult:
        """Return the adjoints of the arrays before the chain, with error bounds that cover the forward launches too."""
        adjoints, errors = seeds, dict[str, np.ndarray]()
        exact = {name: np.zeros(array.shape) for name, array in self.initial.items()}
        moves: tuple[Arrays, ...] = (exact, *(state.errors for state in self.bounds))
        states: tuple[Arrays, ...] = (self.initial, *(state.arrays for state in self.bounds))
        for number, made in reversed(list(enumerate(self.made))):
            memory = {**self._primals(states, number, made.lean), **adjoints}
            known = {**self._primals(moves, number, made.lean), **errors}
            found = launch_bounded(made.lean.kernel, memory, self.scalars, DRAWS, known)
            adjoints = {name: found.arrays[name] for name in seeds}
            errors = {name: found.errors[name] for name in seeds}
        poisoned = found.poisoned or next((state.poisoned for state in self.bounds if state.poisoned), None)
        return replace(found, arrays=dict(adjoints), errors=errors, poisoned=poisoned)


def _copies(arrays: Mapping[str, np.ndarray]) -> ArrayState:
    return {name: array.copy() for name, array in arrays.items()}
