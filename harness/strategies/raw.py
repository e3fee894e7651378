"""A case of raw IR: a kernel with its memory, and how it must end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...compiler.ir.nodes import Kernel


@dataclass(frozen=True)
class KernelCase:
    """arrays: initial content by name; executors get copies. trap: class of the exception the reference must raise.

    Elsewhere an empty stack reads as 0 and an integer division by zero gives 0 unless checks are on.
    """

    kernel: Kernel
    arrays: dict[str, np.ndarray] = field(repr=False)
    trap: str | None = None

    def memory(self) -> dict[str, np.ndarray]:
        """Copies of the arrays."""
        return {name: array.copy() for name, array in self.arrays.items()}
