"""Compute second derivatives of single kernels, by the compiler and by JAX, which executes the source kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_reverse, prepare_second, prepare_tangent
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.compiler.passes.split_tasks import split_tasks
from stackgrad.harness.testing.oracles import jax_oracle
from stackgrad.harness.testing.oracles.common import carriers as carrying_arrays

jax.config.update("jax_enable_x64", True)
Arrays = dict[str, np.ndarray]
DRAWS = Draws(3, 7)
PRECISE = Options(precise=True, effort=0)
LOWERINGS = ("lean", "classic")


def carriers(kernel: Kernel) -> list[str]:
    """Return the names of the arrays that have an adjoint."""
    return [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]


def normal(kernel: Kernel, arrays: Arrays, seed: int) -> Arrays:
    """Return a random direction, or cotangent, for all arrays that have an adjoint."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=arrays[name].shape).astype(arrays[name].dtype) for name in carriers(kernel)}


def second(
    kernel: Kernel, arrays: Arrays, scalars: dict[str, Any], v: Arrays, w: Arrays, arch: str, lowering: str
) -> tuple[Arrays, Arrays]:
    """Return the gradient of <w, final contents> by the initial contents, and its derivative along v."""
    backend = registry.get(arch)
    memory = {k: a.copy() for k, a in arrays.items()} | {f"{k}.dual": a.copy() for k, a in v.items()}
    Launcher(prepare_tangent(kernel, v, check=True), backend, PRECISE).run(memory, scalars, DRAWS)
    memory |= {f"{k}.grad": a.copy() for k, a in w.items()}
    memory |= {f"{k}.grad.dual": np.zeros_like(a) for k, a in w.items()}
    gradient = prepare_reverse(kernel, lowering, taped=True)
    for copy, array in gradient.before.items():
        memory[copy] = arrays[array].copy()
        if array in v:
            memory[f"{copy}.dual"] = v[array].copy()
    made = prepare_second(gradient.kernel, [*v, *(f"{k}.grad" for k in w)], (), gradient.before, check=True)
    Launcher(made, backend, PRECISE).run(memory, scalars, DRAWS)
    return {k: memory[f"{k}.grad"] for k in v}, {k: memory[f"{k}.grad.dual"] for k in v}


def jax_second(kernel: Kernel, arrays: Arrays, scalars: dict[str, Any], v: Arrays, w: Arrays) -> tuple[Arrays, Arrays]:
    """Return the same as `second`, by `jax.jvp` of `jax.vjp` of the kernel as the JAX oracle executes it."""
    kernel, names = split_tasks(kernel), list(v)

    def final(*initial: Any) -> list[Any]:
        traces = dict(zip(names, initial))
        cells = jax_oracle._memory(kernel, arrays, carrying_arrays(kernel, names), traces, widen=True)
        jax_oracle._execute(kernel, cells, scalars, DRAWS, widen=True)
        return [jax_oracle._traced(cells[name]) for name in names]

    def pull(*initial: Any) -> Any:
        return jax.vjp(final, *initial)[1]([padded(w, name) for name in names])

    def padded(content: Arrays, name: str) -> Any:
        return jnp.asarray(jax_oracle._padded(content[name], arrays[name]))

    first, along = jax.jvp(pull, [padded(arrays, k) for k in names], [padded(v, k) for k in names])
    sizes = [arrays[k].size for k in names]
    return tuple(  # type: ignore[return-value]
        {k: np.asarray(a)[:s].reshape(arrays[k].shape) for k, a, s in zip(names, side, sizes)}
        for side in (first, along)
    )
