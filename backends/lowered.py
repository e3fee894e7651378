"""What the driver makes of a kernel, as far as launches look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ..compiler.errors import StackgradError
from ..compiler.ir.nodes import Kernel
from ..compiler.sizing.post_order import KeptSizes


class Marking(Protocol):
    """What decides whether a kernel is right on these arrays, see the compiler's `marks`: a kernel that fills arrays.

    kernel: takes `names`, of shape (*shape of the marked array, PLANES), and `$conflicts`, a row of `width` for each of
    `reads`; any number left there is a conflict.
    """

    @property
    def kernel(self) -> Kernel: ...
    @property
    def marked(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def reads(self) -> Sequence[object]: ...
    @property
    def width(self) -> int: ...
    @property
    def by_hand(self) -> bool: ...
    def check_sizes(self, sizes: Mapping[str, int]) -> None: ...
    def refusal(self, marks: Sequence[np.ndarray], conflicts: np.ndarray) -> StackgradError: ...


class Lowered(Protocol):
    """What the driver makes of a kernel.

    kernel: what runs. counting: finds the depths of its adstacks, or None. reads, writes: array parameters whose
    content the kernel loads, stores to. shadow: array parameters that the counting kernel stores to. before: the array
    behind each parameter that takes a copy of what it held before. marking: decides whether it may run, or None.
    claims: tells after a launch whether what the program states holds, or None. sizes: what counting finds, as
    expressions, or None.
    """

    @property
    def kernel(self) -> Kernel: ...
    @property
    def counting(self) -> Kernel | None: ...
    @property
    def reads(self) -> frozenset[str]: ...
    @property
    def writes(self) -> frozenset[str]: ...
    @property
    def shadow(self) -> frozenset[str]: ...
    @property
    def before(self) -> Mapping[str, str]: ...
    @property
    def marking(self) -> Marking | None: ...
    @property
    def claims(self) -> Marking | None: ...
    @property
    def sizes(self) -> KeptSizes | None: ...
