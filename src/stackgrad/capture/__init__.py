"""Record launches while a program runs, so that they can be replayed on every executor and compared.

Invariant: none of this code runs unless a capture is active. While one is active, a launch costs copies of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..compiler.ir.kernels import Kernel
from ..data.fields import Array
from ..launch.bound import GRAD
from ..launch.copying import launch_copy
from ..launch.program import NOTHING, Binding, Program
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import UsageError

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars

Kind = Literal["forward", "reverse"]

__all__ = ["Capture", "CapturedLaunch", "capture"]


@dataclass(frozen=True)
class CapturedLaunch:
    """Represent a captured launch: the source kernel, its direction, and memory before and after the launch.

    Attributes:
        kernel: The source kernel.
        kind: The direction that ran.
        scalars: The scalar arguments by name.
        draws: The key of the random numbers of the launch.
        before: Copies of the array parameters of the source kernel and, where they exist, of their `x.grad`, by name,
            made before the launch.
        after: Copies of the same arrays after the launch.
        error: Text of the exception that the launch raised, or None.
    """

    kernel: Kernel
    kind: Kind
    scalars: Scalars
    draws: Draws
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]
    error: str | None = None


@dataclass
class Capture:
    """Collect the first launches of each kernel, specialization and direction that run while it is active.

    Attributes:
        limit: Number of launches to capture for each specialization and direction.
        launches: The launches captured so far, in order.
    """

    copy = staticmethod(launch_copy)
    limit: int
    launches: list[CapturedLaunch] = field(default_factory=list)
    _seen: dict[tuple[Program, Kind], int] = field(default_factory=dict)

    @contextmanager
    def recorded(
        self, binding: Binding, kind: Kind, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray] = NOTHING
    ) -> Iterator[None]:
        """Record the launch that runs inside the `with` block.

        Args:
            binding: The kernel with the memory that it runs on.
            kind: The direction that runs.
            scalars: The scalar arguments by name.
            draws: The key of the random numbers of the launch.
            replaced: Arrays, by parameter name, that the launch uses in place of the bound ones.
        """
        key = binding.program, kind
        count = self._seen.get(key, 0)
        if count >= self.limit:
            yield
            return
        self._seen[key] = count + 1
        before = _snapshot(binding, replaced)
        error: str | None = None
        try:
            yield
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            after = _snapshot(binding, replaced)
            kernel = binding.program.kernel
            self.launches.append(CapturedLaunch(kernel, kind, dict(scalars), draws, before, after, error))


@contextmanager
def capture(limit: int = 2) -> Iterator[Capture]:
    """Capture the first launches of each kernel that runs inside the `with` block, forward and reverse.

    Args:
        limit: Number of launches to capture for each specialization and direction.

    Returns:
        A context manager that yields the `Capture`; its list `launches` fills while the block runs.

    Raises:
        UsageError: Launches are being captured already.
    """
    RUNTIME.ensure()
    if RUNTIME.capture is not None:
        raise UsageError("launches are being captured already", "do not nest captures")
    made = Capture(limit)
    RUNTIME.capture = made
    try:
        yield made
    finally:
        RUNTIME.capture = None


def _snapshot(binding: Binding, replaced: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of all arrays of a launch by name, adjoints included."""
    found: dict[str, np.ndarray] = {}
    for name, array in (*binding.arrays.items(), *replaced.items()):
        if isinstance(array, Array):
            found[name] = array.memory.copy()
            if array.needs_grad:
                found[name + GRAD] = array.grad.memory.copy()
        else:
            found[name] = array.copy()
    return found
