"""Test random numbers in differentiated kernels: the gradient repeats the draws of its launch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.oracles import jax_oracle

jax.config.update("jax_enable_x64", True)


class Sampler:
    """Represent a program z = mu + sigma * eps, which stores the drawn eps; loss = sum z^2 * k over n steps."""

    def __init__(self) -> None:
        self.mu = sg.field(sg.f64, 5, needs_grad=True)
        self.sigma = sg.field(sg.f64, 5, needs_grad=True)
        self.eps = sg.field(sg.f64, (5, 3))
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        mu, sigma, eps, loss = self.mu, self.sigma, self.eps, self.loss
        mu.from_numpy(np.linspace(-1, 1, 5))
        sigma.from_numpy(np.linspace(0.5, 2, 5))

        @sg.kernel
        def sample():
            for i in mu:
                z = mu[i]
                for k in range(3):
                    e = sg.randn()
                    eps[i, k] = e
                    z = sg.sin(z + sigma[i] * e)
                loss[None] += z * z

        self.sample = sample

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients by JAX, for the draws that the kernel stored."""
        eps = self.eps.to_numpy()

        def loss(mu: jax.Array, sigma: jax.Array) -> jax.Array:
            z = mu
            for k in range(3):
                z = jnp.sin(z + sigma * eps[:, k])
            return (z * z).sum()

        made = jax.grad(loss, (0, 1))(self.mu.to_numpy(), self.sigma.to_numpy())
        return np.asarray(made[0]), np.asarray(made[1])


def test_reparameterized_sampling() -> None:
    p = Sampler()
    seen = []
    for _ in range(3):
        with sg.ad.Tape(p.loss):
            p.sample()
        for found, want in zip((p.mu.grad, p.sigma.grad), p.expected()):
            np.testing.assert_allclose(found.to_numpy(), want, 1e-10, 1e-12)
        seen.append(p.eps.to_numpy())
    assert np.unique(np.stack(seen)).size == 45


def test_two_launches_on_one_tape() -> None:
    """Each gradient replays its own launch: d loss / d x[i] is the sum of both draws."""
    x, u, loss = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, (2, 4)), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def noise(step: sg.i32):
        for i in x:
            r = sg.random()
            u[step, i] = r
            loss[None] += r * x[i]

    with sg.ad.Tape(loss):
        noise(0)
        noise(1)
    np.testing.assert_allclose(x.grad.to_numpy(), u.to_numpy().sum(0), 1e-14)
    assert np.unique(u.to_numpy()).size == 8


def test_gradient_by_hand_replays_the_last_launch() -> None:
    p = Sampler()
    p.sample()
    p.sample()
    p.loss.grad[None] = 1
    p.sample.grad()
    np.testing.assert_allclose(p.mu.grad.to_numpy(), p.expected()[0], 1e-10, 1e-12)


TASKS = """kernel k(x: f64[1] grad, n: i32[1], y: f64[1] grad) {
  serial {
    %0: i32 = const 1
    %1: f64 = random
    %2: f64 = load x[%0]
    %3: f64 = mul %1, %2
    store y[%0], %3
  }
  bounds {
    %4: i32 = const 0
    %5: i32 = shape x, 0
  } parallel %6: i32 in %4 .. %5 {
    %7: i32 = load n[%6]
    %8: f64 = load x[%6]
    %9: i32 = const 0
    local v: f64
    set v, %8
    for %10: i32 in %9 .. %7 {
      %11: f64 = get v
      %12: f64 = random
      %13: f64 = mul %11, %12
      %14: f64 = const 0.5
      %15: u1 = cmp_gt %12, %14
      if %15 {
        %16: f64 = random
        %17: f64 = sin %13
        %18: f64 = add %17, %16
        set v, %18
        %19: f64 = const 0.9
        %20: u1 = cmp_gt %16, %19
        if %20 { break 1 }
      } else {
        set v, %13
      }
    }
    %21: f64 = get v
    %22: f64 = atomic add y[%6], %21
  }
}"""


@pytest.mark.parametrize("lowering", ["lean", "classic"])
def test_draws_that_decide(lowering: str, arch: str) -> None:
    """Several tasks, draws in branches of loops that stop early: the numbers of draws differ by iteration."""
    kernel, draws, backend = parse_kernel(TASKS), Draws(5, 3), registry.get(arch)
    rng = np.random.default_rng(0)
    before = {"x": rng.standard_normal(6), "n": np.array([0, 1, 2, 3, 5, 9], np.int32), "y": np.zeros(6)}
    seed = rng.standard_normal(6)
    want = jax_oracle.vjp(kernel, before, {}, {"y": seed, "x": np.zeros(6)}, draws=draws)
    memory = {name: array.copy() for name, array in before.items()}
    Launcher(prepare_forward(kernel), backend, Options()).run(memory, {}, draws)
    memory |= {"x.grad": np.zeros(6), "y.grad": seed.copy()}
    Launcher(prepare_reverse(kernel, lowering, check=True), backend, Options()).run(memory, {}, draws)
    np.testing.assert_allclose(memory["x.grad"], want["x"], 1e-10)
