"""Gradients of .kir kernels: the reverse kernel on an executor, and the JAX oracle."""
from __future__ import annotations

import numpy as np
from stackgrad.backends.base import Draws, Options
from stackgrad.compiler.ir.nodes import Kernel

from . import running
from .directives import Check

_REVERSE: dict[tuple[str, str], Kernel] = {}


def run_both(
    kernel: Kernel, key: str, check: Check, backend: str, lowering: str, options: Options
) -> dict[str, np.ndarray]:
    """Memory after the forward kernel and then the reverse kernel, both started on the memory of the check.

    The gradient is taken at the state before the forward launch, whose outputs the reverse kernel does not see.
    """
    from stackgrad.compiler.driver import prepare_reverse

    arrays, scalars = running.memory(kernel, check)
    draws = Draws(*check.draws)
    running.launch(backend, kernel, key, options, arrays, scalars, draws)
    reverse = _REVERSE.get((key, lowering))
    if reverse is None:
        reverse = _REVERSE[key, lowering] = prepare_reverse(kernel, lowering)
    running.launch(backend, reverse, f"{lowering} {key}", options, arrays, scalars, draws)
    return arrays


def ask_jax(kernel: Kernel, check: Check) -> dict[str, np.ndarray]:
    """Adjoints by the JAX oracle, from the forward kernel alone."""
    from stackgrad.harness.oracles import jax_oracle

    arrays, scalars = running.memory(kernel, check)
    seeds = {name: arrays[f"{name}.grad"] for name in check.seeds}
    return dict(jax_oracle.vjp(kernel, arrays, scalars, seeds))
