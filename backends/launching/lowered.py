"""Describe the result of lowering a kernel, as far as launches need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...compiler.errors import StackgradError
from ...compiler.ir.nodes import Kernel
from ...compiler.sizing.stored_sizes import StoredSizes


class MarkingKernelLike(Protocol):
    """Describe a kernel that fills arrays with marks, which decide whether another kernel is right on its arrays.

    See the compiler's `marks`. The kernel takes `names`, of shape (*shape of the marked array, PLANES), and
    `$conflicts`, a row of `width` for each of `reads`; any number left there is a conflict.
    """

    @property
    def kernel(self) -> Kernel:
        """Return the marking kernel."""
        ...

    @property
    def marked(self) -> tuple[str, ...]:
        """Return the names of the arrays whose elements are marked."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the arrays of marks."""
        ...

    @property
    def reads(self) -> Sequence[object]:
        """Return the reads that may conflict with a write."""
        ...

    @property
    def width(self) -> int:
        """Return how many numbers describe one conflict."""
        ...

    @property
    def by_hand(self) -> bool:
        """Return True if the kernel also looks for elements that are overwritten later.

        Such elements matter only for gradients that are called by hand.
        """
        ...

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise an error if an array is too large to be marked."""
        ...

    def refusal(self, marks: Sequence[np.ndarray], conflicts: np.ndarray) -> StackgradError:
        """Return the error that the marks and conflicts describe."""
        ...


class LoweringLike(Protocol):
    """Describe what the driver makes of a kernel."""

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that runs."""
        ...

    @property
    def counting(self) -> Kernel | None:
        """Return the kernel that finds the depths of the adstacks, or None."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """Return the array parameters whose elements the kernel loads."""
        ...

    @property
    def writes(self) -> frozenset[str]:
        """Return the array parameters to which the kernel stores."""
        ...

    @property
    def shadow(self) -> frozenset[str]:
        """Return the array parameters to which the counting kernel stores."""
        ...

    @property
    def before(self) -> Mapping[str, str]:
        """Return, for each parameter that takes a copy of what an array held before, the name of this array."""
        ...

    @property
    def marking(self) -> MarkingKernelLike | None:
        """Return the kernel that decides whether the kernel may run, or None."""
        ...

    @property
    def claims(self) -> MarkingKernelLike | None:
        """Return the kernel that checks after a launch whether the claims of the program hold, or None."""
        ...

    @property
    def sizes(self) -> StoredSizes | None:
        """Return what counting finds, as expressions, or None."""
        ...
