"""Define fixtures that run kernels, given as IR text, on a CPU backend of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.cpu.backend import CpuBackend, CpuExecutable
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel


@dataclass
class Bench:
    """Represent a CPU backend with the kernels that it has compiled so far."""

    backend: CpuBackend
    made: dict[tuple[str, Options], CpuExecutable] = field(default_factory=dict)

    def compile(self, text: str | Kernel, **options: bool) -> CpuExecutable:
        kernel = parse_kernel(text) if isinstance(text, str) else text
        key = repr(kernel), Options(**options)
        if key not in self.made:
            self.made[key] = self.backend.compile(kernel, key[1])
        return self.made[key]

    def run(
        self,
        text: str | Kernel,
        arrays: dict[str, np.ndarray] | None = None,
        scalars: dict[str, Any] | None = None,
        capacities: dict[str, int] | None = None,
        rows: dict[tuple[int, str], int] | None = None,
        draws: Draws | None = None,
        **options: bool,
    ) -> dict[str, np.ndarray]:
        """Compile a kernel, launch it, and return the arrays."""
        arrays = arrays or {}
        sizes = Sizes(capacities or {}, rows or {})
        self.compile(text, **options).run(arrays, scalars or {}, sizes, draws or Draws())
        return arrays


@pytest.fixture
def bench() -> Bench:
    """Return a new backend that no other test uses."""
    return Bench(CpuBackend())


@pytest.fixture(scope="module")
def shared() -> Bench:
    """Return one backend for all tests of a module that only compute values."""
    return Bench(CpuBackend())


@pytest.fixture
def count() -> Callable[..., list[int]]:
    """Return a function that runs serial code and returns how often `atomic add log[...]` visited each element."""

    def run(bench: Bench, body: str, size: int = 8, **options: bool) -> list[int]:
        log = np.zeros(size, np.int32)
        bench.run(f"kernel k(log: i32[1]) {{ serial {{ {body} }} }}", {"log": log}, **options)
        return [int(x) for x in log]

    return run
