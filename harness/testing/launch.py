"""This module describes recorded launches as plain data and classifies kernels for running them again.

Invariant: nothing in this module changes a launch; executors get copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...backends.base import Draws, Scalars
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.nodes import StackAlloca
from ...compiler.ir.roles import ARRAY_USES
from ...compiler.ir.types import ArrayType
from ...compiler.ir.walk import walk_kernel
from ...compiler.passes.widen import widen
from .outcome import Arrays

GRAD = ".grad"


class CapturedLike(Protocol):
    """This protocol describes one recorded launch, such as `stackgrad.capture.CapturedLaunch`."""

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that was launched."""

    @property
    def kind(self) -> str:
        """Return the direction of the launch, "forward" or "reverse"."""

    @property
    def scalars(self) -> Scalars:
        """Return the scalar arguments, by name."""

    @property
    def draws(self) -> Draws:
        """Return the source of random numbers of the launch."""

    @property
    def before(self) -> Mapping[str, np.ndarray]:
        """Return the contents of all arrays before the launch."""

    @property
    def after(self) -> Mapping[str, np.ndarray]:
        """Return the contents of all arrays after the launch."""

    @property
    def error(self) -> str | None:
        """Return the exception that the launch raised, as text, or None if it raised none."""


@dataclass(frozen=True)
class LaunchSetting:
    """Represent the input of one launch: a kernel with its arrays, scalar arguments and random numbers.

    Attributes:
        kernel: the kernel.
        arrays: every array that the kernel may use, by name, adjoint arrays included.
        scalars: the scalar arguments, by name.
        draws: the source of random numbers.
    """

    kernel: Kernel
    arrays: Arrays
    scalars: Scalars
    draws: Draws

    @classmethod
    def of(cls, launch: CapturedLike) -> LaunchSetting:
        """Return the kernel, the initial arrays, the scalars and the draws of a recorded launch as one setting."""
        return cls(launch.kernel, launch.before, launch.scalars, launch.draws)


def widen_launch(setting: LaunchSetting) -> LaunchSetting:
    """Return the setting of a launch with its kernel, arrays and reals converted to double precision.

    Raises:
        Unsupported: the kernel reads the bits of reals.
    """
    arrays = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in setting.arrays.items()}
    return LaunchSetting(widen(setting.kernel), arrays, setting.scalars, setting.draws)


def with_gradient(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of the array parameters that have an adjoint array."""
    return tuple(p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad)


def array_parameters(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of all array parameters."""
    return tuple(p.name for p in kernel.params if isinstance(p.type, ArrayType))


def used_arrays(kernel: Kernel) -> tuple[str, ...]:
    """Return the array parameters, and the adjoint arrays that statements access without a parameter, as `x.grad`."""
    temps = {t.name for t in kernel.temps}
    kinds = ARRAY_USES
    mentioned = {s.array for s in walk_kernel(kernel) if isinstance(s, kinds)} - temps
    return tuple(dict.fromkeys((*array_parameters(kernel), *sorted(mentioned))))


def is_plain(kernel: Kernel) -> bool:
    """Return True if an oracle can run the kernel: it has no adstacks, and every array that it uses is a parameter."""
    stacks = any(isinstance(s, StackAlloca) for s in walk_kernel(kernel))
    return not stacks and set(used_arrays(kernel)) <= set(array_parameters(kernel))


def is_forward(kernel: Kernel) -> bool:
    """Return True if the kernel can be differentiated: it has no adstacks, and every array it uses is a parameter."""
    return is_plain(kernel)
