"""This module contains the benchmarks that also exist as JAX programs, so that JAX can be compared.

Only the process of JAX imports it. Each work takes `works.Timed` as its argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("sweep", "device_sweep")
"""Names of the works in this module. JAX itself is imported only by works that run."""


def _sweep() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """Return a JAX function of 64 trips on each of 2^20 elements, its gradient, and the total number of trips.

    The steps are a loop over arrays, fused by XLA.
    """
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, 1 << 20), jnp.float32)

    def steps(v: Any) -> Any:
        return jax.lax.fori_loop(0, 64, lambda _, u: jnp.sin(u) * 0.95 + 0.01, v)

    forward, grad = jax.jit(steps), jax.jit(lambda v, c: jax.vjp(steps, v)[1](c)[0])
    ones = jnp.ones_like(x)
    return lambda: forward(x), lambda: grad(x, ones), 64 * x.size


def sweep(timed: Callable[..., Any]) -> dict[str, Any]:
    """Return benchmarks in JAX of a loop of 64 trips that wait for the end of each launch."""
    forward, grad, each = _sweep()
    forward().block_until_ready(), grad().block_until_ready()
    return {
        "forward": timed(lambda: forward().block_until_ready(), "ns/step", each),
        "grad": timed(lambda: grad().block_until_ready(), "ns/step", each),
    }


def device_sweep(timed: Callable[..., Any]) -> dict[str, Any]:
    """Return benchmarks in JAX of a loop of 64 trips that queue twenty launches and then wait."""
    forward, grad, _ = _sweep()

    def queued(call: Callable[[], Any]) -> Any:
        call().block_until_ready()
        return timed(lambda: [call() for _ in range(20)][-1].block_until_ready(), "µs", 20, number=1)

    return {"forward": queued(forward), "grad": queued(grad)}


WORKS: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {"sweep": sweep, "device_sweep": device_sweep}
"""Works of JAX by name."""
