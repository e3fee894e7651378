"""This module defines cases of raw IR: a kernel, the contents of its arrays, and the trap that it must raise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....compiler.ir.kernels import Kernel


@dataclass(frozen=True)
class RawCase:
    """Represent a kernel of raw IR with its initial arrays and the trap that it must raise, if any.

    Attributes:
        arrays: Initial contents by name; executors get copies.
        trap: Class of the exception that the reference must raise, or None. Without checks, an empty adstack reads as 0
            and an integer division by zero gives 0.
    """

    kernel: Kernel
    arrays: dict[str, np.ndarray] = field(repr=False)
    trap: str | None = None

    def memory(self) -> dict[str, np.ndarray]:
        """Return a new copy of each initial array, by name."""
        return {name: array.copy() for name, array in self.arrays.items()}
