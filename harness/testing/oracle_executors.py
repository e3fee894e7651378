"""This module makes oracles available as executors: JAX, and dual numbers along one direction.

JAX is imported when it is first asked. If it is absent, or a launch is too long for it, dual numbers judge one random
direction v of the initial contents by  <cotangent, J v> = <gradient, v>.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from ...backends.base import Draws, Scalars
from ...compiler.ir.kernels import Kernel
from ...compiler.passes.lower_blocks import lower_blocks
from .executors import lower_plainly
from .launch import array_parameters, is_plain
from .outcome import Arrays


def _plain(kernel: Kernel) -> Kernel:
    """Return the kernel split into tasks without blocks, which oracles do not know."""
    return lower_blocks(lower_plainly(kernel).kernel)


@dataclass
class JaxExecutor:
    """Run the forward kernel in eager JAX in float64, and differentiate it by the rules of JAX."""

    name: str = "jax"
    seconds: float | None = None

    def supports(self, kernel: Kernel) -> str | None:
        """Return the reason why JAX cannot run the kernel, such as that JAX is not installed, or None if it can."""
        if find_spec("jax") is None:
            return "jax is not installed; cure: pip install 'stackgrad[harness]'"
        return None if is_plain(kernel) else "the kernel is a gradient already"

    def forward(self, kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> Arrays:
        """Return the final contents of all array parameters, with reals in float64."""
        from .oracles import jax_oracle

        begin = time.perf_counter()
        found = jax_oracle.run(_plain(kernel), _chosen(kernel, arrays), scalars, draws)
        self.seconds = time.perf_counter() - begin
        return found

    def gradient(
        self, kernel: Kernel, before: Arrays, after: Arrays, scalars: Scalars, draws: Draws, seeds: Arrays
    ) -> Arrays:
        """Return the adjoints of the initial array contents, computed by `jax.vjp` from the given cotangents."""
        from .oracles import jax_oracle

        begin = time.perf_counter()
        found = jax_oracle.vjp(_plain(kernel), _chosen(kernel, before), scalars, seeds, draws=draws)
        self.seconds = time.perf_counter() - begin
        return found


def _chosen(kernel: Kernel, arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: arrays[name] for name in array_parameters(kernel)}


@dataclass(frozen=True)
class DirectionalCheck:
    """Represent the same directional derivative computed in two ways: <seeds, J v> and <gradient, v>.

    Attributes:
        forward: the side <seeds, J v>, from dual numbers.
        reverse: the side <gradient, v>.
        size: the sum of the magnitudes of all terms of both sides.
    """

    forward: float
    reverse: float
    size: float


def check_direction(
    kernel: Kernel,
    before: Arrays,
    scalars: Scalars,
    draws: Draws,
    seeds: Arrays,
    gradient: Arrays,
    tangents: Mapping[str, np.ndarray],
) -> DirectionalCheck:
    """Return <seeds, J v>, computed by dual numbers, and <gradient, v>, for the direction v = `tangents`.

    Args:
        kernel: the forward kernel.
        before: the initial contents of its arrays.
        scalars: its scalar arguments.
        draws: its source of random numbers.
        seeds: the cotangents of the final contents.
        gradient: the adjoints of the initial contents that are judged.
        tangents: the direction, one array for each array with a gradient.

    Raises:
        StackgradError: the launch failed.
    """
    from .oracles import dual

    _, moved = dual.jvp(_plain(kernel), _chosen(kernel, before), scalars, tangents, draws)
    left = [np.asarray(seeds[name] * moved[name], np.float64).ravel() for name in seeds]
    right = [np.asarray(gradient[name] * tangents[name], np.float64).ravel() for name in tangents]
    size = sum(float(np.abs(terms).sum()) for terms in (*left, *right))
    return DirectionalCheck(sum(float(t.sum()) for t in left), sum(float(t.sum()) for t in right), size)
