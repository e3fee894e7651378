"""A forward launch as plain data, and the kernels a replay of it runs.

Invariant: nothing here changes a launch; what executors get are copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..backends.base import Draws, Scalars
from ..compiler.ir.nodes import Atomic, Kernel, Load, Shape, StackAlloca, Store
from ..compiler.ir.types import ArrayType
from ..compiler.ir.walk import walk_kernel
from ..compiler.passes.widen import widen
from .outcome import Arrays

GRAD = ".grad"


class Captured(Protocol):
    """One launch as it was recorded: see `stackgrad.capture.CapturedLaunch`."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def kind(self) -> str: ...
    @property
    def scalars(self) -> Scalars: ...
    @property
    def draws(self) -> Draws: ...
    @property
    def before(self) -> Mapping[str, np.ndarray]: ...
    @property
    def after(self) -> Mapping[str, np.ndarray]: ...
    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True)
class Setting:
    """What a kernel is launched with. arrays: every array it may use, by name, adjoints included."""

    kernel: Kernel
    arrays: Arrays
    scalars: Scalars
    draws: Draws

    @classmethod
    def of(cls, launch: Captured) -> Setting:
        """Of a recorded launch."""
        return cls(launch.kernel, launch.before, launch.scalars, launch.draws)


def widened(setting: Setting) -> Setting:
    """The same launch in double precision. Raises Unsupported for a kernel that looks at the bits of reals."""
    arrays = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in setting.arrays.items()}
    return Setting(widen(setting.kernel), arrays, setting.scalars, setting.draws)


def with_gradient(kernel: Kernel) -> tuple[str, ...]:
    """Array parameters that have an adjoint array."""
    return tuple(p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad)


def primals(kernel: Kernel) -> tuple[str, ...]:
    """All array parameters."""
    return tuple(p.name for p in kernel.params if isinstance(p.type, ArrayType))


def used_arrays(kernel: Kernel) -> tuple[str, ...]:
    """Array parameters, and the adjoint arrays that statements use by the name `x.grad` alone."""
    temps = {t.name for t in kernel.temps}
    kinds = (Load, Store, Atomic, Shape)
    mentioned = {s.array for s in walk_kernel(kernel) if isinstance(s, kinds)} - temps
    return tuple(dict.fromkeys((*primals(kernel), *sorted(mentioned))))


def is_plain(kernel: Kernel) -> bool:
    """Whether a kernel has no adstacks, and every array that it uses is a parameter: what an oracle can run."""
    stacks = any(isinstance(s, StackAlloca) for s in walk_kernel(kernel))
    return not stacks and set(used_arrays(kernel)) <= set(primals(kernel))


def is_forward(kernel: Kernel) -> bool:
    """Whether a kernel is one that can be differentiated: plain, and no adjoint array among its parameters."""
    adjoints = {name + GRAD for name in with_gradient(kernel)}
    return is_plain(kernel) and not adjoints & set(used_arrays(kernel))
