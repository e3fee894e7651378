"""Kick a chain of coupled pendulums so that it stands at a given place at a given time.

Three pendulums on one shaft, joined by torsion springs, obey
    a_i'' = -sin(a_i) + K (a_{i-1} - 2 a_i + a_{i+1}) - C a_i'          (free ends)
in units of the pendulum's own frequency. Each chain chooses its own time step: fast motion gets shorter sub-steps,
so the number of sub-steps depends on the data and differs from chain to chain. The unknowns are the three initial
speeds of each chain, found by gradient descent through all sub-steps. Chains differ in their coupling K.

After a small kick, a mode of frequency w returns to its rest angle after a time pi / w, no matter how strong the kick
was, so at such a time some targets cannot be reached. The fastest mode has w = sqrt(1 + 3 K), so with K up to 0.8
all times below 1.7 are safe.

    python examples/pendulum_chain.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import stackgrad as sg

COUPLINGS = (0.1, 0.8)
DAMPING = 0.05
LONGEST = 0.04
TARGET = (0.6, 0.2, -0.4)
CHECK = {"chains": 6, "duration": 0.5, "iterations": 2}
"""What `stackgrad check` runs."""


@sg.func
def pull(left, own, right, k):
    """Return the angular acceleration of a pendulum without damping, from its angle and those of its neighbors."""
    return k * (left - 2.0 * own + right) - sg.sin(own)


def motion(kick: sg.Field, coupling: sg.Field, substeps: sg.Field, loss: sg.Field, duration: float) -> sg.Kernel:
    """Return the kernel that simulates all chains from the kick to the end, by semi-implicit Euler steps."""
    (chains,) = coupling.shape

    @sg.kernel
    def swing():
        for c in range(chains):
            k = coupling[c]
            a0 = 0.0
            a1 = 0.0
            a2 = 0.0
            w0 = kick[c, 0]
            w1 = kick[c, 1]
            w2 = kick[c, 2]
            left = duration
            count = 0
            while left > 0.0:
                fastest = sg.max(abs(w0), sg.max(abs(w1), abs(w2)))
                h = sg.min(left, LONGEST / (1.0 + fastest))
                w0 += h * (pull(a0, a0, a1, k) - DAMPING * w0)
                w1 += h * (pull(a0, a1, a2, k) - DAMPING * w1)
                w2 += h * (pull(a1, a2, a2, k) - DAMPING * w2)
                a0 += h * w0
                a1 += h * w1
                a2 += h * w2
                left -= h
                count += 1
            substeps[c] = count
            d0 = a0 - TARGET[0]
            d1 = a1 - TARGET[1]
            d2 = a2 - TARGET[2]
            loss[None] += (d0 * d0 + d1 * d1 + d2 * d2) / chains

    return swing


def build(chains: int, duration: float) -> tuple[tuple[sg.Field], Callable[[], float], sg.Field]:
    """Return the unknown kicks (chains, 3) at a first guess, a function that evaluates them, and a field.

    The function runs the simulation and its gradient, stores the gradient to `grad` of the kicks, and returns the loss.
    The last field, of shape (chains,), gets the number of sub-steps of each chain.
    """
    kick = sg.field(sg.f64, shape=(chains, 3), needs_grad=True)
    coupling = sg.field(sg.f64, shape=chains)
    substeps = sg.field(sg.i32, shape=chains)
    loss = sg.field(sg.f64, shape=(), needs_grad=True)
    coupling.from_numpy(np.linspace(*COUPLINGS, chains))
    kick.from_numpy(np.random.default_rng(0).normal(0.0, 1.0, (chains, 3)))
    swing = motion(kick, coupling, substeps, loss, duration)

    def evaluate() -> float:
        with sg.ad.Tape(loss):
            swing()
        return float(loss[None])

    return (kick,), evaluate, substeps


def barzilai_borwein(moved: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Return a descent step length for each chain, of shape (chains, 1), by the method of Barzilai and Borwein.

    With dx the last change of the unknowns and dg that of the gradient, the length is |dx.dg| / dg.dg.
    """
    return (abs((moved * turned).sum(1)) / (1e-30 + (turned * turned).sum(1)))[:, None]


def main(
    chains: int = 64, duration: float = 1.5, iterations: int = 40, arch: Any = None, report: bool = True
) -> list[float]:
    """Optimize the kicks. Return the mean squared distance from the target angles at each iteration, in rad²."""
    sg.init(arch=arch or sg.cpu, default_fp=sg.f64)
    (kick,), evaluate, substeps = build(chains, duration)
    history = []
    x_before = slope_before = np.zeros(kick.shape)
    for iteration in range(iterations):
        history.append(evaluate())
        x, slope = kick.to_numpy(), chains * kick.grad.to_numpy()
        step = barzilai_borwein(x - x_before, slope - slope_before) if iteration > 0 else 0.1
        kick.from_numpy(x - step * slope)
        x_before, slope_before = x, slope
        if report and iteration % 5 == 0:
            taken = substeps.to_numpy()
            print(f"iteration {iteration:3d}  error {history[-1]:.2e}  sub-steps {taken.min()} to {taken.max()}")
    return history


if __name__ == "__main__":
    losses = main()
    print(f"mean squared error {losses[0]:.2e} at first, {losses[-1]:.2e} after {len(losses)} iterations")
