"""Time NumPy and Python code only, as a control: if these times change, the machine changed, not the project.

Look at these figures first when a graph jumps. Arithmetic, memory traffic, the interpreter and the start of a process
are timed separately, since a slow neighbor or a new kernel of the operating system slows them by different factors.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from .common import BATCH


class Machine:
    """Measure the speed of this machine with NumPy and plain Python, without stackgrad."""

    repeat = (3, 15, 4.0)
    rounds = 2
    warmup_time = 0.1

    def setup(self) -> None:
        """Make arrays: one that fits into the cache, two that do not."""
        self.small = np.random.default_rng(0).uniform(-1, 1, 1 << 14)
        self.source = np.ones(1 << 22)
        self.target = np.empty_like(self.source)
        self.indices = np.random.default_rng(1).integers(0, 1 << 22, 1 << 20)

    def time_arithmetic(self) -> None:
        """Run the sine recurrence of the workloads in NumPy, in the cache: 16,384 elements, 64 steps."""
        v = self.small.copy()
        for _ in range(64):
            np.sin(v, out=v)
            v *= 0.95
            v += 0.01

    def time_stream(self) -> None:
        """Measure memory traffic: one operation of NumPy that reads 32 MiB and writes 32 MiB."""
        np.copyto(self.target, self.source)

    def time_gather(self) -> None:
        """Gather 2^20 elements at random indices of a 32 MiB array."""
        self.source.take(self.indices, mode="clip")

    def time_calls_x1000(self) -> None:
        """Call an empty Python function 1000 times, as a baseline for the launch benchmarks."""
        for _ in range(BATCH):
            _nothing()


class Processes:
    """Measure the start of a Python process and the import of NumPy, as a baseline for `bench_import`."""

    repeat = (3, 10, 5.0)
    rounds = 2
    number = 1

    def time_python(self) -> None:
        """Start and end an interpreter that does nothing."""
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    def timeraw_numpy(self) -> str:
        """Return Python code that asv times in a fresh process: the import of NumPy."""
        return "import numpy"


def _nothing() -> None:
    pass
