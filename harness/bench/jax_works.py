"""Works as JAX programs, for the columns that JAX can show. Imported in the process of JAX alone.

Each takes `works.Timed`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def sweep(timed: Callable[..., Any]) -> dict[str, Any]:
    """2^20 elements, 64 steps each: a loop over arrays, fused by XLA."""
    x = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, 1 << 20), jnp.float32)

    def steps(v: Any) -> Any:
        return jax.lax.fori_loop(0, 64, lambda _, u: jnp.sin(u) * 0.95 + 0.01, v)

    forward, grad = jax.jit(steps), jax.jit(lambda v, c: jax.vjp(steps, v)[1](c)[0])
    ones = jnp.ones_like(x)
    forward(x).block_until_ready(), grad(x, ones).block_until_ready()
    each = 64 * x.size
    return {
        "forward": timed(lambda: forward(x).block_until_ready(), "ns/step", each),
        "grad": timed(lambda: grad(x, ones).block_until_ready(), "ns/step", each),
    }


WORKS: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {"sweep": sweep}
