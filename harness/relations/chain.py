"""Kernels launched in a row, each on the state that the last one left: what a relation compares with another one.

Invariant: nothing here changes what it is given; all states are new arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...backends.base import Backend, Draws, Options, Scalars, Sizes
from ...backends.launcher import Launcher
from ...compiler.driver import Lowered
from ...compiler.ir.nodes import Kernel
from ...reference.backend import ReferenceBackend
from ...reference.launch import run
from ..fuzz.lowerings import Lowerings, copies
from ..fuzz.marks import overlap
from ..fuzz.standard import FUEL, Bounded, bounded
from ..outcome import Arrays

State = dict[str, np.ndarray]
DRAWS = Draws()


@dataclass(frozen=True)
class On:
    """An executor: a backend with its options."""

    name: str
    backend: Backend
    options: Options


@dataclass(frozen=True)
class Chain:
    """made: the kernels, in the order of their launches. initial: arrays of all of them, before the first launch.
    seeds: cotangents of what the last one leaves, by name of the adjoint array; empty if there is no gradient.
    """

    made: tuple[Lowerings, ...]
    initial: Arrays
    scalars: Scalars
    seeds: Arrays

    def of(self, *kernels: Kernel, **changed: Arrays) -> Chain:
        """Other kernels, on the same arrays unless others are given."""
        return replace(self, made=tuple(map(Lowerings, kernels)), **changed)  # type: ignore[arg-type]

    @property
    def kernel(self) -> Kernel:
        """The first kernel."""
        return self.made[0].kernel

    @cached_property
    def states(self) -> tuple[Arrays, ...]:
        """The state before each launch, and after the last one. Raises what a launch raises."""
        found = [dict(self.initial)]
        for made in self.made:
            found.append(_copies(found[-1]))
            run(made.plain.kernel, found[-1], self.scalars, Sizes(), DRAWS, fuel=FUEL)
        return tuple(found)

    def refusal(self) -> Exception | None:
        """Why there is no gradient of these launches, or None."""
        for made, after in zip(self.made, self.states[1:]):
            refused = made.refusal or overlap(made.lean, ReferenceBackend(fuel=FUEL), [after], self.scalars)
            if refused is not None:
                return refused
        return None

    # -- on an executor -------------------------------------------------------------------------------------

    def forward(self, on: On) -> Arrays:
        """The state after the last launch."""
        state = _copies(self.initial)
        for made in self.made:
            Launcher(made.optimised, on.backend, on.options).run(state, self.scalars, DRAWS)
        return state

    def gradient(self, on: On, seeds: Arrays) -> Arrays:
        """Adjoints of the initial state: the gradients of all kernels, last to first."""
        adjoints = seeds
        for number, made in reversed(list(enumerate(self.made))):
            memory = _copies({**self._primals(self.states, number, made.lean), **adjoints})
            Launcher(made.lean, on.backend, on.options).run(memory, self.scalars, DRAWS)
            adjoints = {name: memory[name] for name in seeds}
        return adjoints

    @staticmethod
    def _primals(states: tuple[Arrays, ...], number: int, lean: Lowered) -> State:
        """What a gradient finds: the state after its launch, and what it takes of the one before."""
        return {**states[number + 1], **copies(lean, states[number])}

    # -- bounds: distances from the exact result --------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[Bounded, ...]:
        """Of the state after each launch."""
        found: list[Bounded] = []
        state: Arrays = self.initial
        errors: Arrays | None = None
        for made in self.made:
            found.append(bounded(made.plain.kernel, state, self.scalars, DRAWS, errors))
            state, errors = found[-1].arrays, found[-1].errors
        return tuple(found)

    def gradient_bounds(self, seeds: Arrays) -> Bounded:
        """Of the adjoints of the initial state; those of a gradient at states that have errors of their own."""
        adjoints, errors = seeds, dict[str, np.ndarray]()
        exact = {name: np.zeros(array.shape) for name, array in self.initial.items()}
        moves: tuple[Arrays, ...] = (exact, *(state.errors for state in self.bounds))
        states: tuple[Arrays, ...] = (self.initial, *(state.arrays for state in self.bounds))
        for number, made in reversed(list(enumerate(self.made))):
            memory = {**self._primals(states, number, made.lean), **adjoints}
            known = {**self._primals(moves, number, made.lean), **errors}
            found = bounded(made.lean.kernel, memory, self.scalars, DRAWS, known)
            adjoints = {name: found.arrays[name] for name in seeds}
            errors = {name: found.errors[name] for name in seeds}
        poisoned = found.poisoned or next((state.poisoned for state in self.bounds if state.poisoned), None)
        return replace(found, arrays=dict(adjoints), errors=errors, poisoned=poisoned)


def _copies(arrays: Mapping[str, np.ndarray]) -> State:
    return {name: array.copy() for name, array in arrays.items()}
