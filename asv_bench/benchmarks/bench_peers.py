"""Compare stackgrad with JAX, Quadrants and Taichi on the CPU, on the same work in the same run.

A peer that is not installed is skipped; README.md says how to install peers. Each peer runs in its own process, as all
benchmarks do. `Recurrence` is the work of `workloads.sin_recurrence` in full size, but for JAX the trip count is a
constant, because JAX cannot differentiate a loop with an unknown trip count; `setup` compares the gradient with the
exact one. `PeerWorks` are those works of `stackgrad.harness.tools.bench` that a peer can run.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from .common import Bench, median_ratio, start
from .workloads import WORKLOADS

PEERS = ("stackgrad", "jax", "quadrants", "taichi")
"""Systems by the name of their package. Append only."""

Pair = tuple[Callable[[], Any], Callable[[], Any], Callable[[], np.ndarray]]
"""Forward, gradient, and a function that returns the gradient as an array (n,) after it ran."""


WORK_COLUMNS = (
    "launch: no argument",
    "launch: one scalar",
    "launch: three ndarrays",
    "small_loop: forward",
    "small_loop: grad",
    "small_loop_arrays: forward",
    "small_loop_arrays: grad",
    "many_tasks: forward",
    "many_tasks: grad",
    "long_row: grad",
    "sweep: forward",
    "sweep: grad",
    "gated: forward",
    "gated: grad",
)
"""Names of work and column of `stackgrad.harness.tools.bench`. Append only."""

SAMPLES = 7
THREADS = 2


class PeerWorks(Bench):
    """Measure a work of `stackgrad.harness.tools.bench` on a peer: the median of seven samples, each of many calls."""

    params = (PEERS, WORK_COLUMNS)
    param_names = ("peer", "column")
    timeout = 300

    def setup(self, peer: str, column: str) -> None:
        """Start a process that compiles the work for the peer, runs it once, and checks its gradient.

        Stackgrad alone is measured by bench_side_by_side.py.
        """
        if importlib.util.find_spec(peer) is None:
            raise NotImplementedError(f"{peer} is not installed")
        if not any(importlib.util.find_spec(other) for other in PEERS[1:]):
            raise NotImplementedError("no peer is installed")
        try:
            from stackgrad.harness.tools.bench.run import BenchProcess
        except ImportError as absent:
            raise NotImplementedError(f"this version has no such works: {absent}") from absent
        work, _, self.column = column.partition(": ")
        self.process: Any = BenchProcess(sys.executable, peer, work, THREADS, "cpu", "")
        if self.process.problem or self.column not in self.process.columns:
            problem = self.process.problem or f"{peer} has no such work"
            self.process.close()
            raise NotImplementedError(problem)

    def teardown(self, peer: str, column: str) -> None:
        """End the process of the peer, if it runs."""
        if hasattr(self, "process"):
            self.process.close()

    def track_figure(self, peer: str, column: str) -> float:
        """Return the median of the samples, in microseconds; `sweep` in nanoseconds per step, `gated` in milliseconds.

        Raises:
            RuntimeError: the process ended or could not sample.
        """
        samples = [self.process.sample(self.column) for _ in range(SAMPLES)]
        if not all(isinstance(sample, float | int) for sample in samples):
            raise RuntimeError(f"{peer}: {samples[-1]}")
        return float(median(samples))

    track_figure.unit = "µs, ns/step or ms"  # type: ignore[attr-defined]


class Recurrence(Bench):
    """Measure one launch of the sine recurrence on a peer: 2^17 elements, 64 steps, single precision."""

    params = (PEERS,)
    param_names = ("peer",)

    def setup(self, peer: str) -> None:
        """Compile the recurrence for the peer, run it once, and check its gradient."""
        if importlib.util.find_spec(peer) is None:
            raise NotImplementedError(f"{peer} is not installed")
        size, trips = WORKLOADS["sin_recurrence"].sizes["full"]
        x = np.random.default_rng(2).uniform(-1, 1, size).astype(np.float32)
        self.forward, self.gradient, result = MAKERS[peer](x, trips)
        self.forward()
        self.gradient()
        np.testing.assert_allclose(result(), expected(x, trips), rtol=1e-3)

    def time_forward(self, peer: str) -> None:
        """Run the forward function of the peer for all elements."""
        self.forward()

    def time_gradient(self, peer: str) -> None:
        """Compute the gradient of the sum of all results. JAX runs the forward function again within this call."""
        self.gradient()

    def track_ratio(self, peer: str) -> float:
        """Return the median, over interleaved pairs of calls, of gradient time divided by forward time."""
        return median_ratio(self.gradient, self.forward)

    track_ratio.unit = "gradient/forward"  # type: ignore[attr-defined]


def expected(x: np.ndarray, trips: int) -> np.ndarray:
    """Return the exact derivative of the recurrence at each x in double precision: the product of 0.95 cos v."""
    v, slope = x.astype(np.float64), np.ones(len(x))
    for _ in range(trips):
        slope *= 0.95 * np.cos(v)
        v = 0.95 * np.sin(v) + 0.01
    return slope


def of_stackgrad(x: np.ndarray, trips: int) -> Pair:
    """Return the forward and gradient functions of stackgrad for the sine recurrence."""
    start("cpu")
    program = WORKLOADS["sin_recurrence"].build("full")
    (source,) = program.inputs

    def gradient() -> None:
        source.grad.fill(0)
        program.reverse()

    return program.forward, gradient, lambda: source.grad.to_numpy()


def of_jax(x: np.ndarray, trips: int) -> Pair:
    """Return the forward and gradient functions of JAX for the sine recurrence, compiled with `jax.jit`."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_platforms", "cpu")

    def run(v: Any) -> Any:
        return jax.lax.fori_loop(0, trips, lambda _, u: 0.95 * jax.numpy.sin(u) + 0.01, v)

    forward, gradient = jax.jit(run), jax.jit(jax.grad(lambda v: run(v).sum()))
    source = jax.numpy.asarray(x)
    return (
        lambda: forward(source).block_until_ready(),
        lambda: gradient(source).block_until_ready(),
        lambda: np.asarray(gradient(source)),
    )


