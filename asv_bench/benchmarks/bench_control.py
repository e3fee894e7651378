"""The machine itself, with no code of ours: when these move, so does everything else, and no commit is to blame.

Look here first when a graph jumps. Arithmetic, memory traffic, the interpreter and the start of a process are timed
apart, since a slow neighbour or a new kernel of the operating system slows them by different factors.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from .common import BATCH


class Machine:
    """NumPy and Python alone."""

    repeat = (3, 15, 4.0)
    rounds = 2
    warmup_time = 0.1

    def setup(self) -> None:
        """Arrays: one that fits into the cache, two that do not."""
        self.small = np.random.default_rng(0).uniform(-1, 1, 1 << 14)
        self.source = np.ones(1 << 22)
        self.target = np.empty_like(self.source)
        self.indices = np.random.default_rng(1).integers(0, 1 << 22, 1 << 20)

    def time_arithmetic(self) -> None:
        """The sine recurrence of the workloads in NumPy, in the cache: 16,384 elements, 64 steps."""
        v = self.small.copy()
        for _ in range(64):
            np.sin(v, out=v)
            v *= 0.95
            v += 0.01

    def time_stream(self) -> None:
        """Reads 32 MiB and writes 32 MiB."""
        np.copyto(self.target, self.source)

    def time_gather(self) -> None:
        """2^20 loads from random places of 32 MiB."""
        self.source.take(self.indices, mode="clip")

    def time_calls_x1000(self) -> None:
        """As many calls of an empty Python function as a batch of launches makes."""
        for _ in range(BATCH):
            _nothing()


class Processes:
    """What `bench_import` builds on."""

    repeat = (3, 10, 5.0)
    rounds = 2
    number = 1

    def time_python(self) -> None:
        """Start and end of an interpreter that does nothing."""
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    def timeraw_numpy(self) -> str:
        """`import numpy` in a fresh process, without the start of the interpreter."""
        return "import numpy"


def _nothing() -> None:
    pass
