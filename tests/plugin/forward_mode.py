"""Define an executor outside of the package: forward mode by dual numbers, one direction for each element.

It calls `jvp`, which executes the IR one iteration after the other with pairs (value, tangent). For element j of the
initial contents, with the cotangents s of the final contents,

    gradient[j] = <s, J e_j>

so that it shares nothing with a reverse mode. It costs a run of the kernel for each element: small kernels only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from stackgrad.backends.base import Draws, Scalars
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.testing.executors import lower_plainly
from stackgrad.harness.testing.launch import array_parameters, is_forward, with_gradient
from stackgrad.harness.testing.oracles import dual
from stackgrad.harness.testing.outcome import Arrays
from stackgrad.harness.testing.rounding import narrowest_type


@dataclass
class ForwardMode:
    """Represent an executor that computes values and gradients by dual numbers."""

    name: str = "forward mode"
    seconds: float | None = None

    def supports(self, kernel: Kernel) -> str | None:
        """Return why a kernel cannot run: dual numbers know neither adstacks nor single precision."""
        if narrowest_type(kernel) not in (None, f64):
            return "computes in double precision only"
        return None if is_forward(kernel) else "not a forward kernel"

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """Return the final contents of all array parameters."""
        begin = time.perf_counter()
        values, _ = dual.jvp(lower_plainly(kernel).kernel, self._chosen(kernel, arrays), scalars, {}, draws)
        self.seconds = time.perf_counter() - begin
        return values

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """Return <seeds, J e> for each unit vector e of the initial contents `before`."""
        begin = time.perf_counter()
        plain, content = lower_plainly(kernel).kernel, self._chosen(kernel, before)
        found = {name: np.zeros_like(before[name]) for name in with_gradient(kernel)}
        for name, adjoint in found.items():
            for at, unit in self._units(adjoint):
                _, moved = dual.jvp(plain, content, scalars, {name: unit}, draws)
                adjoint[at] = sum(np.vdot(seeds[n], moved[n]) for n in seeds)
        self.seconds = time.perf_counter() - begin
        return found

    @staticmethod
    def _chosen(kernel: Kernel, arrays: Arrays) -> dict[str, np.ndarray]:
        return {name: arrays[name] for name in array_parameters(kernel)}

    @staticmethod
    def _units(like: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        for at in np.ndindex(like.shape):
            unit = np.zeros_like(like)
            unit[at] = 1.0
            yield at, unit
