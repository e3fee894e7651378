"""Works as JAX programs, for the columns that JAX can show. Imported in the process of JAX alone.

Each takes `works.Timed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("sweep", "device_sweep")
"""Works that there are. JAX itself is imported by those that run them."""


def _sweep() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """2^20 elements, 64 steps each: a loop over arrays, fused by XLA. (forward, gradient, steps)."""
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, 1 << 20), jnp.float32)

    def steps(v: Any) -> Any:
        return jax.lax.fori_loop(0, 64, lambda _, u: jnp.sin(u) * 0.95 + 0.01, v)

    forward, grad = jax.jit(steps), jax.jit(lambda v, c: jax.vjp(steps, v)[1](c)[0])
    ones = jnp.ones_like(x)
    return lambda: forward(x), lambda: grad(x, ones), 64 * x.size


def sweep(timed: Callable[..., Any]) -> dict[str, Any]:
    """One launch at a time."""
    forward, grad, each = _sweep()
    forward().block_until_ready(), grad().block_until_ready()
    return {
        "forward": timed(lambda: forward().block_until_ready(), "ns/step", each),
        "grad": timed(lambda: grad().block_until_ready(), "ns/step", each),
    }


def device_sweep(timed: Callable[..., Any]) -> dict[str, Any]:
    """Twenty launches queued."""
    forward, grad, _ = _sweep()

    def queued(call: Callable[[], Any]) -> Any:
        call().block_until_ready()
        return timed(lambda: [call() for _ in range(20)][-1].block_until_ready(), "µs", 20, number=1)

    return {"forward": queued(forward), "grad": queued(grad)}


WORKS: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {"sweep": sweep, "device_sweep": device_sweep}
