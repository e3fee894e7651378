"""Define the interface of a lowered kernel as launches use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...compiler.errors import StackgradError
from ...compiler.ir.kernels import Kernel
from ...compiler.sizing.stored_sizes import StoredSizes


class MarkingKernelLike(Protocol):
    """Define the interface of a marking kernel, which fills arrays with marks before another kernel runs.

    See the compiler's `marks`. The kernel takes `names`, of shape (*shape of the marked array, PLANES), and
    `$conflicts`, a row of `width` for each of `reads`; any number left there is a conflict.
    """

    @property
    def kernel(self) -> Kernel:
        """Return the marking kernel itself, as IR."""
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
        """Return the reads of marked arrays that may conflict with a write, one for each row of `$conflicts`."""
        ...

    @property
    def width(self) -> int:
        """Return the number of columns of `$conflicts`, the output array in which each row describes one conflict."""
        ...

    @property
    def by_hand(self) -> bool:
        """Return True if the kernel also finds elements that are overwritten later, for gradients called by hand.

        A gradient under a tape gets copies of the earlier contents, so such elements matter only for calls by hand.
        """
        ...

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise an error if an array is too large to be marked."""
        ...

    def refusal(self, marks: Sequence[np.ndarray], conflicts: np.ndarray) -> StackgradError:
        """Return the error for the conflicts that the marking kernel found."""
        ...


class LoweringLike(Protocol):
    """Define the interface of the lowering of a kernel for one direction."""

    @property
    def kernel(self) -> Kernel:
        """Return the lowered kernel that a backend runs."""
        ...

    @property
    def counting(self) -> Kernel | None:
        """Return the counting kernel, or None if the adstacks need no counting."""
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
        """Return the names of the array parameters that the counting kernel writes; launches pass copies for them."""
        ...

    @property
    def before(self) -> Mapping[str, str]:
        """Return, for each parameter that takes a copy made before the launch, the name of the copied array."""
        ...

    @property
    def states(self) -> Mapping[str, str]:
        """Return, for each parameter that takes the state of an adjoint, the name of the adjoint array."""
        ...

    @property
    def marking(self) -> MarkingKernelLike | None:
        """Return the marking kernel that must run before the kernel, or None if none is needed."""
        ...

    @property
    def claims(self) -> MarkingKernelLike | None:
        """Return the kernel that checks the program's claims after a launch, or None if none can be checked."""
        ...

    @property
    def sizes(self) -> StoredSizes | None:
        """Return the size expressions that can replace the counting kernel, or None if counting is necessary."""
        ...
