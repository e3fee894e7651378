"""Train a recurrent network to forget: it predicts a sum of the entries of a sequence in which earlier ones count less.

The cell is Elman's ("Finding structure in time", 1990), trained through all its steps (Werbos: "Backpropagation
through time: what it does and how to do it", 1990):

    h <- tanh(W h + U x + b)    for the entries x of the sequence in turn, from h = 0
    prediction = V h + c        of  sum over k of FADE^k (x_0 + x_1 / 2 of the entry k places before the last)

W is one 4 x 4 matrix, U one 4 x 2 matrix, b one vector, each a field of a single element; h is a local vector that
the loop carries. Sequences of different length lie one after the other in one array: sequence s has the entries
first[s] to first[s + 1] - 1, so every thread of the kernel has a loop of its own length.

    python examples/rnn.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

HIDDEN, INPUTS = 4, 2
LENGTHS = (1, 12)
FADE = 0.7
RATE = 0.03
SMALL = {"sequences": 12, "iterations": 40}
CHECK = {"sequences": 5, "iterations": 2}
"""What `stackgrad check` runs."""


@sg.data_oriented
class Network:
    """Hold the weights, the sequences and the loss. `sequences` is the number of sequences."""

    def __init__(self, sequences: int) -> None:
        self.sequences = sequences
        self.W = sg.Matrix.field(HIDDEN, HIDDEN, sg.f64, shape=(), needs_grad=True)
        self.U = sg.Matrix.field(HIDDEN, INPUTS, sg.f64, shape=(), needs_grad=True)
        self.b = sg.Vector.field(HIDDEN, sg.f64, shape=(), needs_grad=True)
        self.V = sg.Vector.field(HIDDEN, sg.f64, shape=(), needs_grad=True)
        self.c = sg.field(sg.f64, shape=(), needs_grad=True)
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)
        self.first = sg.field(sg.i32, shape=sequences + 1)
        self.answer = sg.field(sg.f64, shape=sequences)

    def read(self, lengths: np.ndarray, entries: np.ndarray) -> None:
        """Set the sequences: their lengths (sequences,) and the entries of all of them (sum of lengths, INPUTS)."""
        first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        self.x = sg.Vector.field(INPUTS, sg.f64, shape=len(entries))
        self.x.from_numpy(entries)
        self.first.from_numpy(first)
        ranks = [np.arange(n)[::-1] for n in lengths]
        fading = FADE ** np.concatenate(ranks) * (entries @ (1.0, 0.5))
        self.answer.from_numpy(np.add.reduceat(fading, first[:-1]))

    @sg.kernel
    def train(self):
        for s in range(self.sequences):
            h = sg.Vector([0.0 for _ in range(HIDDEN)])
            for k in range(self.first[s], self.first[s + 1]):
                h = sg.tanh(self.W[None] @ h + self.U[None] @ self.x[k] + self.b[None])
            miss = self.V[None].dot(h) + self.c[None] - self.answer[s]
            self.loss[None] += miss**2 / self.sequences

    def unknowns(self) -> tuple[Any, ...]:
        return self.W, self.U, self.b, self.V, self.c


def build(sequences: int) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """Return the unknowns, W, U, b, V and c, at a first guess, and a function that evaluates them.

    The function computes the loss and its gradient, stores the gradient to `grad` of the unknowns, and returns the
    loss.
    """
    net = Network(sequences)
    rng = np.random.default_rng(7)
    lengths = rng.integers(*LENGTHS, sequences, endpoint=True)
    net.read(lengths, rng.uniform(-1.0, 1.0, (lengths.sum(), INPUTS)))
    for weight in (net.W, net.U, net.V):
        weight.from_numpy(rng.normal(0.0, 0.4, weight.to_numpy().shape))

    def evaluate() -> float:
        with sg.ad.Tape(net.loss):
            net.train()
        return float(net.loss[None])

    return net.unknowns(), evaluate


def main(
    sequences: int = 128, iterations: int = 200, rate: float = RATE, arch: Any = None, report: bool = True
) -> list[float]:
    """Train the network by gradient descent. Return the mean squared error before each step."""
    common.start(arch)
    return common.minimize(*build(sequences), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