def of_dialect(name: str, **options: Any) -> Callable[[np.ndarray, int], Pair]:
    """Return a function that makes the forward and gradient functions of the sine recurrence for the peer `name`."""

    def make(x: np.ndarray, trips: int) -> Pair:
        peer = importlib.import_module(name)
        peer.init(arch=peer.cpu, default_fp=peer.f32, offline_cache=False, log_level=peer.ERROR, **options)
        n = len(x)
        source, target = (peer.field(peer.f32, shape=n, needs_grad=True) for _ in range(2))
        bound = peer.field(peer.i32, shape=())
        bound[None] = trips
        source.from_numpy(x)

        @peer.kernel
        def recurrence():  # type: ignore[no-untyped-def]
            for i in range(n):
                v = source[i]
                for _ in range(bound[None]):
                    v = 0.95 * peer.sin(v) + 0.01
                target[i] = v

        def gradient() -> None:
            source.grad.fill(0)
            target.grad.fill(1)
            recurrence.grad()
            peer.sync()

        def forward() -> None:
            recurrence()
            peer.sync()

        return forward, gradient, lambda: source.grad.to_numpy()

    return make


MAKERS: dict[str, Callable[[np.ndarray, int], Pair]] = {
    "stackgrad": of_stackgrad,
    "jax": of_jax,
    "quadrants": of_dialect("quadrants", ad_stack_experimental_enabled=True),
    "taichi": of_dialect("taichi", ad_stack_size=128),  # not found by itself; 64 steps push 66 values
}
"""One maker for each of PEERS."""
